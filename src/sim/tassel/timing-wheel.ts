/**
 * The active period of the timeline (Tassel 3.2.2): packets that start within 1 us, in 250 slots of one tick of
 * system time. A slot holds one packet; the next one takes the first free later slot, never an earlier one.
 */
import { PART, type SystemTime, WHOLE } from './system-time.ts';

/** 1 us at 250 MHz. */
export const WHEEL_SLOTS = 250;

const FREE = -1;

/** Descriptors by the tick of system time at which they start. */
export class TimingWheel {
  /** Packets in the wheel. */
  count = 0;
  private readonly slots = new Int16Array(WHEEL_SLOTS).fill(FREE);
  private readonly time: SystemTime;
  /** [0] the earliest slot that may be occupied, as a tick of system time. */
  private readonly cursor = new Float64Array(1);
  private readonly due = new Float64Array(2);

  constructor(time: SystemTime) {
    this.time = time;
  }

  /**
   * Puts in a packet with the start time at index `i` of `start`. Returns false when no slot within the range is free:
   * the packet has to wait for another visit.
   */
  insert(descriptor: number, start: Float64Array, i: number): boolean {
    const first = this.time.now[WHOLE];
    if (this.count === 0) this.cursor[0] = first;
    // After several slots passed in one tick, those from the cursor on are still occupied.
    const end = Math.min(first, this.cursor[0]) + WHEEL_SLOTS;
    for (let slot = Math.max(first, start[i] + (start[i + PART] > 0 ? 1 : 0)); slot < end; slot++) {
      if (this.slots[slot % WHEEL_SLOTS] !== FREE) continue;
      this.slots[slot % WHEEL_SLOTS] = descriptor;
      this.count++;
      return true;
    }
    return false;
  }

  /** Takes out a packet whose start time has come, earliest first; -1: none. */
  takeDue(): number {
    const { cursor, slots } = this;
    const now = this.time.now[WHOLE];
    if (this.count === 0) cursor[0] = now;
    for (; cursor[0] <= now; cursor[0]++) {
      const descriptor = slots[cursor[0] % WHEEL_SLOTS];
      if (descriptor !== FREE) {
        slots[cursor[0] % WHEEL_SLOTS] = FREE;
        this.count--;
        return descriptor;
      }
    }
    // A late packet may still enter the slot of the current tick.
    cursor[0] = now;
    return FREE;
  }

  /** Ticks that certainly pass before a packet starts; Infinity when there is none. */
  ticksBefore(): number {
    if (this.count === 0) return Number.POSITIVE_INFINITY;
    let slot = this.cursor[0];
    while (this.slots[slot % WHEEL_SLOTS] === FREE) slot++;
    this.due[WHOLE] = slot;
    return this.time.ticksBefore(this.due, 0);
  }
}
