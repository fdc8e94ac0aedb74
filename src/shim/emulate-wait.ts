/**
 * WAIT over a device that has none: what follows a WAIT is held in software until it is satisfied.
 * A 0_WAIT gives up the turn: the next request goes once few enough bytes of its queue pair are in flight,
 * which is what a device's round robin would have let it have.
 */
import { ISO_WR_WAIT } from '../verbs/constants.ts';
import * as L from '../verbs/layout.ts';
import { withPlace } from './columns.ts';
import type { Interceptor } from './compose.ts';
import type { Actions, Policy, QpView } from './policy.ts';
import { createShim } from './shim.ts';
import { SoftwareWaits } from './software-waits.ts';

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
  private readonly softwareWaits = new SoftwareWaits();
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

  onHeld(_qp: QpView, held: Uint32Array, at: number): void {
    this.softwareWaits.fix(held, at);
  }

  feed(qp: QpView, out: Actions): void {
    this.yielded = withPlace(this.yielded, qp.index);
    while (out.backlog(qp) > 0) {
      const op = out.nextWord(qp, L.WR_OP);
      if ((op & 0xff) !== ISO_WR_WAIT) {
        if (out.room(qp) < 1 || !this.mayGo(qp, out)) return;
        this.yielded[qp.index] = 0;
        out.pass(qp);
        continue;
      }
      const isZeroWait = out.nextWord(qp, L.WR_COUNT) === 0;
      if (!this.softwareWaits.tryEnd(qp, out)) return;
      if (isZeroWait) this.yielded[qp.index] = 1;
    }
  }

  private mayGo(qp: QpView, out: Actions): boolean {
    if (this.yielded[qp.index] === 0) return true;
    const flying = out.inflightBytes(qp);
    return flying === 0 || flying + out.nextBytes(qp) <= this.yieldBytes;
  }
}

/** An interceptor that gives any provider WAIT, in software. */
export function emulateWait(options: EmulateWaitOptions = {}): Interceptor {
  const shim = createShim(() => new EmulateWait(options));
  return {
    ...shim,
    wrap(next) {
      return { ...shim.wrap(next), wait: 'emulated' };
    },
  };
}
