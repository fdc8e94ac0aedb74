/** The link in the cycle model, as Tassel deduces it: a packet leaves when the previous one has. */
import { TICK_NS } from '../flow-tags.ts';

/** A queue pair that always has packets of this size from a tick on. */
export interface Flow {
  readonly bps: number;
  readonly wireBytes: number;
  readonly startTick: number;
}

/** When packets leave that are sent one behind another. */
export class Wire {
  /** The tick from which the link is idle, with its fraction. */
  private readonly free = new Float64Array(1);
  private readonly ticksPerByte: number;

  constructor(linkBps: number) {
    this.ticksPerByte = 8e9 / linkBps / TICK_NS;
  }

  /** The first tick at which the link is idle. */
  get freeTick(): number {
    return Math.ceil(this.free[0]);
  }

  /** Sends a packet at this tick, or when the link is idle. Returns the tick at which it leaves. */
  send(tick: number, bytes: number): number {
    const { free } = this;
    const leaves = Math.max(tick, this.freeTick);
    // The fraction of a tick is kept, which the link's own buffer makes up for.
    free[0] = Math.max(free[0], leaves - 1) + bytes * this.ticksPerByte;
    return leaves;
  }
}
