/**
 * PeRF (USENIX ATC 2024) routes each request to one of its engines (section 4.1 of the paper) and reports what it
 * observes to the coordinator. With nothing to isolate, requests bypass the engines.
 */

import { WRITTEN_NS } from '../../coordinator/member-table.ts';
import type { CoordinatorRegistry } from '../../coordinator/registry.ts';
import { plainRun } from '../../shim/plain-requests.ts';
import type { Actions, ContextView, Policy, QpChange, QpView } from '../../shim/policy.ts';
import type { Resources } from '../../shim/resources.ts';
import { IBV_QPT_RC, IBV_QPT_UD } from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import type { PolicyGauge, PolicyState } from '../../verbs/provider.ts';
import { LARGE, LARGE_BYTES, SMALL, UNKNOWN } from '../kit/classifier.ts';
import { passAll } from '../kit/step.ts';
import { mergeOptions } from '../parse-options.ts';
import { Classifier, EgressDevice, FIRST_SAMPLE_NS, Member } from './classifier.ts';
import {
  BANDWIDTH,
  BUSY_LARGE_QPS,
  CLASS,
  HELD_DEMAND,
  IDLE,
  NO_ROTATION,
  SLOT_DEMAND,
  SLOT_STATE,
  SPLIT,
} from './columns.ts';
import { describe } from './describe.ts';
import { Limits } from './limits.ts';
import { Lmse } from './lmse.ts';
import { master, masterRulesOf } from './master.ts';
import { type FirstTurns, MQSE_KINDS, Mqse, type MqseOptions, type Quota, TOKEN_BITS } from './mqse.ts';
import { FIXED, type PerfOptions, perfOptions } from './options.ts';
import { Readers, readAgents } from './read-agent.ts';
import { firstLarge, isAnswered, knownBytes } from './requests.ts';
import { slotRules, slots } from './slot-rotation.ts';
import { SoftwareTurns } from './software-turns.ts';
import { SLOT_TIMER, TenantSlots } from './tenant-slots.ts';
import type { ActiveTenants } from './wait-pacer.ts';

/** A turn never ends with a smaller piece of a message than this. */
const MIN_PIECE_BYTES = 4096;
/** Kind of a timer (mqse.ts: TOKEN_BITS). */
const SAMPLE = MQSE_KINDS;

/** The policy perf: routes each request to an engine, and reports what it observes to the coordinator. */
export class Perf implements Policy {
  readonly name = 'perf';
  readonly needs = { wait: 'preferred' } as const;
  readonly slots: number;
  readonly splitsAboveBytes: number;
  /** The shim executes the application's WAITs, because the device would count the completions of pieces. */
  readonly crossChannel = true;
  readonly statistics = true;
  /** Absent without a limit, so that posts do not pay for the call. */
  admit?: Policy['admit'];
  private readonly options: PerfOptions;
  private readonly limits: Limits;
  private readonly registry: CoordinatorRegistry;
  private readonly classifier: Classifier;
  private readonly lmse: Lmse;
  private readonly mqse: Mqse;
  private readonly softwareTurns: SoftwareTurns;
  private readonly tenantSlots: TenantSlots;
  /** Columns by context. */
  private readonly members: Member[] = [];
  /** MasterRules.rotateFrom */
  private readonly rotateFrom: number[] = [];
  /** Columns by queue pair. */
  private readonly qps: QpView[] = [];

  constructor(given: PerfOptions, coordinators: CoordinatorRegistry, firstTurns?: FirstTurns) {
    // A copy, because configure() changes it.
    const options = { ...given };
    this.options = options;
    this.registry = coordinators;
    this.classifier = new Classifier(options);
    this.limits = new Limits(options);
    this.lmse = new Lmse(options, (qp) => this.softwareTurns.sinkOf(qp));
    const feed = (qp: QpView, out: Actions) => this.feedStraight(qp, out);
    const issue = (qp: QpView, out: Actions, quota: Quota) => this.issue(qp, out, quota);
    const aheadBytes = (qp: QpView, out: Actions) => this.aheadBytes(qp, out);
    this.tenantSlots = new TenantSlots(coordinators, options.slotNs, {
      feedAll: (member, out) => this.feedAll(member, out),
      kindOf: (qp) => this.classifier.windows.kindOf(qp),
      handoverDelayNs: (member, bytes, out) =>
        this.lmse.handoverDelayNs(member.context, member.home.tenants, bytes, out),
    });
    const holds = (qp: QpView, out: Actions) => this.holds(this.members[qp.context.index], qp, out);
    this.mqse = new Mqse({ feed, issue, aheadBytes, holds }, mqseOptions(options), firstTurns);
    this.softwareTurns = new SoftwareTurns({ feed, issue, aheadBytes }, options);
    this.slots = this.lmse.slots;
    this.splitsAboveBytes = options.subMsgSizeBytes;
    this.updateAdmit();
  }

