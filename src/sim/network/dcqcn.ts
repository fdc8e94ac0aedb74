/**
 * DCQCN (Zhu et al., SIGCOMM 2015). The receiver's NIC turns marks into congestion notifications, at most one
 * per queue pair in cnpIntervalNs. The sender's NIC cuts the rate of that queue pair and raises it over time.
 * As in HPCC's simulator, the byte counter that also raises the rate is omitted. Datagrams are not
 * controlled.
 *
 * No timers run: their effects are caught up when the queue pair has a packet to send or is notified. A queue
 * pair without notifications, or back at line rate, costs nothing.
 */
import type { RateLimiter } from '../egress/rate-limiter.ts';
import { EV_CNP } from '../kernel/event-kinds.ts';
import { TRACE_CNP } from '../kernel/trace-hash.ts';
import type { NicParams } from '../profile/params.ts';
import { CNP_NS, type Qp } from '../transport/qp.ts';
import type { World } from '../world.ts';

// Indexes of Dcqcn.numbers. Rates are in bits per nanosecond (Gbit/s).
const RATE = 0;
const TARGET = 1;
const ALPHA = 2;
/** Start of the current alpha period. */
const ALPHA_NS = 3;
/** The times of the last cut, a postponed cut, and the next increase. */
const CUT_NS = 4;
const NEXT_CUT_NS = 5;
const INCREASE_NS = 6;
/** The time at which the next packet is due at the exact rate. */
const DUE_NS = 7;

/** DCQCN state of one queue pair at the sender's NIC. Times are simulation times. */
export class Dcqcn implements RateLimiter {
  /** Whether the rate is below line rate. */
  limiting = false;
  private readonly params: Readonly<NicParams>;
  /** Indexed by the constants above. It is one array of doubles because [DUE_NS] is read on the hot path. */
  private readonly numbers = new Float64Array(8);
  /** Increases since the last cut. */
  private stage = 0;
  /** Whether a notification arrived in the current alpha period. */
  private notifiedSinceAlpha = false;

  constructor(params: Readonly<NicParams>) {
    this.params = params;
  }

  /** The current rate; Infinity at line rate. */
  get rateGbps(): number {
    return this.limiting ? this.numbers[RATE] : Number.POSITIVE_INFINITY;
  }

  /** Writes the current rate to `gbps[0]`; Infinity at line rate. */
  readRate(gbps: Float64Array): void {
    gbps[0] = this.limiting ? this.numbers[RATE] : Number.POSITIVE_INFINITY;
  }

  get alpha(): number {
    return this.numbers[ALPHA];
  }

  /** Handles a congestion notification at `clock[0]`. */
  notified(clock: Float64Array): void {
    const n = this.numbers;
    this.catchUp(clock);
    if (!this.limiting) this.begin(clock);
    const earliest = n[CUT_NS] + this.params.dcqcnDecreaseTimerNs;
    if (earliest > clock[0]) n[NEXT_CUT_NS] = earliest;
    else this.cut(clock[0]);
    // The notification counts in the alpha period it falls into.
    this.age(clock[0]);
    this.notifiedSinceAlpha = true;
  }

  allows(clock: Float64Array, due: Float64Array): boolean {
    this.catchUp(clock);
    if (!this.limiting || this.numbers[DUE_NS] <= clock[0]) return true;
    due[0] = this.numbers[DUE_NS];
    return false;
  }

  count(bytes: number, clock: Float64Array): void {
    if (!this.limiting) return;
    const n = this.numbers;
    const from = n[DUE_NS] > clock[0] ? n[DUE_NS] : clock[0];
    n[DUE_NS] = from + (bytes * 8) / n[RATE];
  }

  /** Applies the effects of timers up to now. */
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
    this.notifiedSinceAlpha = false;
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

  /** Updates alpha: a moving average, over alpha periods, of whether a notification arrived. */
  private age(nowNs: number): void {
    const n = this.numbers;
    const { dcqcnG: g, dcqcnAlphaTimerNs: periodNs } = this.params;
    const periods = Math.floor((nowNs - n[ALPHA_NS]) / periodNs);
    if (periods <= 0) return;
    n[ALPHA] = n[ALPHA] * (1 - g) ** periods + (this.notifiedSinceAlpha ? g * (1 - g) ** (periods - 1) : 0);
    n[ALPHA_NS] += periods * periodNs;
    this.notifiedSinceAlpha = false;
  }

  /** Moves halfway back to the target rate, which itself grows after a number of increases. */
  private increase(): void {
    const n = this.numbers;
    const { dcqcnFastRecoveries, dcqcnAiMbps, dcqcnHaiMbps, dcqcnIncreaseTimerNs, linkGbps } = this.params;
    if (this.stage === dcqcnFastRecoveries) n[TARGET] += dcqcnAiMbps / 1000;
    else if (this.stage > dcqcnFastRecoveries) n[TARGET] += dcqcnHaiMbps / 1000;
    n[TARGET] = Math.min(n[TARGET], linkGbps);
    n[RATE] = (n[RATE] + n[TARGET]) / 2;
    n[INCREASE_NS] += dcqcnIncreaseTimerNs;
    this.stage++;
    // Halving never reaches line rate: stop when the rest is below the smallest step.
    if (n[RATE] + dcqcnAiMbps / 1000 >= linkGbps) this.limiting = false;
  }
}

/** A RoCEv2 CNP: Ethernet 38 with gap and preamble, IPv4 20, UDP 8, BTH 12, 16 reserved, ICRC 4. */
export const CNP_BYTES = 98;

/** A marked packet arrived at `qp`: the NIC of `qp` notifies the NIC of `source`, unless it did so recently. */
export function congested(world: World, qp: Qp, source: Qp): void {
  const { switchNetwork, clock, params } = world;
  if (switchNetwork === null || clock[0] < qp.times[qp.row + CNP_NS]) return;
  qp.times[qp.row + CNP_NS] = clock[0] + params.cnpIntervalNs;
  world.cnpCount[0]++;
  world.trace.add(TRACE_CNP, qp.qpn, 0);
  if (world.isLost(world.hosts[qp.host], source.host)) return;
  world.events.due[0] = clock[0] + switchNetwork.emptyPathNs(qp.host, source.host, CNP_BYTES);
  world.events.push(EV_CNP, source.qpn, 0, source.epoch);
}

/** A notification arrived: this queue pair must slow down. */
export function notified(world: World, qp: Qp): void {
  qp.congestion ??= new Dcqcn(world.params);
  qp.congestion.notified(world.clock);
  world.tagsOf(qp)?.rateChanged(qp);
}
