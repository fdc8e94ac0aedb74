/**
 * Waits for the daemon inside a verb. A context can send nothing before its first queue pair, so that is where a program
 * waits for the first answer of a daemon that it knows of; it waits only once while the daemon does not answer.
 */

/** How long the contexts of a thread wait for an answer, together: on a busy machine, a daemon may need a second. */
export const PATIENCE_MS = 2000;
/** Interval of the checks for an answer. */
const NAP_MS = 0.1;

const nap = new Int32Array(new SharedArrayBuffer(4));

/** The time that a thread may wait until the daemon answers. */
export class Patience {
  private leftMs = PATIENCE_MS;

  /** The daemon has answered, so it is worth waiting for it again. */
  restore(): void {
    this.leftMs = PATIENCE_MS;
  }

  /**
   * Calls `poll` until it returns true.
   * @returns false if the time is over
   */
  wait(poll: () => boolean): boolean {
    const beganMs = performance.now();
    while (!poll()) {
      const waitedMs = performance.now() - beganMs;
      if (waitedMs >= this.leftMs) {
        this.leftMs = 0;
        return false;
      }
      Atomics.wait(nap, 0, 0, NAP_MS);
    }
    return true;
  }
}
