/**
 * WAITs that the shim executes: where the device has none, or where its count would be of completions that the
 * application never sees.
 */
import { IBV_WC_SUCCESS, ISO_WR_WAIT } from '../verbs/constants.ts';
import * as L from '../verbs/layout.ts';
import type { Actions, QpView } from './policy.ts';

/** Whether the slot at `at` is a WAIT for completions, not a 0_WAIT. */
export function waitsForCompletions(words: Uint32Array, at: number): boolean {
  return (words[at + L.WR_OP] & 0xff) === ISO_WR_WAIT && words[at + L.WR_COUNT] !== 0;
}

export class SoftwareWaits {
  /** By CQ handle: the completion count that the next WAIT on it starts from (facts of the verbs: wait_index). */
  private readonly waitIndex = new Map<number, number>();

  /** A WAIT's target is fixed when it is posted: the count that it names, on top of the WAITs before it. */
  fix(held: Uint32Array, at: number): void {
    if (!waitsForCompletions(held, at)) return;
    const cq = held[at + L.WR_TARGET];
    const target = ((this.waitIndex.get(cq) ?? 0) + held[at + L.WR_COUNT]) | 0;
    this.waitIndex.set(cq, target);
    held[at + L.WR_REPEAT] = target;
  }

  /** Ends the WAIT that is the oldest held request, if it may end now. */
  tryEnd(qp: QpView, out: Actions): boolean {
    return this.satisfied(qp, out) && out.deliver(qp, IBV_WC_SUCCESS, 0);
  }

  private satisfied(qp: QpView, out: Actions): boolean {
    if (out.nextWord(qp, L.WR_COUNT) === 0) return true;
    const cq = out.nextWord(qp, L.WR_TARGET);
    if (((out.completionCount(cq) - out.nextWord(qp, L.WR_REPEAT)) | 0) >= 0) return true;
    out.wakeOn(qp, cq);
    return false;
  }
}
