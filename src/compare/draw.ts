/** Random choices from a stream. */
import type { RandomStream } from '../sim/kernel/random.ts';

export class Draw {
  private readonly random: RandomStream;

  constructor(random: RandomStream) {
    this.random = random;
  }

  oneOf<T>(choices: readonly T[]): T {
    return choices[Math.floor(this.random.next() * choices.length)];
  }

  /** A whole number, both ends included. */
  from(first: number, last: number): number {
    return first + Math.floor(this.random.next() * (last - first + 1));
  }

  /** A number in this range; each factor between its ends is equally likely. */
  factor(least: number, most: number): number {
    return least * (most / least) ** this.random.next();
  }

  /** True in this share of the calls. */
  chance(share: number): boolean {
    return this.random.next() < share;
  }
}
