/** Real time of a thread, in nanoseconds since a moment that all threads of a run share. */
import { performance } from 'node:perf_hooks';

export class Clock {
  /** [0]: the time of the last read(). */
  readonly now = new Float64Array(1);
  private zeroMs = performance.now();

  /** Sets time 0. @param zeroNs a time of process.hrtime.bigint(), the same in all threads */
  zeroAt(zeroNs: bigint): void {
    this.zeroMs = performance.now() - Number(process.hrtime.bigint() - zeroNs) / 1e6;
  }

  read(): void {
    this.now[0] = (performance.now() - this.zeroMs) * 1e6;
  }
}
