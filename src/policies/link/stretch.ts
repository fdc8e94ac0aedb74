/**
 * Lengthens the window where requests take longer under load than on an idle device, as at a receiver whose caches are too
 * small for its queue pairs. If the link stands idle although requests wait for the window, it is made longer by a step.
 * If that does not use more of the link, requests queue elsewhere, and the step is taken back.
 *
 * The window becomes longer in the same way, but by larger steps and much further, while the link carries more than its
 * rate: it is then faster than the device reports, as several links are that appear as one device.
 */

/** One step, as a part of the window; and the longest window, as a multiple of it. */
const STEP = 1 / 16;
const MOST = 1.5;
/** A period is the time in which so many full windows are sent. */
const PERIOD_WINDOWS = 64;
/** While at least this part of the link is used, only a shorter window is tried. */
const FULL = 0.95;
/** If more than this part of the link is used in two periods in a row, the link is faster than is known. */
const FASTER = 1.03;
/** One step then, as a part of the window in use; and the longest window, as a multiple of the usual one. */
const FASTER_STEP = 1 / 4;
const MOST_FASTER = 8;
/** A step is kept if it gains at least this part of what it would if the window were all that limits the link. */
const LEAST_GAIN = 0.5;
/** A step back is kept if it costs at most this part of that. */
const MOST_LOSS = 0.25;
/** Periods without a trial after one that failed, twice as many each time in a row. */
const REST_PERIODS = 8;
const MOST_REST_PERIODS = 4096;

/** Words of the period: when it began, what had been sent by then, and the part of the link used in the one before. */
const SINCE = 0;
const FROM = 1;
const USED = 2;

/**
 * What all queue pairs have sent in a direction, and its full window, in bytes on the wire. An object, because V8 allocates
 * doubles that a function takes or returns, unless it is inlined.
 */
export interface Sending {
  readonly sentBytes: number;
  readonly sizes: { readonly windowBytes: number };
}

/** The length of the window in one direction of a link. */
export class Stretch {
  /** The length, as a multiple of the usual one. */
  times = 1;
  private readonly period = Float64Array.of(Number.NaN, 0, 0);
  /** The step that is being tried, 0 if none is; and by which part more of the link would be used if only that counted. */
  private tried = 0;
  private hoped = 0;
  /** Whether the last trial that failed was of a longer window. What made it longer may be over then. */
  private hasFailedLonger = false;
  /** Whether a long message was sent in this period. Short ones alone wait for the processing units, not for the link. */
  private hasLong = false;
  private restPeriods = 0;
  private nextRestPeriods = REST_PERIODS;

  /** A message was sent. Returns whether a period is over. */
  isOver(sending: Sending, isShort: boolean): boolean {
    if (!isShort) this.hasLong = true;
    return sending.sentBytes - this.period[FROM] >= PERIOD_WINDOWS * sending.sizes.windowBytes;
  }

  /**
   * A period is over.
   * @param linkPerNs the rate of the link, in bytes on the wire per ns
   * @param isLimiting whether requests wait only for the window
   * @param mayBeFaster whether a link that has carried more than its rate is faster than is known. After late polls, for
   * example, much is sent at once.
   * @returns the part of the link that was used; NaN: this was the first period
   */
  next(
    nowNs: number,
    sentBytes: number,
    linkPerNs: number,
    isLimiting: boolean,
    mayBeFaster: boolean,
  ): number {
    const { period } = this;
    const before = period[USED];
    const isFirst = Number.isNaN(period[SINCE]);
    period[USED] = (sentBytes - period[FROM]) / (linkPerNs * (nowNs - period[SINCE]));
    period[SINCE] = nowNs;
    period[FROM] = sentBytes;
    const { hasLong } = this;
    this.hasLong = false;
    if (isFirst || !this.keeps(period[USED] / before) || !isLimiting || !hasLong) return period[USED];
    if (this.restPeriods > 0) this.restPeriods--;
    else this.tryNext(period[USED], mayBeFaster && period[USED] > FASTER && before > FASTER);
    return period[USED];
  }

  /** Begins a trial. @param used the part of the link that was used */
  private tryNext(used: number, isFaster: boolean): void {
    const { times } = this;
    if (isFaster) this.try(Math.min(FASTER_STEP * times, MOST_FASTER - times), times);
    else if (used >= FULL || (this.hasFailedLonger && times > 1)) this.try(Math.max(-STEP, 1 - times), 1);
    else this.try(Math.min(STEP, MOST - times), 1);
  }

  /** The link is idle for lack of requests: this period says nothing. */
  interrupt(): void {
    this.period[SINCE] = Number.NaN;
    this.times -= this.tried;
    this.tried = 0;
  }

  /** @param of what the step is a part of */
  private try(step: number, of: number): void {
    this.tried = step;
    this.hoped = step / of;
    this.times += step;
  }

  /** Ends a trial: takes its step back if it does not help. Returns whether another one may follow. */
  private keeps(ratio: number): boolean {
    const { tried, hoped } = this;
    this.tried = 0;
    const needed = 1 + (hoped > 0 ? LEAST_GAIN : MOST_LOSS) * hoped;
    if (tried === 0 || ratio >= needed) {
      if (tried > 0) {
        this.nextRestPeriods = REST_PERIODS;
        this.hasFailedLonger = false;
      }
      return true;
    }
    this.times -= tried;
    this.hasFailedLonger = tried > 0;
    this.restPeriods = this.nextRestPeriods;
    this.nextRestPeriods = Math.min(2 * this.nextRestPeriods, MOST_REST_PERIODS);
    return false;
  }
}
