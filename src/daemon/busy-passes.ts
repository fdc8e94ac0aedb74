/**
 * Passes of busy mode: one follows another at once while any context has a seat. The event loop gets its turn between
 * bursts of passes, so sockets are still served.
 */
import type { Passes, PassOptions } from './pass-scheduler.ts';

/** After this long, the event loop gets a turn, which takes a few microseconds. Agents measure latencies in its turns. */
const BURST_NS = 10_000;

export class BusyPasses implements Passes {
  private readonly options: PassOptions;
  private immediate: NodeJS.Immediate | undefined;

  constructor(options: PassOptions) {
    this.options = options;
  }

  get isPending(): boolean {
    return this.immediate !== undefined;
  }

  request(): void {
    this.immediate ??= setImmediate(this.burst);
  }

  private readonly burst = (): void => {
    const { host, afterPass, nowNs, onPass } = this.options;
    const beganNs = nowNs();
    let passNs = beganNs;
    let hasDecided = host.busyPass(passNs);
    for (let now = nowNs(); !hasDecided && now - beganNs < BURST_NS; now = nowNs()) {
      passNs = now;
      hasDecided = host.busyPass(passNs);
    }
    this.immediate = host.hasSeats ? setImmediate(this.burst) : undefined;
    afterPass();
    if (hasDecided) onPass?.(nowNs() - passNs);
  };

  close(): void {
    clearImmediate(this.immediate);
    this.immediate = undefined;
  }
}
