/** drum at one device: the rates at which its applications share it, and which of them are served at a time. */
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import { HELD } from '../../shim/counters.ts';
import type { Actions, ContextView, QpChange, QpView } from '../../shim/policy.ts';
import { IBV_WR_RDMA_WRITE } from '../../verbs/constants.ts';
import { DeviceTimer } from '../fair/device-timer.ts';
import type { Judge } from '../fair/judge.ts';
import { fairOptions } from '../fair/options.ts';
import { KINDS as FAIR_KINDS, Scheduler } from '../fair/scheduler.ts';
import { NONE, RunQueue } from '../kit/run-queue.ts';
import { egressBytes } from '../kit/wire.ts';
import { AgentLines } from './agent-lines.ts';
import { AlwaysOn } from './always-on.ts';
import { Applications, type DeviceRates } from './applications.ts';
import { RequestBounds } from './bounds.ts';
import { CompletionRates } from './completions.ts';
import type { DrumOptions } from './options.ts';

/** Further kinds of timers: for epochs, and for bounds. */
const EPOCH = FAIR_KINDS;
const BOUND = FAIR_KINDS + 1;
export const KINDS = FAIR_KINDS + 2;

/** Options of fair that drum has, too. */
const fairPartOf = ({ pieceBytes, windowBytes, passBytes }: DrumOptions) =>
  fairOptions.parse({ pieceBytes, windowBytes, passBytes });

/** Schedules the queue pairs of all contexts of one device. An application is a tenant. */
export class DrumScheduler extends Scheduler {
  private readonly apps: Applications;
  private given: DrumOptions;
  private readonly epochTimer: DeviceTimer;
  /** Null: applications receive completions at any rate. */
  private readonly completions: CompletionRates | null;
  /** Null: rates are solved for in this process. */
  private readonly lines: AgentLines | null;
  private readonly bounds = new RequestBounds();
  private readonly boundTimer = new DeviceTimer(this.tokenOf(BOUND), false);
  /** Queue pairs of applications that are not served in this epoch, by application; and these applications. */
  private readonly parked = new RunQueue();
  private readonly waiting = new RunQueue();
  private readonly views: (QpView | undefined)[] = [];
  /** By application: the name of the tenant. */
  private readonly names: string[] = [];

  constructor(number: number, context: ContextView, options: DrumOptions, registry: CoordinatorRegistry) {
    super(number, context, fairPartOf(options), registry, undefined, KINDS);
    this.given = options;
    this.apps = new Applications(options, this.deviceRates);
    this.epochTimer = new DeviceTimer(this.tokenOf(EPOCH), options.topK === undefined);
    const { completionsPerS } = options;
    this.completions = completionsPerS === undefined ? null : new CompletionRates(completionsPerS);
    this.lines = options.agents ? new AgentLines(registry) : null;
  }

  /** What the device carries of the shortest requests: as its processing units and the link allow. */
  private get deviceRates(): DeviceRates {
    const { gapNs, units, linkPerNs, wire, given } = this;
    const requestNs = Math.max(gapNs / units, egressBytes(wire, IBV_WR_RDMA_WRITE, 0) / linkPerNs);
    const requestsPerS = given.requestsPerS ?? 1e9 / requestNs;
    return { requestsPerS, completionsPerS: given.completionsPerS ?? requestsPerS };
  }

  protected override createJudge(): Judge {
    return new AlwaysOn();
  }

  /** Options have changed. */
  reconfigure(given: DrumOptions, context: ContextView, out: Actions): void {
    if (given === this.given) return;
    this.given = given;
    this.lines?.configure(given, out.nowNs(context));
    this.apps.configure(given, this.deviceRates);
    this.update();
    super.configure(fairPartOf(given), out);
  }

  override open(context: ContextView, out: Actions): void {
    super.open(context, out);
    this.lines?.open(context, this.given, this.deviceRates.requestsPerS, out.nowNs(context));
  }

  /** The agent may have given rates. */
  override regrant(context: ContextView, out: Actions): void {
    if (this.lines !== null) this.takeRates(context, out);
    super.regrant(context, out);
  }

  private takeRates(context: ContextView, out: Actions): void {
    this.clock.begin();
    this.settleAll(out);
    const { apps, bounds } = this;
    const nowNs = this.clock.nowNs(context, out);
    for (const [app, rates] of this.lines!.rates((qp) => this.tenants.of(qp))) {
      const { requestsPerS, completionsPerS, isHeldBack } = rates;
      if (!apps.has(app)) continue;
      this.completions?.give(app, completionsPerS);
      if (requestsPerS === 0) continue;
      apps.setGiven(app, requestsPerS);
      if (isHeldBack) bounds.set(app, requestsPerS, nowNs);
      else bounds.clear(app);
    }
    this.update();
    this.fitCompletions(context, out);
    this.releaseBound(context, out);
  }

