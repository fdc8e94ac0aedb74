/** Turns of the scheduler of palos: shares, carried bytes, gaps, idle queue pairs, and changes of weights. */
import { describe, expect, test } from 'vitest';
import { RandomStream } from '../../../src/sim/kernel/random.ts';
import { IDLE, type Qp, STEP } from '../../../src/sim/transport/qp.ts';
import { MTU, Rig } from './rig.ts';

/** Queue pairs of these weights that always have a packet. */
function busy(rig: Rig, weights: readonly number[]): Qp[] {
  const qps = weights.map((qpWeight) => rig.add({ qpWeight }));
  for (const qp of qps) rig.ready(qp);
  return qps;
}

describe('shares over 100 rounds', () => {
  test.each([[[1, 3]], [[1, 1.5, 2.5]], [[10, 25, 2, 3, 7]], [[1, 1000]], [[0.1, 100, 3]]])(
    'follow weights %j',
    (weights) => {
      const rig = new Rig();
      const qps = busy(rig, weights);
      const sum = weights.reduce((a, b) => a + b);
      // The lightest sends at least 100 packets, which are at least 100 turns.
      const packets = Math.ceil((100 * sum) / Math.min(...weights));
      rig.sendMany(Math.max(packets, 100 * weights.length));
      const total = qps.reduce((bytes, qp) => bytes + rig.sentBy(qp), 0);
      for (const [i, qp] of qps.entries()) {
        expect(rig.sentBy(qp) / total / (weights[i] / sum)).toBeCloseTo(1, 1);
        expect(Math.abs(rig.sentBy(qp) - (total * weights[i]) / sum)).toBeLessThan(
          ((2 * qps.length * weights[i]) / sum + 2) * MTU,
        );
      }
    },
  );

  test('are counted in payload, whatever the sizes of packets', () => {
    const rig = new Rig();
    const [small, large] = busy(rig, [1, 1]);
    rig.sendMany(20_000, (qp) => (qp === small ? 100 : MTU));
    expect(rig.sentBy(small) / rig.sentBy(large)).toBeCloseTo(1, 2);
  });

  test('count a message without payload as one byte', () => {
    const rig = new Rig();
    const [empty, other] = busy(rig, [1, 1]);
    let packets = 0;
    for (let i = 0; i < 300_000; i++) {
      const qp = rig.send(rig.scheduler.next()?.qp === empty ? 0 : MTU) as Qp;
      if (qp === empty) packets++;
      rig.ready(qp);
    }
    expect(packets / rig.sentBy(other)).toBeCloseTo(1, 1);
  });
});

test('a turn sends its whole chunk before the next one begins', () => {
  const rig = new Rig();
  const [a, b] = busy(rig, [1, 3]);
  const order = Array.from({ length: 12 }, () => {
    const qp = rig.send() as Qp;
    rig.ready(qp);
    return qp === a ? 'a' : 'b';
  });
  // Chunks are half a packet and one and a half: a sends one packet in two rounds, b two and then one.
  expect(order.join('')).toBe('abbbabbbabbb');
  expect(rig.sentBy(b)).toBe(9 * MTU);
});

describe('a queue pair that is between two requests', () => {
  test('sends the rest of its chunk first when it returns', () => {
    const rig = new Rig();
    const [a, b, c] = busy(rig, [6, 1, 1]);
    expect(rig.send()?.qpn).toBe(a.qpn);
    rig.begin(a);
    expect(rig.send()?.qpn).toBe(b.qpn);
    rig.ready(b);
    rig.ready(a);
    for (let i = 0; i < 2; i++) {
      expect(rig.send()?.qpn).toBe(a.qpn);
      rig.ready(a);
    }
    expect(rig.send()?.qpn).toBe(c.qpn);
  });

  test.each([1, 2, 3])('keeps its share although others send in its gaps, seed %i', (seed) => {
    const rig = new Rig();
    const random = new RandomStream(seed, 'gaps');
    const qps = busy(rig, [1, 2, 3, 4]);
    const away: { qp: Qp; until: number }[] = [];
    for (let i = 0; i < 40_000; i++) {
      const qp = rig.send() as Qp;
      for (const gap of away.filter(({ until }) => until <= i)) {
        away.splice(away.indexOf(gap), 1);
        rig.ready(gap.qp);
      }
      // Now and then, for less time than the others need for a round.
      if (qp === qps[0] || random.next() > 0.2 || away.length > 1) {
        rig.ready(qp);
        continue;
      }
      qp.phase = STEP;
      away.push({ qp, until: i + 1 + Math.floor(2 * random.next()) });
    }
    const bytes = qps.map((qp) => rig.sentBy(qp) / rig.sentBy(qps[0]));
    for (const [i, ratio] of bytes.entries()) expect(ratio / (i + 1)).toBeCloseTo(1, 2);
  });

  test('gets one chunk at most of what it missed', () => {
    const rig = new Rig();
    const [a, b] = busy(rig, [1, 1]);
    expect(rig.send()?.qpn).toBe(a.qpn);
    a.phase = STEP;
    for (let i = 0; i < 1000; i++) {
      expect(rig.send()?.qpn).toBe(b.qpn);
      rig.ready(b);
    }
    rig.ready(a);
    const [, later] = rig.during([a, b], () => rig.sendMany(20));
    expect(later).toBeGreaterThan(0.7);
  });
});

