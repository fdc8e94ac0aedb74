/**
 * Enhanced transmission selection: deficit weighted round robin over the classes, by bytes on the wire
 * (Shreedhar and Varghese, 1995). Each visit adds weight x MTU bytes to the deficit of a class. A remainder
 * too small for the next packet is kept for the next visit, and reset when the FIFO runs empty. The scheduler
 * is work conserving: it visits only classes with a packet.
 */
import type { Sender } from '../transport/qp.ts';
import { type ClassScheduler, SERVICE_LEVELS } from './class-scheduler.ts';
import type { StoppablePort } from './stoppable-port.ts';

export class Ets implements ClassScheduler {
  readonly classes = SERVICE_LEVELS;
  /** In bytes, by class. */
  private readonly quantum = new Float64Array(SERVICE_LEVELS);
  private readonly deficit = new Float64Array(SERVICE_LEVELS);
  /** The class being visited. */
  private current = 0;

  constructor(weights: readonly number[], mtuBytes: number) {
    for (let cls = 0; cls < SERVICE_LEVELS; cls++)
      this.quantum[cls] = weights[Math.min(cls, weights.length - 1)] * mtuBytes;
  }

  began(_sender: Sender, _cls: number): void {}

  pick(port: StoppablePort, here: number): number {
    const { deficit } = this;
    for (let steps = 0; ; steps++) {
      const cls = this.current;
      if (((here >>> cls) & 1) !== 0 && port.headBytes(cls) <= deficit[cls]) return cls;
      // No class could send in a whole round, so all rounds in which none can are skipped.
      if (steps === SERVICE_LEVELS) this.skipRounds(port, here);
      this.current = (cls + 1) % SERVICE_LEVELS;
      if (((here >>> this.current) & 1) !== 0) deficit[this.current] += this.quantum[this.current];
    }
  }

  sent(cls: number, bytes: number, empty: boolean): void {
    this.deficit[cls] = empty ? 0 : this.deficit[cls] - bytes;
  }

  private skipRounds(port: StoppablePort, ready: number): void {
    let rounds = Number.POSITIVE_INFINITY;
    for (let cls = 0; cls < SERVICE_LEVELS; cls++) {
      if (((ready >>> cls) & 1) === 0) continue;
      const missing = port.headBytes(cls) - this.deficit[cls];
      rounds = Math.min(rounds, Math.ceil(missing / this.quantum[cls]) - 1);
    }
    if (rounds <= 0) return;
    for (let cls = 0; cls < SERVICE_LEVELS; cls++) {
      if (((ready >>> cls) & 1) !== 0) this.deficit[cls] += rounds * this.quantum[cls];
    }
  }
}
