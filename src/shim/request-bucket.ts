/** Requests that may be issued a second: tokens that come with time, up to a burst. Below none, some are owed. */

/** What may be saved up: so much of the rate, and a few at least. */
const BURST_S = 0.01;
const LEAST_BURST = 4;
const NS_PER_S = 1e9;
/** As good as no limit, which may be told while one is in force still; with infinity no number here would ever be one again. */
const MOST_PER_S = 1e12;

export class RequestBucket {
  private tokens = LEAST_BURST;
  private atNs: number;
  private perS: number;

  constructor(requestsPerS: number, nowNs: number) {
    this.perS = Math.min(requestsPerS, MOST_PER_S);
    this.atNs = nowNs;
  }

  get burst(): number {
    return Math.max(LEAST_BURST, this.perS * BURST_S);
  }

  /** What came until now came at the rate of before. */
  fill(nowNs: number, requestsPerS: number): void {
    const more = (Math.max(0, nowNs - this.atNs) * this.perS) / NS_PER_S;
    this.atNs = nowNs;
    this.perS = Math.min(requestsPerS, MOST_PER_S);
    this.tokens = Math.min(this.burst, this.tokens + more);
  }

  /** As of the last `fill`. */
  get available(): number {
    return Math.floor(this.tokens);
  }

  take(requests: number): void {
    this.tokens -= requests;
  }

  /** When there is a whole one. */
  get readyNs(): number {
    // By a nanosecond later than it is: rounding must not make it one that is not whole yet.
    return this.atNs + Math.max(0, ((1 - this.tokens) * NS_PER_S) / this.perS) + 1;
  }
}
