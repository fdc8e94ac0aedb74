/**
 * The command queue of a NIC, through which drivers register and deregister memory: the firmware executes one command
 * after the other, whatever process it comes from.
 */

const BUSY_UNTIL = 0;
const BUSY_NS = 1;

/** The commands of one NIC. */
export class CommandQueue {
  private readonly clock: Float64Array;
  /** BUSY_UNTIL: end of the last command. BUSY_NS: time spent on commands so far. */
  private readonly times = new Float64Array(2);

  constructor(clock: Float64Array) {
    this.clock = clock;
  }

  /** Queues a command now that takes `ns`, and returns the time at which it is done. */
  execute(ns: number): number {
    const { times } = this;
    times[BUSY_UNTIL] = Math.max(times[BUSY_UNTIL], this.clock[0]) + ns;
    times[BUSY_NS] += ns;
    return times[BUSY_UNTIL];
  }

  /** Time spent on commands so far. */
  get busyNs(): number {
    return this.times[BUSY_NS];
  }
}
