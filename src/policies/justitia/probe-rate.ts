/** How many messages all reference flows of a device send per second, measured over the last span of time. */
export class ProbeRate {
  perS = 0;
  private count = 0;
  private sinceNs = Number.NaN;

  /**
   * Counts a message that has ended.
   * @param spanNs the time over which the rate is measured
   */
  add(nowNs: number, spanNs: number): void {
    this.count++;
    const elapsedNs = nowNs - this.sinceNs;
    // The first message begins a span, and so does a clock that jumps back.
    if (elapsedNs >= 0 && elapsedNs < spanNs) return;
    if (elapsedNs > 0) this.perS = (this.count * 1e9) / elapsedNs;
    this.sinceNs = nowNs;
    this.count = 0;
  }

  /** Starts over, because there are no reference flows. */
  clear(): void {
    this.perS = 0;
    this.count = 0;
    this.sinceNs = Number.NaN;
  }
}
