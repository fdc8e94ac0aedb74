/** Chains of interceptors under which a program must not notice anything. */

import { tokenPacer } from '../../examples/policies/token-pacer.mjs';
import { createPolicy } from '../../src/policies/index.ts';
import type { Interceptor } from '../../src/shim/compose.ts';
import { emulateWait } from '../../src/shim/emulate-wait.ts';
import type { Actions, Policy, QpView } from '../../src/shim/policy.ts';
import { createShim } from '../../src/shim/shim.ts';
import hold from './policies/hold.mjs';
import { Interrupting } from './policies/interrupting.ts';
import passThrough from './policies/pass-through.mjs';
import split from './policies/split.mjs';

/** Cuts, holds and waits by a generator of its own: whatever a policy may do, it does at some time. */
class Arbitrary implements Policy {
  readonly name = 'arbitrary';
  readonly needs = { wait: 'none' } as const;
  readonly slots = 24;
  readonly splitsAboveBytes = 0;
  private state: number;
  constructor(seed: number) {
    this.state = seed | 1;
  }
  private next(n: number): number {
    this.state = (Math.imul(this.state, 1664525) + 1013904223) | 0;
    return (this.state >>> 8) % n;
  }
  onload(_qp: QpView, _words: Uint32Array, _start: number, count: number): number {
    return this.next(count + 1);
  }
  feed(qp: QpView, out: Actions): void {
    if (out.inflight(qp) > 0 && this.next(3) === 0) return;
    while (out.backlog(qp) > 0 && out.room(qp) >= 2 && this.next(8) !== 0) {
      if (out.splittable(qp) && out.nextBytes(qp) > 0 && this.next(4) !== 0)
        out.piece(qp, 1 + this.next(5000));
      else out.pass(qp);
      if (out.wait !== 'none' && this.next(2) === 0) out.zeroWaits(qp, 1 + this.next(3));
    }
    if (out.inflight(qp) === 0 && out.room(qp) > 0 && out.backlog(qp) > 0) out.pass(qp);
  }
}

/** Policies that are modules, for worker threads load them by name. */
const shimOf = (policy: unknown) => createShim(policy as () => Policy);
const oneByOne = () => shimOf(hold);

const perf = (sub: number, unit: number) =>
  createPolicy('perf', { subMsgSizeBytes: sub, zeroWaitUnitBytes: unit });

export interface Chain {
  chain: () => Interceptor[];
  /** Whether the devices below execute WAIT. Default true. */
  wait?: boolean;
  /** Of the random programs that the other chains have: what lives by its timers takes its time. */
  share?: number;
}

export const chains: Record<string, Chain> = {
  'pass-through': { chain: () => [shimOf(passThrough)] },
  'one by one': { chain: () => [oneByOne()] },
  arbitrary: { chain: () => [createShim(() => new Arbitrary(7))] },
  'arbitrary over arbitrary': {
    chain: () => [createShim(() => new Arbitrary(11)), createShim(() => new Arbitrary(13))],
  },
  'perf 256': { chain: () => [perf(256, 64)] },
  'perf 16384': { chain: () => [perf(16384, 1024)] },
  'perf 1024, WAIT emulated': { chain: () => [perf(1024, 256)], wait: false },
  'emulated WAIT alone': { chain: () => [emulateWait()], wait: false },
  interrupting: { chain: () => [createShim(() => new Interrupting(17))], share: 0.15 },
  'token pacer': { chain: () => [tokenPacer({ rateBytesPerS: 1e10, burstBytes: 8000 })], share: 0.15 },
  'perf over one by one': { chain: () => [perf(512, 256), oneByOne()] },
};

/** What the whole conformance suite runs under, in the application's thread. */
export const suiteChains: Record<string, () => Interceptor[]> = {
  'pass-through': () => [shimOf(passThrough)],
  split: () => [shimOf(split)],
  'split and 0_WAIT': () => [perf(256, 64)],
  hold: () => [oneByOne()],
};