  /** Serves the queue pairs that have waited for tokens of their applications. */
  private releaseBound(context: ContextView, out: Actions): void {
    const { bounds } = this;
    const nowNs = this.clock.nowNs(context, out);
    for (let qp = bounds.release(nowNs); qp !== NONE; qp = bounds.release(nowNs)) {
      this.strays.push(this.views[qp]!);
      this.settle(out);
    }
    this.boundTimer.set(bounds.readyNs, out);
  }

  /** The rates of tenants, in requests of the shortest length per second, for gauges. */
  get rates(): { tenant: string; perS: number }[] {
    return this.names.flatMap((tenant, app) => {
      const perS = this.apps.rateOf(app);
      return perS === 0 ? [] : [{ tenant, perS }];
    });
  }

  override add(qp: QpView, out: Actions): void {
    this.views[qp.index] = qp;
    this.epochTimer.add(qp, out);
    this.boundTimer.add(qp, out);
    this.bounds.reset(qp.index);
    this.lines?.add(qp);
    super.add(qp, out);
  }

  override relabel(qp: QpView, out: Actions): void {
    super.relabel(qp, out);
    const app = this.tenants.of(qp);
    if (this.apps.has(app)) this.apps.setWeight(app, qp.labels.weight);
    else {
      this.apps.begin(app, qp.labels.weight);
      this.names[app] = qp.context.tenant;
    }
    this.share(app);
    this.completions?.join(app, qp.context, out);
    this.fitCompletions(qp.context, out);
  }

  private fitCompletions(context: ContextView, out: Actions): void {
    this.completions?.fit(this.apps, out.nowNs(context), out);
  }

  /** The application of this context receives completions, for the first time in this epoch. */
  handedOver(context: ContextView, out: Actions): void {
    const app = this.completions?.of(context) ?? NONE;
    if (app === NONE || !this.apps.has(app)) return;
    if (this.apps.setReceives(app, true)) this.fitCompletions(context, out);
    this.beginEpochs(context, out);
  }

  /** Sets the weight by which an application is served to its rate. */
  private share(app: number): void {
    for (const { order } of this.directions) order.setWeight(app, this.apps.shareOf(app));
  }

  /** Solves for the rates, if anything has changed. */
  private update(): void {
    if (!this.apps.update()) return;
    for (let app = 0; app < this.tenants.limit; app++) if (this.apps.has(app)) this.share(app);
  }

  override changed(qp: QpView, change: QpChange, out: Actions): void {
    if (change === 'destroyed') {
      this.epochTimer.drop(qp, out);
      this.boundTimer.drop(qp, out);
    }
    super.changed(qp, change, out);
    if (this.waiting.first() !== NONE && this.apps.hasRoom) this.admitNext(out);
  }

  protected override forget(qp: QpView): void {
    const app = this.tenants.of(qp);
    this.unpark(qp.index, app);
    this.views[qp.index] = undefined;
    this.lines?.drop(qp);
    this.bounds.reset(qp.index);
    super.forget(qp);
    if (this.tenants.count(app) > 0) return;
    this.apps.end(app);
    this.bounds.clear(app);
    this.completions?.end(app);
  }

  override onload(qp: QpView, words: Uint32Array, start: number, count: number, out: Actions): number {
    const app = this.tenants.of(qp);
    if (this.apps.needsNotice(app)) this.notice(app, qp, out);
    if (!this.apps.isSeated(app)) return 0;
    if (this.lines === null) return super.onload(qp, words, start, count, out);
    let most = count;
    if (this.bounds.limits(app)) {
      this.clock.begin();
      most = Math.min(count, this.bounds.available(app, this.clock.nowNs(qp.context, out)));
    }
    const passed = most > 0 ? super.onload(qp, words, start, most, out) : 0;
    this.bounds.take(app, passed);
    this.lines.pass(qp, words, start, passed);
    return passed;
  }

  override feed(qp: QpView, out: Actions): void {
    const app = this.tenants.of(qp);
    if (this.apps.needsNotice(app)) this.notice(app, qp, out);
    super.feed(qp, out);
  }

  /** An application posts for the first time in an epoch, or rates are out of date. */
  private notice(app: number, { context }: QpView, out: Actions): void {
    if (this.apps.notice(app)) this.update();
    this.fitCompletions(context, out);
    this.beginEpochs(context, out);
  }

  private beginEpochs(context: ContextView, out: Actions): void {
    if (this.hasEpochs && this.epochTimer.dueNs === Number.POSITIVE_INFINITY)
      this.epochTimer.set(out.nowNs(context) + 1e3 * this.given.epochUs, out);
  }

  private get hasEpochs(): boolean {
    return this.apps.count > 1 || this.lines !== null;
  }

