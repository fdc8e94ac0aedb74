/** Both ends of messages that take a receive see the same over shared queue pairs as over their own. */
// @module-tag wide
import fc from 'fast-check';
import { expect } from 'vitest';
import { createPolicy } from '../../src/policies/index.ts';
import type { Interceptor } from '../../src/shim/compose.ts';
import { eachShort } from '../support/variants.ts';
import { smallCache } from './chains.ts';
import { messagePrograms, runMessages } from './message-program.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 6);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_128);

/** Below a shim: counts the requests on the program's own queue pairs, and all. Carriers receive from a shared queue. */
class Device {
  private readonly own = new Set<number>();
  posted = 0;
  onOwn = 0;

  readonly interceptor: Interceptor = {
    name: 'device',
    wrap: (next) => ({
      createQp: (pd, attr) => {
        const info = next.createQp(pd, attr);
        if (attr.srq === undefined) this.own.add(info.handle);
        return info;
      },
      postSend: (qp, ring, start, count) => {
        const n = next.postSend(qp, ring, start, count);
        this.posted += n;
        if (this.own.has(qp)) this.onOwn += n;
        return n;
      },
    }),
  };
}

eachShort(1, [
  ['drum', { connectionsPerQp: 4 }],
  ['drum', { connectionsPerQp: 4, pieceBytes: 256, windowBytes: 1500 }],
  ['share', { connectionsPerQp: 3 }],
] as const)(
  'random messages under %s with %o',
  async (policy, options) => {
    const device = new Device();
    await fc.assert(
      fc.asyncProperty(messagePrograms, async (p) => {
        const shared = [createPolicy(policy, options), device.interceptor, smallCache];
        expect(await runMessages(p, shared)).toEqual(await runMessages(p, []));
      }),
      { numRuns: RUNS, seed: SEED },
    );
    // Messages go over own queue pairs until the first receives are used up.
    expect(device.onOwn).toBeLessThan(0.8 * device.posted);
  },
  300_000,
);