  private updateAdmit(): void {
    this.admit =
      this.options.maxRequestsPerS > 0
        ? (qp, _words, _start, count, out) => this.limits.take(qp, count, out)
        : undefined;
  }

  configure(changes: Readonly<Record<string, unknown>>, out: Actions): void {
    const { options } = this;
    Object.assign(options, mergeOptions('perf', perfOptions, options, changes, FIXED));
    this.updateAdmit();
    this.lmse.configure(options);
    this.mqse.configure(mqseOptions(options), out);
    this.tenantSlots.slotNs = options.slotNs;
    this.classifier.configure(options);
    for (const member of this.members) {
      // Contexts of other devices leave holes.
      if (member === undefined || !this.registry.has(member.context)) continue;
      const { context } = member;
      this.classifier.resetCandidates(member);
      const toRules = (given: PerfOptions) => masterRulesOf(given, context, out.wait);
      this.registry.changeRules(context, master, options, toRules);
      this.registry.changeRules(context, slots, options, slotRules);
      this.rotateFrom[context.index] = toRules(options).rotateFrom;
      this.decide(member, out.nowNs(context));
      this.registry.announce(context.device);
      this.allow(context, member.allowance, out);
      this.endPassPlain(member, out);
      this.feedAll(member, out);
    }
  }

  admitQp(context: ContextView): boolean {
    return this.limits.mayAddQp(context);
  }

  setup(resources: Resources, out: Actions): void {
    const { context } = resources;
    const toRules = (given: PerfOptions) => masterRulesOf(given, context, out.wait);
    this.registry.govern(context, master, this.options, toRules);
    this.registry.govern(context, slots, this.options, slotRules);
    this.rotateFrom[context.index] = toRules(this.options).rotateFrom;
    this.mqse.setup(resources);
    this.softwareTurns.setup(resources);
    this.limits.addContext(context, out.nowNs(context), (one) => this.registry.has(one));
    const readers = new Readers(
      () => out.nowNs(context),
      () => this.registry.notify(context),
      (events) => this.registry.line(context, readAgents, events),
    );
    this.members[context.index] = new Member(context, this.registry.page(context), readers);
    this.tenantSlots.addContext(context);
    this.allow(context, 0, out);
  }

  onQp(qp: QpView, change: QpChange, out: Actions): void {
    if (change === 'labels') {
      const member = this.members[qp.context.index];
      if (this.classifier.relabel(member, qp)) this.sampleSoon(member, out);
      return;
    }
    this.mqse.onQp(qp, change, out);
    this.softwareTurns.onQp(qp, change, out);
    if (change === 'created') {
      this.qps[qp.index] = qp;
      this.limits.addQp(qp);
      this.lmse.reset(qp);
      this.classifier.add(this.members[qp.context.index], qp);
    } else if (change === 'destroyed') {
      this.limits.removeQp(qp);
      const member = this.members[this.qps[qp.index].context.index];
      this.classifier.remove(member, qp);
      this.sampleSoon(member, out);
      this.tenantSlots.onQpChange(member, out);
    } else {
      if (qp.sgid !== '') this.registry.registerGid(qp.context.device, qp.sgid);
      this.tenantSlots.onQpChange(this.members[qp.context.index], out);
    }
  }

