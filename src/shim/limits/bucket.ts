/**
 * A token bucket. Tokens arrive at a rate, up to a burst, and stand for whatever the owner limits: bytes on the wire,
 * requests, lines of a log. More tokens may be taken than are available: a negative number is a debt, which the rate
 * repays. It has no clock: times are arguments.
 */

/** Stands for no limit. Arithmetic with infinity would leave a NaN in the bucket for good. */
const MAX_PER_NS = 1e6;

const TOKENS = 0;
const AT_NS = 1;
const PER_NS = 2;
const BURST = 3;

/** The initial values of a bucket. */
export interface BucketOptions {
  /** The most tokens that an idle owner can save. */
  readonly burst: number;
  /** Tokens per nanosecond; default 0. */
  readonly perNs?: number;
  /** Tokens at `nowNs`; default `burst`. */
  readonly tokens?: number;
  /** Default 0. */
  readonly nowNs?: number;
}

/** A bucket of tokens that arrive with time. */
export class Bucket {
  private readonly state = new Float64Array(4);

  constructor({ burst, perNs = 0, tokens = burst, nowNs = 0 }: BucketOptions) {
    this.state[TOKENS] = tokens;
    this.state[AT_NS] = nowNs;
    this.setRate(perNs);
    this.setBurst(burst);
  }

  /** Tokens as of the last `fill`, minus those taken since; negative for a debt. */
  get tokens(): number {
    return this.state[TOKENS];
  }

  /** The most tokens that can be saved. */
  get burst(): number {
    return this.state[BURST];
  }

  /** The tokens at this time, of which nothing is noted. */
  tokensAt(nowNs: number): number {
    const { state } = this;
    return Math.min(state[BURST], state[TOKENS] + Math.max(0, nowNs - state[AT_NS]) * state[PER_NS]);
  }

  /** Adds the tokens that have arrived since the last call. Returns the number of tokens. */
  fill(nowNs: number): number {
    const { state } = this;
    const spanNs = nowNs - state[AT_NS];
    if (spanNs > 0) {
      state[TOKENS] += spanNs * state[PER_NS];
      state[AT_NS] = nowNs;
    }
    state[TOKENS] = Math.min(state[BURST], state[TOKENS]);
    return state[TOKENS];
  }

  /** Sets the rate since the last `fill`, in tokens per nanosecond; Infinity for no limit. */
  setRate(perNs: number): void {
    this.state[PER_NS] = perNs > 0 ? Math.min(perNs, MAX_PER_NS) : 0;
  }

  /** Sets the most tokens that can be saved. */
  setBurst(burst: number): void {
    const { state } = this;
    state[BURST] = burst;
    state[TOKENS] = Math.min(burst, state[TOKENS]);
  }

  /** Takes tokens, in advance if necessary; a negative number returns them. */
  take(tokens: number): void {
    this.state[TOKENS] -= tokens;
  }

  /** The time at which the bucket has this many tokens, at most the burst; Infinity if never. */
  readyNs(tokens: number): number {
    const { state } = this;
    const missing = tokens - state[TOKENS];
    if (missing <= 0) return state[AT_NS];
    if (state[PER_NS] === 0) return Number.POSITIVE_INFINITY;
    // At a late time, a short span is lost in rounding, and a timer that sets itself again would never end.
    return Math.max(state[AT_NS] + missing / state[PER_NS], state[AT_NS] * (1 + Number.EPSILON));
  }

  /** Whether the bucket will be full at this time, so that earlier takings no longer matter. */
  isFull(nowNs: number): boolean {
    const { state } = this;
    return state[TOKENS] + Math.max(0, nowNs - state[AT_NS]) * state[PER_NS] >= state[BURST];
  }
}
