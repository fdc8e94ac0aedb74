/**
 * Completions that applications receive at a limited rate, as if the device were slower. Those that arrive faster are
 * kept. As on a device, the application gets an event when one that it may poll has become available, and its requests
 * and receives occupy their queues until it has polled their completions.
 */
import type { Alarm, Provider } from '../../verbs/provider.ts';
import type { ShimContext } from '../context.ts';
import { ARM_NONE, type CqLedger } from '../cq-ledger.ts';
import type { Tables } from '../tables.ts';
import { alarmOf } from '../timers/sleep-alarm.ts';
import { Bucket } from './bucket.ts';

/** An application that has no completions saves up as many as it could receive in this time. */
const BURST_NS = 1e6;
/** Tokens are sums of many small parts. */
const ROUNDING = 1e-6;

/** The completions that one application may receive, from the CQs of all its contexts. */
export class CompletionBudget {
  /** The number of completions handed over since it was last set to 0. */
  handed = 0;
  /** @internal CQs with kept completions, which the application waits for. */
  readonly waiting: CqLedger[] = [];
  private readonly bucket = new Bucket({ burst: 1 });
  private saved = 1;
  /** The completions that polls have left. */
  private kept = 0;

  /**
   * Sets the rate from now on.
   * @param perS completions per second, above 0
   * @param nowNs the time of a context's device (Actions.nowNs)
   */
  setRate(perS: number, nowNs: number): void {
    const perNs = perS / 1e9;
    this.bucket.fill(nowNs);
    this.bucket.setRate(perNs);
    this.saved = Math.max(1, perNs * BURST_NS);
    this.bucket.setBurst(Math.max(this.saved, this.kept));
  }

  /** The number of completions that may be handed over. */
  available(nowNs: number): number {
    return Math.floor(this.bucket.fill(nowNs) + ROUNDING);
  }

  /**
   * @internal Counts completions that are handed over. Those that are kept arrive at the rate even if the application polls
   * late, as in the CQ of a slower device.
   */
  take(completions: number, kept: number): void {
    this.bucket.take(completions);
    this.handed += completions;
    // CQs of one application share a budget, and the last poll knows its own CQ.
    this.kept = Math.max(this.kept - completions, kept);
    this.bucket.setBurst(Math.max(this.saved, this.kept));
  }

  /** When the next completion may be handed over. */
  get readyNs(): number {
    return this.bucket.readyNs(1);
  }
}

/** The functions of the shim that limits use. */
export interface CompletionLimitsHost {
  /** Kept completions of this CQ may be polled. Runs on a fresh stack; the application's listener may throw. */
  available(cq: CqLedger): void;
  /** The first completions since `handed` was set to 0 are handed over to this context. */
  used(context: ShimContext): void;
}

/** The limited completions of one shim. */
export class CompletionLimits {
  private readonly next: Provider;
  private readonly tables: Tables;
  private readonly host: CompletionLimitsHost;
  /** By index of the context. */
  private readonly alarms: (Alarm | undefined)[] = [];

  constructor(next: Provider, tables: Tables, host: CompletionLimitsHost) {
    this.next = next;
    this.tables = tables;
    this.host = host;
  }

  /** From now on, the context has this budget. The rate of the budget may have changed. */
  set(context: ShimContext, budget: CompletionBudget): void {
    if (context.completions !== budget) this.closeAlarm(context);
    context.completions = budget;
    this.arm(budget);
  }

  /** Takes up to `max` completions from the budget of this CQ's context. Returns how many. */
  take(cq: CqLedger, budget: CompletionBudget, max: number): number {
    if (cq.fifoCount === 0) return 0;
    const n = Math.min(max, cq.fifoCount, budget.available(this.next.nowNs(cq.context)));
    const isFirst = n > 0 && budget.handed === 0;
    budget.take(n, cq.fifoCount - n);
    if (isFirst) this.host.used(cq.owner);
    return n;
  }

  /**
   * The application has polled this CQ, or waits for an event. If completions are kept, they become available later: by an
   * event, or, for a simulated device, in a run that waits for them.
   */
  polled(cq: CqLedger, budget: CompletionBudget): void {
    if (cq.fifoCount === 0) return;
    if (cq.appArmed !== ARM_NONE || this.next.threads === 'one') this.wait(cq, budget);
  }

  /** Whether completions of this CQ are kept, none of which may be polled now. They become available later. */
  withholds(cq: CqLedger, budget: CompletionBudget): boolean {
    if (cq.fifoCount === 0 || budget.available(this.next.nowNs(cq.context)) > 0) return false;
    this.wait(cq, budget);
    return true;
  }

  private wait(cq: CqLedger, budget: CompletionBudget): void {
    if (budget.waiting.includes(cq)) return;
    budget.waiting.push(cq);
    this.arm(budget);
  }

  /** Sets the alarm for the CQ that has waited for the longest time. */
  private arm(budget: CompletionBudget): void {
    const { waiting } = budget;
    while (waiting.length > 0 && this.tables.cq(waiting[0].handle) !== waiting[0]) waiting.shift();
    if (waiting.length === 0) return;
    const { owner } = waiting[0];
    const { index, handle } = owner;
    this.alarms[index] ??= alarmOf(this.next, handle, 'run', () => this.rang(budget, owner));
    const alarm = this.alarms[index];
    alarm.atNs[0] = budget.readyNs;
    alarm.set();
  }

  /** Lets as many CQs continue as there are completions for: each may poll only one. */
  private rang(budget: CompletionBudget, { handle }: ShimContext): void {
    try {
      for (let left = budget.available(this.next.nowNs(handle)); left > 0; left--) {
        const cq = budget.waiting.shift();
        if (cq === undefined) return;
        if (this.tables.cq(cq.handle) === cq) this.host.available(cq);
      }
    } finally {
      this.arm(budget);
    }
  }

  /** The context was closed. */
  forget(context: ShimContext): void {
    this.closeAlarm(context);
    if (context.completions !== null) this.arm(context.completions);
  }

  private closeAlarm({ index }: ShimContext): void {
    this.alarms[index]?.close();
    this.alarms[index] = undefined;
  }
}