  /**
   * Small messages bypass the policy while no large one precedes them. With nothing to isolate, every message does.
   */
  onload(qp: QpView, words: Uint32Array, start: number, count: number, out?: Actions): number {
    const below = out === undefined ? LARGE_BYTES : this.pacedFrom(qp, out);
    const small = plainRun(words, start, count, below);
    const large = small === count ? count : firstLarge(words, start, small, count, below);
    if (large < 0) return 0;
    if (out !== undefined) {
      const member = this.members[qp.context.index];
      if (this.needsInspection(member, qp)) {
        const at = L.slotAt(start + (large < count ? large : 0));
        this.inspectOpcode(member, qp, words[at + L.WR_OP] & 0xff);
        this.recordFirst(member, qp, large < count ? knownBytes(words, at) : 0, count, out);
      }
      if (this.classifier.isAside(member, qp)) return count;
      if (this.mqse.shapes(qp) || this.softwareTurns.shapes(qp)) return 0;
      if (below === LARGE_BYTES) out.passPlain(qp, LARGE_BYTES);
      const egress = this.classifier.egressOf(member, qp);
      if (!this.splits(egress) && egress.slots.grants[SLOT_STATE] === NO_ROTATION) return count;
    }
    return qp.type === IBV_QPT_RC || qp.type === IBV_QPT_UD ? large : count;
  }

  /** The size of the smallest messages that are not passed to the device at once. */
  private pacedFrom(qp: QpView, out: Actions): number {
    const member = this.members[qp.context.index];
    const { master } = this.classifier.egressOf(member, qp);
    if (master.grants[SPLIT] === 0 || !this.lmse.pacesShort(qp.context, out)) return LARGE_BYTES;
    // Small messages that fill the link are held, and so are those that are small among slightly larger ones.
    if (master.reports[CLASS] !== BANDWIDTH) return 0;
    const { windows } = this.classifier;
    return windows.kindOf(qp) === LARGE && windows.meanOf(qp) < 2 * LARGE_BYTES ? 0 : LARGE_BYTES;
  }

  /** Whether a request of this queue pair is news: the queue pair is not yet inspected, or its context was idle. */
  private needsInspection(member: Member, qp: QpView): boolean {
    return member.periodNs === 0 || this.classifier.uninspected[qp.index] === 1;
  }

  /** Notes, once per sample, what a queue pair posts. Data that it READs leaves by the peer's device. */
  private inspectOpcode(member: Member, qp: QpView, opcode: number): void {
    if (!isAnswered(opcode)) {
      this.classifier.inspect(qp, undefined);
      return;
    }
    this.classifier.inspect(qp, this.readEgressOf(member, qp));
  }

  /** The device through which the data of a queue pair's READs leaves: the peer's; if unknown, the reader's. */
  private readEgressOf(member: Member, { dgid, sgid }: QpView): EgressDevice {
    const { egressDevices, home } = member;
    const reader = member.readers.of(dgid, sgid);
    if (reader === null) return home;
    const known = egressDevices.find((one) => one.reader === reader);
    if (known !== undefined) return known;
    const place = new EgressDevice(dgid, reader.page, home.rate.linkGbps, reader);
    egressDevices.push(place);
    return place;
  }

  /** Records the first requests of a queue pair, or of a context that was idle. */
  private recordFirst(member: Member, qp: QpView, largeBytes: number, count: number, out: Actions): void {
    const { context } = member;
    const nowNs = out.nowNs(context);
    const egress = this.classifier.egressOf(member, qp);
    if (this.classifier.windows.kindOf(qp) === UNKNOWN || egress.master.reports[CLASS] === IDLE) {
      const { main } = member;
      this.classifier.recordFirst(member, qp, largeBytes, count);
      if (member.main !== main) this.tenantSlots.onMove(member, main, out);
      egress.page.counters[WRITTEN_NS] = nowNs;
      this.decide(member, nowNs);
      // The next sample notifies the members that changed. It is brought forward, and other members' starts do not delay it.
      if (this.registry.hasChanges(context)) this.sampleSoon(member, out);
    }
    if (member.periodNs === 0) {
      if (!this.options.paper) member.lastSampleNs = nowNs;
      this.planSample(member, nowNs, out);
    }
  }

  private splits({ isProvisional, isSplit }: EgressDevice): boolean {
    const { isolation } = this.options;
    if (isolation !== 'auto') return isolation === 'always';
    // The first sample shows which tenants are active. Messages sent whole before it could not be recalled.
    return isProvisional || isSplit;
  }

