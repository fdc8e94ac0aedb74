// Deficit round robin by weight: the order of Palos, in 40 lines.
import type { Order } from '../../../src/policies/kit/puller.ts';
import { NONE, RunQueue } from '../../../src/policies/kit/run-queue.ts';

/** Serves queue pairs in rounds, `quantumBytes` times their weight each. */
export class DeficitOrder implements Order {
  readonly wakeNs = Number.POSITIVE_INFINITY;
  private readonly ready = new RunQueue();
  /** Bytes that each queue pair may still send in its turn; a debt if its last piece was longer than that. */
  private readonly left: number[] = [];
  private readonly quantumBytes: number;
  private readonly weightOf: (qp: number) => number;

  constructor(quantumBytes: number, weightOf: (qp: number) => number = () => 1) {
    this.quantumBytes = quantumBytes;
    this.weightOf = weightOf;
  }

  join(qp: number): void {
    this.left[qp] = Math.min(0, this.left[qp] ?? 0) + this.quantumBytes * this.weightOf(qp);
    this.ready.push(qp);
  }

  leave(qp: number): void {
    this.ready.remove(qp);
  }

  next(): number {
    for (let qp = this.ready.first(); qp !== NONE; qp = this.ready.first()) {
      if (this.left[qp] > 0) return qp;
      this.ready.remove(qp);
      this.left[qp] += this.quantumBytes * this.weightOf(qp);
      this.ready.push(qp);
    }
    return NONE;
  }

  charge(qp: number, wireBytes: number): void {
    this.left[qp] -= wireBytes;
  }
}
