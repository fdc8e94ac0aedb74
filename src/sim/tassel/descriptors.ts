/**
 * The Desc Buffer (Tassel 3.2.3): k packets that were chosen to be sent, of all queue pairs. k is the number of packets
 * in one scheduling period, so the place of a packet is free again when the period is over and the packet has left.
 */

const NONE = -1;

/** Descriptors by number. */
export class Descriptors {
  readonly qp: Int32Array;
  /** On the wire. */
  readonly bytes: Int32Array;
  /** Finish time of descriptor d at index 2d. */
  readonly finish: Float64Array;
  private readonly periodTicks: number;
  private readonly hasLeft: Uint8Array;
  private readonly takenTick: Float64Array;
  /** Free descriptors, linked. */
  private readonly next: Int32Array;
  private free = 0;
  /** Descriptors in their period, in a ring. */
  private readonly taken: Int32Array;
  private first = 0;
  private count = 0;

  constructor(size: number, periodTicks: number) {
    this.periodTicks = periodTicks;
    this.qp = new Int32Array(size);
    this.bytes = new Int32Array(size);
    this.finish = new Float64Array(2 * size);
    this.hasLeft = new Uint8Array(size);
    this.takenTick = new Float64Array(size);
    this.taken = new Int32Array(size);
    this.next = Int32Array.from({ length: size }, (_, d) => (d + 1 < size ? d + 1 : NONE));
  }

  /** Takes a free descriptor at the current tick, `tick[0]`; -1: there is none. */
  take(tick: Float64Array): number {
    this.reclaim(tick);
    const d = this.free;
    if (d === NONE) return NONE;
    this.free = this.next[d];
    this.hasLeft[d] = 0;
    this.takenTick[d] = tick[0];
    this.taken[(this.first + this.count) % this.taken.length] = d;
    this.count++;
    return d;
  }

  /** Returns the descriptor taken last, which is not used. */
  untake(d: number): void {
    this.count--;
    this.release(d);
  }

  /** The packet left. */
  left(d: number, tick: Float64Array): void {
    if (tick[0] >= this.takenTick[d] + this.periodTicks) {
      this.reclaim(tick);
      this.release(d);
    } else this.hasLeft[d] = 1;
  }

  /** Ends the periods that are over. */
  private reclaim(tick: Float64Array): void {
    while (this.count > 0) {
      const d = this.taken[this.first];
      if (tick[0] < this.takenTick[d] + this.periodTicks) return;
      this.first = (this.first + 1) % this.taken.length;
      this.count--;
      if (this.hasLeft[d] === 1) this.release(d);
    }
  }

  private release(d: number): void {
    this.next[d] = this.free;
    this.free = d;
  }
}