  feed(qp: QpView, out: Actions): void {
    const member = this.members[qp.context.index];
    if (this.needsInspection(member, qp)) this.inspectHeld(member, qp, out);
    if (this.classifier.isAside(member, qp)) {
      passAll(qp, out);
      return;
    }
    if (this.mqse.shapes(qp)) this.mqse.feed(qp, out);
    else this.feedStraight(qp, out);
    this.tenantSlots.onFed(member, qp, out);
  }

  /** Inspects requests that `onload` never saw: those of managed queue pairs, or behind a WAIT of the application. */
  private inspectHeld(member: Member, qp: QpView, out: Actions): void {
    if (out.backlog(qp) === 0) return;
    this.inspectOpcode(member, qp, out.nextOpcode(qp));
    this.recordFirst(member, qp, out.nextBytes(qp), out.outstanding(qp), out);
  }

  private feedAll(member: Member, out: Actions): void {
    for (const qp of member.qps) {
      if (!qp.broken && out.backlog(qp) > 0) this.feed(qp, out);
    }
  }

  /** Whether the queue pair must hold its requests for now. */
  private holds(member: Member, qp: QpView, out: Actions): boolean {
    if (this.tenantSlots.holds(member, qp, out)) return true;
    const { context, home } = member;
    const isCrowd = home.master.grants[BUSY_LARGE_QPS] > this.rotateFrom[context.index];
    if (
      !home.isProvisional ||
      home.slots.grants[SLOT_STATE] !== NO_ROTATION ||
      !isCrowd ||
      this.classifier.windows.kindOf(qp) === SMALL
    )
      return false;
    // Thousands of queue pairs may start at once, and what each sends before the first sample cannot be recalled.
    out.timer(context, member.nextSampleNs, (context.index << TOKEN_BITS) | SAMPLE);
    return true;
  }

  /** Feeds a queue pair that takes no turns. */
  private feedStraight(qp: QpView, out: Actions): void {
    const member = this.members[qp.context.index];
    const egress = this.classifier.egressOf(member, qp);
    if (this.holds(member, qp, out)) this.lmse.pause(qp);
    else if (this.softwareTurns.shapes(qp)) this.softwareTurns.feed(qp, out);
    else if (this.splits(egress)) this.lmse.feed(qp, out, egress.tenants);
    // Isolation has ended, or the request is a WAIT.
    else passAll(qp, out);
  }

  /**
   * The tenants that compete with a queue pair whose messages are split within its turns; null if they are not split.
   */
  private splitTenants(qp: QpView): ActiveTenants | null {
    const member = this.members[qp.context.index];
    const egress = this.classifier.egressOf(member, qp);
    if (this.splits(egress)) return egress.tenants;
    // At this end a turn of READs is over once they are requested, so a turn may request only as much as arrives within
    // it.
    return this.classifier.onlyReads(qp) ? egress.filling : null;
  }

  /** The bytes that follow the ENABLE of a turn, sent while the next turn begins. */
  private aheadBytes(qp: QpView, out: Actions): number {
    const tenants = this.splitTenants(qp);
    return tenants === null ? 0 : this.lmse.handoverBytes(qp, out, tenants);
  }

  /** Issues requests within a turn. */
  private issue(qp: QpView, out: Actions, quota: Quota): void {
    const tenants = this.splitTenants(qp);
    if (tenants !== null) {
      this.lmse.issue(qp, out, quota, tenants);
      return;
    }
    while (quota.bytes > 0 && quota.requests > 0 && quota.slots > 0) {
      if (out.backlog(qp) === 0 || out.isCrossChannel(qp)) return;
      const bytes = out.nextBytes(qp);
      const least = Math.max(quota.bytes, MIN_PIECE_BYTES);
      // Turns must be equal, so a message longer than the rest of one continues in the next.
      if (bytes > least && out.splittable(qp)) {
        out.piece(qp, least);
        quota.bytes -= least;
      } else {
        out.pass(qp);
        quota.bytes -= bytes;
      }
      quota.requests--;
      quota.slots--;
    }
  }

  onInternal(token: number, status: number, out: Actions): void {
    if (!this.softwareTurns.onInternal(token, out)) this.mqse.onInternal(token, status, out);
  }

  onGrants(context: ContextView, out: Actions): void {
    const member = this.members[context.index];
    this.allow(context, member.allowance, out);
    this.tenantSlots.onGrants(member, out);
  }