  /** The policy has agents of its own. */
  protected override get hasAgents(): boolean {
    return false;
  }

  protected override mayGo(qp: QpView, out: Actions): boolean {
    const app = this.tenants.of(qp);
    return this.apps.isSeated(app) && this.isInBounds(app, qp, out) && super.mayGo(qp, out);
  }

  /** Whether the application of a queue pair has a token, or no bound. */
  private isInBounds(app: number, qp: QpView, out: Actions): boolean {
    if (!this.bounds.limits(app)) return true;
    const issued = qp.counts[HELD] - out.backlog(qp);
    return this.bounds.mayGo(app, qp.index, issued, this.clock.nowNs(qp.context, out));
  }

  /** An application with a bound gets no advance: requests that pass unseen would exceed the bound. */
  protected override advance(
    tenant: number,
    qp: QpView,
    posted: number,
    bytes: number,
    opcode: number,
    out: Actions,
  ): void {
    if (!this.bounds.limits(tenant)) super.advance(tenant, qp, posted, bytes, opcode, out);
  }

  protected override pass(qp: QpView, out: Actions): void {
    const app = this.tenants.of(qp);
    if (this.apps.isSeated(app)) {
      if (this.isInBounds(app, qp, out)) super.pass(qp, out);
      else {
        const readyNs = this.bounds.park(app, qp.index);
        if (readyNs < this.boundTimer.dueNs) this.boundTimer.set(readyNs, out, qp.context);
      }
      return;
    }
    this.parked.push(qp.index, app);
    this.waiting.push(app);
  }

  private unpark(index: number, app: number): void {
    this.parked.remove(index);
    if (this.parked.first(app) === NONE) this.waiting.remove(app);
  }

  override onCompleted(qp: QpView, out: Actions): void {
    super.onCompleted(qp, out);
    if (this.waiting.first() !== NONE && out.inflight(qp) === 0 && this.isIdle(out)) this.admitNext(out);
  }

  /** Whether no application that is served has anything to send or in flight. */
  private isIdle(out: Actions): boolean {
    for (const qp of this.views) {
      if (qp === undefined) continue;
      if (out.inflight(qp) > 0) return false;
      if (out.backlog(qp) > 0 && this.apps.isSeated(this.tenants.of(qp))) return false;
    }
    return true;
  }

  /** Serves the application that has waited for the longest time, before the epoch ends. */
  private admitNext(out: Actions): void {
    this.clock.begin();
    this.apps.admit(this.waiting.first());
    this.update();
    this.release(out);
  }

  /** Serves the queue pairs that have waited for their applications' epochs. */
  private release(out: Actions): void {
    const { parked, waiting, apps } = this;
    for (let app = waiting.first(); app !== NONE; ) {
      const next = waiting.next(app);
      if (apps.isSeated(app)) {
        waiting.remove(app);
        for (let qp = parked.shift(app); qp !== NONE; qp = parked.shift(app))
          this.strays.push(this.views[qp]!);
      }
      app = next;
    }
    this.settle(out);
  }

  override onTimer(kind: number, context: ContextView, out: Actions): void {
    if (kind === EPOCH) this.beginEpoch(context, out);
    else if (kind === BOUND) {
      this.clock.begin();
      this.releaseBound(context, out);
    } else super.onTimer(kind, context, out);
  }

  private beginEpoch(context: ContextView, out: Actions): void {
    const { apps, epochTimer } = this;
    this.clock.begin();
    // Applications that are no longer served must not bypass the policy any more.
    this.settleAll(out);
    const isSending = apps.next((app) => this.backlogOf(app, out));
    const isUsed = this.countReceivers() || isSending;
    this.update();
    this.fitCompletions(context, out);
    const isActive = (qp: QpView) => apps.isActive(this.tenants.of(qp));
    const owesReport = this.lines?.report(isActive, this.deviceRates.requestsPerS) === false;
    const nowNs = this.clock.nowNs(context, out);
    epochTimer.set(
      (isUsed && this.hasEpochs) || owesReport ? nowNs + 1e3 * this.given.epochUs : Number.POSITIVE_INFINITY,
      out,
    );
    this.release(out);
  }

  /** Whether any application has received completions in the last epoch. */
  private countReceivers(): boolean {
    const { apps, completions } = this;
    let any = false;
    for (let app = 0; completions !== null && app < this.tenants.limit; app++) {
      if (!apps.has(app)) continue;
      const receives = completions.takeHanded(app);
      apps.setReceives(app, receives);
      any ||= receives;
    }
    return any;
  }

  /** The requests of an application that wait. */
  private backlogOf(app: number, out: Actions): number {
    let backlog = 0;
    for (let qp = this.tenants.firstQp(app); qp !== NONE; qp = this.tenants.nextQp(qp))
      backlog += out.backlog(this.views[qp]!);
    return backlog;
  }
}
