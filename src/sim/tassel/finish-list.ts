/** Eligible packets by finish time (Tassel 3.1.3). The Desc Buffer bounds their number. */
import type { Descriptors } from './descriptors.ts';
import { isAfter } from './system-time.ts';

/** A list of descriptors in the order of their finish times; equal ones in the order of arrival. */
export class FinishList {
  count = 0;
  private readonly descriptors: Descriptors;
  /** The first to leave comes last. */
  private readonly order: Int32Array;

  constructor(size: number, descriptors: Descriptors) {
    this.descriptors = descriptors;
    this.order = new Int32Array(size);
  }

  add(d: number): void {
    const { order } = this;
    const { finish } = this.descriptors;
    let i = this.count++;
    for (; i > 0 && !isAfter(finish, 2 * order[i - 1], finish, 2 * d); i--) order[i] = order[i - 1];
    order[i] = d;
  }

  /** Takes the descriptor with the smallest finish time. The list must not be empty. */
  take(): number {
    return this.order[--this.count];
  }
}