  /** Has the master decide at each device where the member sends. */
  private decide({ context, egressDevices }: Member, nowNs: number): void {
    for (const place of egressDevices) {
      const { kind, reader } = place;
      const isNews = kind !== place.lastKind;
      if (reader !== null) reader.report(false, isNews);
      else this.registry.decide(context, master, nowNs, isNews);
      place.lastKind = kind;
    }
  }

  /** Sets how many queue pairs of a context may send at the same time; 0 for all. */
  private allow(context: ContextView, granted: number, out: Actions): void {
    const { qpIsolation, qNumAllow } = this.options;
    const count = { auto: granted, always: qNumAllow, never: 0 }[qpIsolation];
    this.mqse.allow(context, count, out);
    this.softwareTurns.allow(context, count, out);
    if (count > 0) this.endPassPlain(this.members[context.index], out);
  }

  /**
   * Stops plain requests from bypassing `onload`, because the next post of each queue pair is news or takes turns.
   */
  private endPassPlain(member: Member, out: Actions): void {
    for (const qp of member.qps) out.passPlain(qp, 0);
  }

  onTimer(token: number, out: Actions): void {
    if (this.mqse.onTimer(token, out) || this.softwareTurns.onTimer(token, out)) return;
    const index = token >>> TOKEN_BITS;
    const kind = token & ((1 << TOKEN_BITS) - 1);
    if (kind === SAMPLE) this.sample(this.members[index], out);
    if (kind === SLOT_TIMER) this.tenantSlots.onTimer(this.members[index], out);
  }

  private sample(member: Member, out: Actions): void {
    const { context } = member;
    const nowNs = out.nowNs(context);
    const { main, home } = member;
    // Requests held for a slot may no longer need one, or need one at another device. No other event would feed them.
    const isToFeed = home.isProvisional || main.slots.reports[SLOT_DEMAND] === HELD_DEMAND;
    const isActive = this.classifier.sample(member, nowNs, out);
    if (member.main !== main) this.tenantSlots.onMove(member, main, out);
    this.decide(member, nowNs);
    this.registry.announce(context.device);
    // Changes by a coordinator of another thread are not announced to this one.
    this.allow(context, member.allowance, out);
    if (isActive) this.planSample(member, nowNs, out);
    this.endPassPlain(member, out);
    if (isToFeed) this.feedAll(member, out);
  }

  /** Describes the class of each active context and the isolation applied to it. */
  inspect(): Omit<PolicyState, 'policy'>[] {
    const open = this.members.filter((member) => this.registry.has(member.context));
    return open.flatMap((member) => describe(member, (egress) => this.splits(egress), this.options.thMApp));
  }

  /** Whether the messages of each context are split, and how many of its queue pairs may send at a time. */
  gauges(): Omit<PolicyGauge, 'policy'>[] {
    const open = this.members.filter((member) => this.registry.has(member.context) && member.qps.length > 0);
    return open.flatMap(({ context, home, allowance }) => {
      const { device, tenant } = context;
      return [
        { device, tenant, name: 'split', unit: '0 or 1', value: home.isSplit ? 1 : 0 },
        { device, tenant, name: 'allowed', unit: 'queue pairs, 0: all', value: allowance },
      ];
    });
  }

  /** Brings the next sample forward after a change that other members should learn of. */
  private sampleSoon(member: Member, out: Actions): void {
    const nowNs = out.nowNs(member.context);
    if (member.periodNs === 0 || member.nextSampleNs <= nowNs + FIRST_SAMPLE_NS) return;
    member.periodNs = 0;
    this.planSample(member, nowNs, out);
  }

  private planSample(member: Member, nowNs: number, out: Actions): void {
    const { context } = member;
    out.timer(
      context,
      this.classifier.planSample(member, nowNs),
      (context.index << TOKEN_BITS) | SAMPLE,
      true,
    );
  }
}

/** The options of perf that MQSE uses. */
function mqseOptions(o: PerfOptions): MqseOptions {
  const aheadBytes = o.turnBytes >> 3;
  const aheadRequests = (3 * o.turnRequests) >> 4;
  return {
    turnBytes: o.turnBytes,
    turnRequests: o.turnRequests,
    aheadBytes,
    aheadRequests,
    watchdogNs: o.watchdogNs,
    seed: o.seed,
  };
}