describe('a queue pair without work', () => {
  test('loses what is left of its chunk', () => {
    const rig = new Rig();
    const [a, b] = busy(rig, [1, 1]);
    const c = rig.add({ qpWeight: 4 });
    rig.ready(c);
    for (let i = 0; i < 3000; i++) {
      const qp = rig.send() as Qp;
      if (qp === c) {
        qp.phase = IDLE;
        rig.scheduler.next();
      }
      rig.ready(qp);
    }
    // It sends one packet in each round, although its chunk is two packets long. The others send one in two rounds.
    expect(rig.sentBy(a) / rig.sentBy(b)).toBeCloseTo(1, 2);
    expect(rig.sentBy(c) / rig.sentBy(a)).toBeCloseTo(2, 2);
  });

  test('still owes what it has sent too much', () => {
    const rig = new Rig();
    const [heavy] = busy(rig, [999]);
    const light = rig.add({ qpWeight: 1 });
    let packets = 0;
    for (let i = 0; i < 20_000; i++) {
      // It has one packet at a time, and none in between.
      if (!light.requests.queued) rig.ready(light);
      const qp = rig.send() as Qp;
      if (qp === heavy) {
        rig.ready(heavy);
        continue;
      }
      packets++;
      light.phase = IDLE;
    }
    expect(packets).toBeGreaterThan(15);
    expect(packets).toBeLessThan(25);
  });
});

test('the link is never idle while a queue pair has a packet, and every sender in the round is served', () => {
  const random = new RandomStream(7, 'work');
  for (let round = 0; round < 20; round++) {
    const rig = new Rig({ palosSums: round % 2 === 0 ? 'configured' : 'active' });
    const qps = Array.from({ length: 30 }, () =>
      rig.add({ qpWeight: 10 ** (6 * random.next() - 3), group: `g${Math.floor(4 * random.next())}` }),
    );
    const ready = new Set<Qp>();
    for (let step = 0; step < 3000; step++) {
      const qp = qps[Math.floor(qps.length * random.next())];
      const draw = random.next();
      if (draw < 0.4 && !ready.has(qp)) {
        rig.ready(qp);
        ready.add(qp);
      } else if (draw < 0.5) {
        rig.label(qp, {
          qpWeight: 10 ** (6 * random.next() - 3),
          group: `g${Math.floor(5 * random.next())}`,
        });
      } else if (draw < 0.52) {
        rig.weights.setGroupWeight('t', 'g1', 10 ** (6 * random.next() - 3));
      } else {
        const sender = rig.scheduler.next();
        expect(sender === null).toBe(ready.size === 0);
        if (sender === null) continue;
        expect(ready.has(sender.qp)).toBe(true);
        rig.send(1 + Math.floor(MTU * random.next()));
        ready.delete(sender.qp);
        sender.qp.phase = random.next() < 0.5 ? STEP : IDLE;
      }
    }
    while (ready.size > 0) ready.delete(rig.send() as Qp);
    expect(rig.send()).toBeNull();
  }
});

describe('a change at run time', () => {
  test('takes effect within two rounds', () => {
    const rig = new Rig();
    const qps = busy(rig, [1, 1, 1, 1]);
    rig.sendMany(41);
    rig.label(qps[1], { qpWeight: 5 });
    rig.sendMany(8);
    const [, ...others] = rig.during(qps, () => rig.sendMany(80));
    expect(others).toEqual([5, 1, 1]);
  });

  test('wakes a queue pair that was to wait for thousands of rounds', () => {
    const rig = new Rig();
    const [heavy, light] = busy(rig, [1e6, 1]);
    rig.sendMany(20);
    rig.label(light, { qpWeight: 1e6 });
    const [, ratio] = rig.during([heavy, light], () => rig.sendMany(200));
    expect(ratio).toBeCloseTo(1, 1);
  });

  test('of a group wakes its members soon', () => {
    const rig = new Rig();
    rig.weights.setGroupWeight('t', 'light', 1e-6);
    const heavy = rig.add({ group: 'heavy' });
    const light = rig.add({ group: 'light' });
    for (const qp of [heavy, light]) rig.ready(qp);
    rig.sendMany(20);
    rig.weights.setGroupWeight('t', 'light', 1);
    rig.sendMany(200);
    const [, ratio] = rig.during([heavy, light], () => rig.sendMany(200));
    expect(ratio).toBeCloseTo(1, 1);
  });
});

test('destroyed queue pairs leave, whatever they do', () => {
  const rig = new Rig();
  const qps = busy(rig, [1, 2, 3, 4]);
  const urgent = rig.add({ traffic: 1 });
  rig.ready(urgent);
  expect(rig.send()?.qpn).toBe(urgent.qpn);
  qps[1].phase = STEP;
  for (const qp of [urgent, ...qps.slice(1)]) {
    rig.scheduler.ended(qp.requests);
    rig.weights.remove(qp);
  }
  expect(rig.send()?.qpn).toBe(qps[0].qpn);
  expect(rig.send()).toBeNull();
  // A new queue pair in the place of a destroyed one begins anew.
  const [next] = busy(rig, [1]);
  expect(rig.send()?.qpn).toBe(next.qpn);
});
