/**
 * DCQCN (Zhu et al., SIGCOMM 2015): the receiver's NIC turns marks into congestion notifications, at most one per
 * queue pair in cnpIntervalNs; the sender's NIC cuts the rate of that queue pair and raises it again with time.
 * What is left out: the byte counter that raises the rate beside the timer, as in HPCC's simulator. Rates of
 * datagrams are not controlled.
 *
 * No timers run: what they would have done since is caught up when the queue pair has a packet to send or hears of
 * congestion. A queue pair that was never told of any, or is back at line rate, has no state that is looked at.
 */
import type { NicParams } from '../profile/params.ts';

// Indexes of Dcqcn.numbers. Rates are bits per nanosecond, Gbit/s.
const RATE = 0;
const TARGET = 1;
const ALPHA = 2;
/** Since when alpha stands. */
const ALPHA_NS = 3;
/** The last cut; one that has to wait for its time; the next increase. */
const CUT_NS = 4;
const NEXT_CUT_NS = 5;
const INCREASE_NS = 6;
/** When the next packet is due at the exact rate. */
const DUE_NS = 7;

/** What the sender's NIC knows of one queue pair. Times are those of the simulation. */
export class Dcqcn {
  /** Below line rate. */
  limiting = false;
  private readonly params: Readonly<NicParams>;
  /** See above; [DUE_NS] is read on the hot path, so all of them are in one array of doubles. */
  private readonly numbers = new Float64Array(8);
  /** Increases since the last cut. */
  private stage = 0;
  /** A notification came since alpha stands. */
  private establishedRaised = false;

  constructor(params: Readonly<NicParams>) {
    this.params = params;
  }

  /** Now; Infinity: as fast as the link. */
  get rateGbps(): number {
    return this.limiting ? this.numbers[RATE] : Number.POSITIVE_INFINITY;
  }

  get alpha(): number {
    return this.numbers[ALPHA];
  }

  /** A congestion notification; `clock[0]` is now. */
  notified(clock: Float64Array): void {
    const n = this.numbers;
    this.catchUp(clock);
    if (!this.limiting) this.begin(clock);
    const earliest = n[CUT_NS] + this.params.dcqcnDecreaseTimerNs;
    if (earliest > clock[0]) n[NEXT_CUT_NS] = earliest;
    else this.cut(clock[0]);
    // It counts in the period of the alpha timer that it falls into.
    this.age(clock[0]);
    this.establishedRaised = true;
  }

  /** Whether the next packet may go now; else `due[0]` is when. */
  allows(clock: Float64Array, due: Float64Array): boolean {
    this.catchUp(clock);
    if (!this.limiting || this.numbers[DUE_NS] <= clock[0]) return true;
    due[0] = this.numbers[DUE_NS];
    return false;
  }

  /** A packet went to the port. */
  count(bytes: number, clock: Float64Array): void {
    const n = this.numbers;
    const from = n[DUE_NS] > clock[0] ? n[DUE_NS] : clock[0];
    n[DUE_NS] = from + (bytes * 8) / n[RATE];
  }

  /** Does what timers were due for up to now. */
  catchUp(clock: Float64Array): void {
    const n = this.numbers;
    while (this.limiting) {
      if (n[NEXT_CUT_NS] <= clock[0] && n[NEXT_CUT_NS] <= n[INCREASE_NS]) this.cut(n[NEXT_CUT_NS]);
      else if (n[INCREASE_NS] <= clock[0]) this.increase();
      else return;
    }
  }

  /** The first notification of a queue pair at line rate. */
  private begin(clock: Float64Array): void {
    const n = this.numbers;
    this.limiting = true;
    this.establishedRaised = false;
    n[RATE] = n[TARGET] = this.params.linkGbps;
    n[ALPHA] = 1;
    n[ALPHA_NS] = n[DUE_NS] = clock[0];
    n[CUT_NS] = Number.NEGATIVE_INFINITY;
  }

  private cut(atNs: number): void {
    const n = this.numbers;
    this.age(atNs);
    n[TARGET] = n[RATE];
    n[RATE] = Math.max(this.params.dcqcnMinMbps / 1000, n[RATE] * (1 - n[ALPHA] / 2));
    n[CUT_NS] = atNs;
    n[NEXT_CUT_NS] = Number.POSITIVE_INFINITY;
    n[INCREASE_NS] = atNs + this.params.dcqcnIncreaseTimerNs;
    this.stage = 0;
  }

  /** Alpha: a moving average over periods of the alpha timer of whether a notification came. */
  private age(nowNs: number): void {
    const n = this.numbers;
    const { dcqcnG: g, dcqcnAlphaTimerNs: periodNs } = this.params;
    const periods = Math.floor((nowNs - n[ALPHA_NS]) / periodNs);
    if (periods <= 0) return;
    n[ALPHA] = n[ALPHA] * (1 - g) ** periods + (this.establishedRaised ? g * (1 - g) ** (periods - 1) : 0);
    n[ALPHA_NS] += periods * periodNs;
    this.establishedRaised = false;
  }

  /** Half of the way back to the rate before the cut; after some of these the goal itself moves on. */
  private increase(): void {
    const n = this.numbers;
    const { dcqcnFastRecoveries, dcqcnAiMbps, dcqcnHaiMbps, dcqcnIncreaseTimerNs, linkGbps } = this.params;
    if (this.stage === dcqcnFastRecoveries) n[TARGET] += dcqcnAiMbps / 1000;
    else if (this.stage > dcqcnFastRecoveries) n[TARGET] += dcqcnHaiMbps / 1000;
    n[TARGET] = Math.min(n[TARGET], linkGbps);
    n[RATE] = (n[RATE] + n[TARGET]) / 2;
    n[INCREASE_NS] += dcqcnIncreaseTimerNs;
    this.stage++;
    // Halves never arrive: what is left to line rate is less than the smallest step.
    if (n[RATE] + dcqcnAiMbps / 1000 >= linkGbps) this.limiting = false;
  }
}
