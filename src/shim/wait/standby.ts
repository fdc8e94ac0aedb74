/**
 * Emulation of WAIT and ENABLE that sleeps until it is needed, directly below the shim of a policy. While it
 * sleeps, posts and polls go to the device as if it were not there. The shim above executes the 0_WAITs of its policy
 * itself, and counts what the ledgers here must know when the emulation wakes, which it does only once.
 */
import { IBV_SEND_SIGNALED, ISO_WR_WAIT } from '../../verbs/constants.ts';
import { handleIndex } from '../../verbs/handles.ts';
import * as L from '../../verbs/layout.ts';
import type { Provider, QpReport, WaitStandby } from '../../verbs/provider.ts';
import type { Interceptor } from '../compose.ts';
import type { Tables } from '../tables.ts';

/** Options that decide when the emulation wakes, and how a policy above yields. */
export interface StandbyOptions {
  /** After a 0_WAIT of the policy, the bytes of one queue pair that may be in flight when its next request is sent. */
  readonly yieldBytes: number;
  /**
   * Whether WAITs of the application reach this layer. A later one must then know when all requests before it have
   * ended, so an unsignaled request that ends a post wakes the emulation.
   */
  readonly servesApplication: boolean;
}

type Overrides = ReturnType<Interceptor['wrap']>;
/** The verbs that a shim always overrides and that this class wraps. */
type Wrapped = 'postSend' | 'pollCq' | 'createQp' | 'modifyQp' | 'destroyQp' | 'resizeCq';

const { SLOT_WORDS } = L;
/** Bits of WR_OP that only opcodes from ISO_WR_WAIT upwards have. */
const CROSS_CHANNEL = 0x100 - ISO_WR_WAIT;
const SIGNALED = IBV_SEND_SIGNALED << 8;

/** The verbs of an emulating shim, asleep or awake. */
export class Standby implements WaitStandby {
  readonly yieldBytes: number;
  private readonly next: Provider;
  private readonly tables: Tables;
  private readonly servesApplication: boolean;
  private readonly shim: Overrides & Required<Pick<Overrides, Wrapped>>;
  private isAsleep = true;
  /**
   * Whether the ledgers hold completions from before a queue pair was reset or destroyed, which polls must fetch first.
   */
  private hasKept = false;
  private report: () => readonly QpReport[] = () => [];

  constructor(next: Provider, tables: Tables, shim: Overrides, options: StandbyOptions) {
    this.next = next;
    this.tables = tables;
    this.shim = shim as Overrides & Required<Pick<Overrides, Wrapped>>;
    this.yieldBytes = options.yieldBytes;
    this.servesApplication = options.servesApplication;
  }

  whenWoken(report: () => readonly QpReport[]): void {
    this.report = report;
  }

  overrides(): Overrides {
    const { shim } = this;
    return {
      ...shim,
      standby: this,
      postSend: (qp, ring, start, count) => this.postSend(qp, ring, start, count),
      pollCq: (cq, ring, start, max) => this.pollCq(cq, ring, start, max),
      createQp: (pd, attr) => {
        if (attr?.managed === true) this.wake();
        return shim.createQp(pd, attr);
      },
      modifyQp: (qp, attr, mask) => {
        shim.modifyQp(qp, attr, mask);
        this.noteKept();
      },
      destroyQp: (qp) => {
        shim.destroyQp(qp);
        this.noteKept();
      },
      resizeCq: (cq, cqe) => {
        try {
          return shim.resizeCq(cq, cqe);
        } finally {
          this.noteKept();
        }
      },
    };
  }

  private postSend(qp: number, ring: number, start: number, count: number): number {
    if (this.isAsleep) {
      if (!this.needsEmulation(qp, ring, start, count)) return this.next.postSend(qp, ring, start, count);
      this.wake();
    }
    return this.shim.postSend(qp, ring, start, count);
  }

  private pollCq(cq: number, ring: number, start: number, max: number): number {
    if (this.isAsleep && !this.hasKept) {
      const n = this.next.pollCq(cq, ring, start, max);
      if (n > 0) this.tables.countProduced(cq, n);
      return n;
    }
    const n = this.shim.pollCq(cq, ring, start, max);
    this.noteKept();
    return n;
  }

  private needsEmulation(qp: number, ring: number, start: number, count: number): boolean {
    const known = this.tables.wrRings[handleIndex(ring)];
    if (known?.handle !== ring || count === 0 || !L.within(known.capacity, start, count)) return false;
    const { words } = known;
    const last = L.slotAt(start + count - 1) + L.WR_OP;
    let all = 0;
    for (let at = L.slotAt(start) + L.WR_OP; at <= last; at += SLOT_WORDS) all |= words[at];
    if ((all & CROSS_CHANNEL) !== 0) return true;
    if (!this.servesApplication || (words[last] & SIGNALED) !== 0) return false;
    return this.tables.qp(qp)?.sqSigAll === false;
  }

  /** The ledgers begin to count where those of the shim above are. */
  private wake(): void {
    if (!this.isAsleep) return;
    this.isAsleep = false;
    for (const { qp: handle, posted, freed, lastSignaled, broken, staleErrorsUntil } of this.report()) {
      const qp = this.tables.qp(handle);
      if (qp === undefined) continue;
      qp.adopt(posted, freed, lastSignaled);
      qp.broken = broken;
      qp.staleErrorsUntil = staleErrorsUntil;
    }
  }

  private noteKept(): void {
    if (this.isAsleep) this.hasKept = this.tables.cqs.some((cq) => cq !== undefined && cq.fifoCount > 0);
  }
}
