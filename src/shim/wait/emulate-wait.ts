/**
 * WAIT and ENABLE on a device without them. Requests behind an unsatisfied WAIT are held in software, and so are those
 * of a managed queue pair until an ENABLE releases them. A 0_WAIT either yields: the next request goes when few enough
 * bytes of its queue pair are in flight, as many as a device's round robin would have let it send. Or it takes a turn of
 * the device, as an RDMA_WRITE without data.
 */
import {
  IBV_QPT_RC,
  IBV_QPT_UC,
  IBV_SEND_SIGNALED,
  IBV_WC_SUCCESS,
  ISO_WR_WAIT,
} from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import type { Interceptor } from '../compose.ts';
import type { Actions, Policy, QpView } from '../policy.ts';
import { createShim, createStandbyShim } from '../shim.ts';
import { fitColumn } from '../tables.ts';

/** How WAIT is emulated on a device without it (docs/wait-enable.md). */
export interface EmulateWaitOptions {
  /**
   * The effect of a 0_WAIT. 'yield' (default): the next request of its queue pair is sent when few bytes are in flight.
   * 'write': an RDMA_WRITE without data takes a turn of the device, on RC and UC, whose peer must allow
   * IBV_ACCESS_REMOTE_WRITE. On other types it yields.
   */
  zeroWait?: 'yield' | 'write';
  /** After a 0_WAIT that yields, bytes of one queue pair that may be in flight when its next request goes. Default 64 KiB. */
  yieldBytes?: number;
}

const DEFAULT_YIELD_BYTES = 65536;

class EmulateWait implements Policy {
  readonly name = 'emulate-wait';
  readonly needs = { wait: 'none' } as const;
  /**
   * It makes no internal requests, but the requests that it signals in order to continue require entries of completion
   * queues.
   */
  readonly slots = 16;
  readonly crossChannel = true;
  readonly zeroWaits = true;
  private readonly yieldBytes: number;
  private readonly writes: boolean;
  /** By queue pair: whether a 0_WAIT is between the last request and the next. */
  private yielded = new Uint8Array(64);

  constructor(options: EmulateWaitOptions) {
    this.yieldBytes = options.yieldBytes ?? DEFAULT_YIELD_BYTES;
    this.writes = options.zeroWait === 'write';
  }

  /** Passes requests up to the last signaled one: a request that a WAIT may follow must report when it has ended. */
  onload(qp: QpView, words: Uint32Array, start: number, count: number): number {
    if (this.yielded[qp.index] === 1) return 0;
    let end = 0;
    let at = L.slotAt(start) + L.WR_OP;
    for (; end < count && (words[at] & 0xff) < ISO_WR_WAIT; end++) at += L.SLOT_WORDS;
    if (qp.sqSigAll) return end;
    for (; end > 0; end--) {
      at -= L.SLOT_WORDS;
      if ((words[at] & (IBV_SEND_SIGNALED << 8)) !== 0) return end;
    }
    return 0;
  }

  feed(qp: QpView, out: Actions): void {
    this.yielded = fitColumn(this.yielded, qp.index);
    if (this.issue(qp, out)) out.signalNow(qp);
  }

  /** Issues what it may; returns whether there was anything. */
  private issue(qp: QpView, out: Actions): boolean {
    let any = false;
    while (out.backlog(qp) > 0) {
      if (out.isCrossChannel(qp)) {
        if (!out.execute(qp)) return any;
      } else if (out.nextOpcode(qp) === ISO_WR_WAIT) {
        if (!this.zeroWait(qp, out)) return any;
      } else {
        if (out.room(qp) < 1 || !this.mayGo(qp, out)) return any;
        this.yielded[qp.index] = 0;
        out.pass(qp);
        any = true;
      }
    }
    return any;
  }

  private zeroWait(qp: QpView, out: Actions): boolean {
    if (this.writes && (qp.type === IBV_QPT_RC || qp.type === IBV_QPT_UC)) return out.zeroWrites(qp);
    this.yielded[qp.index] = 1;
    return out.deliver(qp, IBV_WC_SUCCESS, 0);
  }

  private mayGo(qp: QpView, out: Actions): boolean {
    if (this.yielded[qp.index] === 0) return true;
    const inFlightBytes = out.inflightBytes(qp);
    return inFlightBytes === 0 || inFlightBytes + out.nextBytes(qp) <= this.yieldBytes;
  }
}

/** An interceptor that gives any provider WAIT and ENABLE, in software. */
export function emulateWait(options: EmulateWaitOptions = {}): Interceptor {
  return emulated(createShim(() => new EmulateWait(options)));
}

/**
 * Like `emulateWait`, but for use directly below the shim of a policy: it costs nothing until it is needed
 * (standby.ts).
 * @param servesApplication whether the policy leaves WAITs of the application to it
 */
export function emulateWaitBelow(options: EmulateWaitOptions, servesApplication: boolean): Interceptor {
  if (options.zeroWait === 'write') return emulateWait(options);
  const { yieldBytes = DEFAULT_YIELD_BYTES } = options;
  return emulated(createStandbyShim(() => new EmulateWait(options), { yieldBytes, servesApplication }));
}

function emulated(shim: Interceptor): Interceptor {
  return {
    ...shim,
    wrap(next) {
      return { ...shim.wrap(next), wait: 'emulated' };
    },
  };
}
