/** The rounds themselves, compared with a model that scans every position. */
import { expect, test } from 'vitest';
import { FixedRound } from '../../src/sim/egress/fixed-round.ts';
import { TailRound } from '../../src/sim/egress/qp-scheduler.ts';
import { RandomStream } from '../../src/sim/kernel/random.ts';
import { Simulation } from '../../src/sim/simulation.ts';
import type { Qp } from '../../src/sim/transport/qp.ts';
import { ROLE_REQUEST, Sender } from '../../src/sim/transport/qp.ts';

function senders(count: number): Sender[] {
  const sim = new Simulation();
  const cq = sim.createCq(0, 16);
  const cap = { maxSendWr: 1, maxRecvWr: 1, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
  return Array.from({ length: count }, () => {
    const qp: Qp = sim.createQp({ host: 0, pd: 1, cap, sendCq: cq, recvCq: cq });
    return new Sender(qp, ROLE_REQUEST);
  });
}

test('three senders: the tail round serves in order of arrival, the fixed round by position', () => {
  const orders = [new TailRound(), new FixedRound()].map((round) => {
    const [a, b, c] = senders(3);
    const names = new Map([a, b, c].map((sender, i) => [sender, 'abc'[i]]));
    const served: string[] = [];
    const serve = (again: boolean) => {
      const sender = round.next() as Sender;
      round.charge();
      served.push(names.get(sender)!);
      if (again) round.join(sender);
    };
    for (const sender of [a, b, c]) round.join(sender);
    // c has one packet, then another a little later; a and b always have some.
    serve(true);
    serve(true);
    serve(false);
    serve(true);
    round.join(c);
    serve(true);
    serve(false);
    serve(true);
    return served.join('');
  });
  // After "abca": b, a, then c, which joined last; or b, then c, whose position is next.
  expect(orders).toEqual(['abcabac', 'abcabca']);
});

test.each([1, 2, 3])('a fixed round matches a linear scan over all positions, seed %i', (seed) => {
  const random = new RandomStream(seed, 'rings');
  const round = new FixedRound();
  const all = senders(3000);
  // By position. Positions of removed senders are reused, the last one first.
  const positions: (Sender | null)[] = [];
  const freePositions: number[] = [];
  const ready = new Set<Sender>();
  let served = -1;
  const expected = (): Sender | null => {
    for (let step = 1; step <= positions.length; step++) {
      const sender = positions[(served + step) % positions.length];
      if (sender !== null && ready.has(sender)) return sender;
    }
    return null;
  };
  const pick = () => all[random.u32() % all.length];
  for (let i = 0; i < 20_000; i++) {
    const action = random.u32() % 100;
    if (action < 45) {
      const sender = pick();
      if (!positions.includes(sender)) positions[freePositions.pop() ?? positions.length] = sender;
      ready.add(sender);
      round.join(sender);
    } else if (action < 98) {
      const head = expected();
      expect(round.next(), `seed ${seed}, step ${i}`).toBe(head);
      if (head === null) continue;
      served = positions.indexOf(head);
      ready.delete(head);
      round.charge();
    } else {
      const sender = pick();
      const position = positions.indexOf(sender);
      round.ended(sender);
      // A removed sender never returns: another one replaces it in the list.
      all[all.indexOf(sender)] = new Sender(sender.qp, ROLE_REQUEST);
      ready.delete(sender);
      if (position < 0) continue;
      positions[position] = null;
      freePositions.push(position);
    }
    if (i % 50 === 0) expect(round.next(), `seed ${seed}, step ${i}`).toBe(expected());
  }
  expect(positions.length).toBeGreaterThan(2000);
});

test('a sender that alternates between two rounds has one position in each', () => {
  const [link, loopback] = [new FixedRound(), new FixedRound()];
  const [a, b, c] = senders(3);
  for (const sender of [a, b, c]) link.join(sender);
  for (let i = 0; i < 3; i++) link.charge();
  for (let round = 0; round < 100; round++) {
    for (const round of [loopback, link]) {
      round.join(b);
      expect(round.next()).toBe(b);
      round.charge();
    }
  }
  for (const sender of [c, a]) link.join(sender);
  // b was served last, so c's position is next, then a's.
  expect(link.next()).toBe(c);
  link.charge();
  expect(link.next()).toBe(a);
});
