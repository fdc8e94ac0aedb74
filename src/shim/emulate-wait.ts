/**
 * WAIT over a device that has none: what follows a WAIT is held in software until it is satisfied.
 * A 0_WAIT gives up the turn: the next request goes once few enough bytes of its queue pair are in flight,
 * which is what a device's round robin would have let it have.
 */
import { IBV_SEND_SIGNALED, ISO_WR_WAIT } from '../verbs/constants.ts';
import * as L from '../verbs/layout.ts';
import type { Interceptor } from './compose.ts';
import type { Actions, Policy, QpView } from './policy.ts';
import { createShim } from './shim.ts';

export interface EmulateWaitOptions {
  /** After a 0_WAIT, bytes of one queue pair that may be in flight when its next request goes. Default 64 KiB. */
  yieldBytes?: number;
}

const DEFAULT_YIELD_BYTES = 65536;

class EmulateWait implements Policy {
  readonly name = 'emulate-wait';
  readonly needs = { wait: 'none' } as const;
  /** None of its own; but requests that it makes report, to go on, take places in completion queues. */
  readonly slots = 16;
  private readonly yieldBytes: number;
  /** By CQ handle: the completion count that the next WAIT on it starts from (facts of the verbs: wait_index). */
  private readonly waitIndex = new Map<number, number>();
  /** By queue pair: whether a 0_WAIT stands between the last request and the next. */
  private yielded = new Uint8Array(64);

  constructor(options: EmulateWaitOptions) {
    this.yieldBytes = options.yieldBytes ?? DEFAULT_YIELD_BYTES;
  }

  onload(qp: QpView, words: Uint32Array, start: number, count: number): number {
    if (this.yielded[qp.index] === 1) return 0;
    for (let i = 0; i < count; i++) {
      const opcode = words[L.slotAt(start + i) + L.WR_OP] & 0xff;
      if (opcode === ISO_WR_WAIT) return i;
    }
    return count;
  }

  executes(opcode: number): boolean {
    return opcode === ISO_WR_WAIT;
  }

  /** A WAIT's target is fixed when it is posted: the count that it names, on top of the WAITs before it. */
  onHeld(_qp: QpView, held: Uint32Array, at: number): void {
    if ((held[at + L.WR_OP] & 0xff) !== ISO_WR_WAIT || held[at + L.WR_COUNT] === 0) return;
    const cq = held[at + L.WR_TARGET];
    const target = ((this.waitIndex.get(cq) ?? 0) + held[at + L.WR_COUNT]) | 0;
    this.waitIndex.set(cq, target);
    held[at + L.WR_REPEAT] = target;
  }

  feed(qp: QpView, out: Actions): void {
    this.fit(qp.index);
    while (out.backlog(qp) > 0) {
      const op = out.nextWord(qp, L.WR_OP);
      if ((op & 0xff) !== ISO_WR_WAIT) {
        if (out.room(qp) < 1 || !this.mayGo(qp, out)) return;
        this.yielded[qp.index] = 0;
        out.pass(qp);
        continue;
      }
      if (!this.satisfied(qp, out)) return;
      // Its completion comes after those before it.
      if ((op & (IBV_SEND_SIGNALED << 8)) !== 0 && out.inflight(qp) > 0) return;
      if (out.nextWord(qp, L.WR_COUNT) === 0) this.yielded[qp.index] = 1;
      out.consume(qp);
    }
  }

  private mayGo(qp: QpView, out: Actions): boolean {
    if (this.yielded[qp.index] === 0) return true;
    const flying = out.inflightBytes(qp);
    return flying === 0 || flying + out.nextBytes(qp) <= this.yieldBytes;
  }

  private satisfied(qp: QpView, out: Actions): boolean {
    if (out.nextWord(qp, L.WR_COUNT) === 0) return true;
    const cq = out.nextWord(qp, L.WR_TARGET);
    if (((out.completionCount(cq) - out.nextWord(qp, L.WR_REPEAT)) | 0) >= 0) return true;
    out.wakeOn(qp, cq);
    return false;
  }

  private fit(index: number): void {
    if (index < this.yielded.length) return;
    const wider = new Uint8Array(Math.max(index + 1, this.yielded.length * 2));
    wider.set(this.yielded);
    this.yielded = wider;
  }
}

/** An interceptor that gives any provider WAIT, in software. */
export function emulateWait(options: EmulateWaitOptions = {}): Interceptor {
  const shim = createShim(() => new EmulateWait(options));
  return {
    name: shim.name,
    wrap(next) {
      return { ...shim.wrap(next), wait: 'emulated' };
    },
  };
}
