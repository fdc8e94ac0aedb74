/** Random messages over shared queue pairs, to a peer that vanishes: nothing is lost, and each connection fails once. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type End, post, take } from '../sim/helpers.ts';
import { SIGNALED } from './peer-rig.ts';
import { World } from './sharing-world.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 60);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_129);
/** Most requests and receives of a connection at a time. */
const MOST = 40;
/** Longer than the retries of several carriers, one after the other. */
const LONG_NS = 12e9;

const step = fc.record({
  kind: fc.constantFrom('write', 'send', 'send', 'receive', 'wait'),
  connection: fc.nat(4),
  ns: fc.constantFrom(3000, 100_000),
});
const programs = fc.record({
  connections: fc.integer({ min: 2, max: 5 }),
  /** SENDs have receives at first, so that connections begin to share, and then only if there are steps for them. */
  first: fc.array(step, { minLength: 10, maxLength: 50 }),
  before: fc.array(step, { maxLength: 15 }),
  after: fc.array(step, { maxLength: 6 }),
});

class Run {
  readonly world = new World();
  readonly pairs: [End, End][];
  /** By connection: the numbers of its requests, and how they completed. */
  readonly posted: number[][];
  readonly done: string[][];
  private readonly receives: number[];
  private readonly owner: number[] = [];

  constructor(connections: number) {
    this.pairs = this.world.connections(connections);
    this.posted = this.pairs.map(() => []);
    this.done = this.pairs.map(() => []);
    this.receives = this.pairs.map(() => 0);
  }

  async step(
    { kind, connection, ns }: { kind: string; connection: number; ns: number },
    hasReceives: boolean,
  ) {
    const at = connection % this.pairs.length;
    if (kind === 'wait') await this.wait(ns);
    if (kind === 'receive' || (kind === 'send' && hasReceives)) this.receive(at);
    if ((kind !== 'send' && kind !== 'write') || this.posted[at].length === MOST) return;
    const [a, b] = this.pairs[at];
    const id = this.owner.push(at) - 1;
    this.posted[at].push(id);
    if (kind === 'write') {
      this.world.write(a, b, id);
      return;
    }
    a.send.send(id, SIGNALED, a.mr.addr, 100, a.mr.lkey);
    expect(post(a)).toBe(1);
  }

  private receive(at: number): void {
    if (this.receives[at] === MOST) return;
    this.receives[at]++;
    const [, { v, qp, recv, mr }] = this.pairs[at];
    recv.recv(1, mr.addr + 1024, 1000, mr.lkey);
    expect(v.postRecv(qp, recv.ring, 0, 1)).toBe(1);
    recv.clear();
  }

  async wait(ns: number): Promise<void> {
    const [[a, b]] = this.pairs;
    for (let part = 0; part < 4; part++) {
      await this.world.fabric.advance(ns / 4);
      for (const { wrId, status } of take(a, a.sendCq))
        this.done[this.owner[Number(wrId)]].push(`${wrId} ${status}`);
      take(b, b.recvCq);
    }
  }
}

test('random messages to a peer that vanishes', { timeout: 300_000 }, async () => {
  let failures = 0;
  await fc.assert(
    fc.asyncProperty(programs, async ({ connections, first, before, after }) => {
      const run = new Run(connections);
      for (const one of first) await run.step(one, true);
      for (const one of before) await run.step(one, false);
      run.world.device.vanish(run.pairs[0][1].pd);
      for (const one of after) await run.step(one, false);
      await run.wait(LONG_NS);
      for (const [i, done] of run.done.entries()) {
        const good = done.filter((line) => line.endsWith(' SUCCESS')).length;
        if (good < run.posted[i].length) failures++;
        const status = (nth: number) =>
          nth < good ? 'SUCCESS' : nth === good ? 'RETRY_EXC_ERR' : 'WR_FLUSH_ERR';
        expect(done).toEqual(run.posted[i].map((id, nth) => `${id} ${status(nth)}`));
      }
    }),
    { numRuns: RUNS, seed: SEED },
  );
  expect(failures).toBeGreaterThan(RUNS);
});
