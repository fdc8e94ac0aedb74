/**
 * Calls the policy: with one event at a time, deferring those that arise within another, and with `feed`, for held
 * requests, at a post, after completions and after a failure.
 */
import { IBV_QP_STATE, IBV_QPS_ERR, IBV_WC_SUCCESS, ISO_WR_WAIT } from '../verbs/constants.ts';
import type { QpLabels } from '../verbs/labels.ts';
import type { Provider, QpReport, UncutListener } from '../verbs/provider.ts';
import { assertLedger } from './assertions.ts';
import type { ShimContext } from './context.ts';
import { UNCUT_REASONS } from './counters.ts';
import { ARM_ANY, type CqLedger } from './cq-ledger.ts';
import type { DeviceEvents } from './device-events.ts';
import type { Events } from './events.ts';
import { Issuer } from './issue/issuer.ts';
import { CompletionLimits } from './limits/completion-limits.ts';
import type { Policy, QpChange } from './policy.ts';
import type { QpLedger } from './qp-ledger.ts';
import { ResourceKeeper } from './resource-keeper.ts';
import type { Sharing } from './sharing/sharing.ts';
import type { Tables } from './tables.ts';
import { Timers } from './timers/timers.ts';

/** Timer tokens from here on are the limiters', by index of the context. */
export const LIMITER_TOKENS = 2 ** 50;
/** From here on those of connections that wait for their peers, by index of the context. */
export const WATCH_TOKENS = 2 ** 51;

/** The parts of the shim that the feeder uses. */
export interface FeederParts {
  policy: Policy;
  next: Provider;
  tables: Tables;
  events: Events;
  deviceEvents: DeviceEvents;
  sharing: Sharing | null;
  /** The completion channel of a context that the shim listens to. */
  channel(context: ShimContext): number;
  /** Called when the limiter of a context (by index) may have tokens. */
  serve(context: number): void;
  /** Counts of requests that belong to no queue pair of the application. */
  counts: Float64Array;
}

export class Feeder {
  readonly issuer: Issuer;
  readonly timers: Timers;
  readonly resources: ResourceKeeper;
  /** Null: no queue pair shares another one. */
  readonly sharing: Sharing | null;
  /** Null: the policy never limits completions. */
  readonly completionLimits: CompletionLimits | null;
  /** Whether the policy has onCompleted, and whether it is called for queue pairs that have never held a request, too. */
  readonly reportsCompletions: boolean;
  readonly reportsPassed: boolean;
  /** Called for each held request that the policy would have cut, but that goes whole. */
  readonly uncutListeners: UncutListener[] = [];
  private readonly parts: FeederParts;
  private feeding = false;
  /** Passes over a CQ so far: a queue pair is fed once in each. */
  private pass = 0;
  /** Nested events of the policy that are in progress. */
  private depth = 0;
  /**
   * Queue pairs with completions that were not reported to the policy, and their number. Entries beyond it are old: an
   * array that is emptied would be allocated again. The other array is in use while completions are being reported.
   */
  private unreported: QpLedger[] = [];
  private reported: QpLedger[] = [];
  private unreportedCount = 0;
  /** Deferred until the current event has ended: tokens with their status, and other events. */
  private finishedTokens: number[] = [];
  private deferred: (() => void)[] = [];
  /** Deferred as well: queue pairs to feed, and CQs that were armed, which raise no event for earlier completions. */
  private readonly toFeed: QpLedger[] = [];
  private readonly justArmed: CqLedger[] = [];
  /** CQs whose completions arrived while `feedAll` was running. */
  private readonly unfed: CqLedger[] = [];

  constructor(parts: FeederParts) {
    this.parts = parts;
    const { next, tables, events, deviceEvents, policy } = parts;
    this.sharing = parts.sharing;
    this.reportsCompletions = policy.onCompleted !== undefined;
    this.reportsPassed = this.reportsCompletions && policy.completionsOf !== 'held';
    this.timers = new Timers(next, (token) => {
      if (token < LIMITER_TOKENS) this.timerFired(token);
      else if (token < WATCH_TOKENS) parts.serve(token - LIMITER_TOKENS);
      else this.sharing?.look(token - WATCH_TOKENS);
    });
    this.resources = new ResourceKeeper(
      next,
      {
        reportToken: (token, status) => this.finishedTokens.push(token, status),
        pieceEnded: (qp, request, status) => this.pieceEnded(qp, request, status),
        channel: parts.channel,
        listen: (context) => deviceEvents.ensureListening(context.handle),
      },
      parts.counts,
    );
    this.completionLimits =
      policy.limitsCompletions !== true
        ? null
        : new CompletionLimits(next, tables, {
            available: (cq) => events.available(cq),
            used: (context) => this.deferred.push(() => policy.onHandedOver?.(context, this.issuer)),
          });
    this.issuer = new Issuer(next, {
      timers: this.timers,
      resources: this.resources,
      sharing: this.sharing,
      completionLimits: this.completionLimits,
      // `admit` may appear or disappear while the policy runs.
      limits: () => policy.admit !== undefined,
      cq: (handle) => tables.cq(handle),
      qp: (handle) => tables.qp(handle),
      feedLater: (qp) => this.toFeed.push(qp),
      translate: (qp) => this.beginTranslating(qp),
      conclude: (qp) => this.conclude(qp),
      fail: (qp) => this.fail(qp),
      wentWhole: (qp, reason) => {
        if (this.uncutListeners.length > 0) this.reportUncut(qp, reason);
      },
      arm: (cq) => {
        if (events.arm(cq, ARM_ANY)) this.justArmed.push(cq);
      },
      synthesised: (cq) => events.synthesised(cq),
    });
  }

  /** The shim's counts so far of each queue pair, including internal ones. */
  report(): QpReport[] {
    const { tables } = this.parts;
    const known = tables.qps.filter((qp) => qp !== undefined).map((qp) => this.issuer.reportOf(qp));
    return [...known, ...this.resources.reports()];
  }

  /** A request of this queue pair is held for the first time. */
  beginTranslating(qp: QpLedger): void {
    qp.translate();
    qp.sendCq.translatedQps++;
    this.parts.deviceEvents.ensureListening(qp.sendCq.context);
    this.issuer.fit(qp.sges, qp.inlineBytes);
    assertLedger(qp, 'begins to hold');
  }

  /** Lets the policy issue held requests of this queue pair, as one batch. */
  feed(qp: QpLedger): void {
    this.depth++;
    try {
      if (qp.backlog > 0) {
        if (qp.broken) this.flush(qp);
        else if (qp.ready > 0) this.feedHeld(qp);
      }
      this.conclude(qp);
    } finally {
      this.end();
    }
  }

  private flush(qp: QpLedger): void {
    if (this.sharing?.holdsUp(qp) === true) return;
    this.issuer.flushHeld(qp);
    assertLedger(qp, 'flush');
  }

  /** Posts what was written for it, and arms its CQ while it holds requests or awaits tokens. */
  private conclude(qp: QpLedger): void {
    this.issuer.submit(qp);
    this.issuer.account(qp);
    if (qp.backlog === 0) {
      if (qp.inBacklogList) this.unlist(qp);
    } else if (!qp.inBacklogList) {
      qp.inBacklogList = true;
      qp.sendCq.backlogged.push(qp);
    }
    qp.countWaiting();
    if (this.timers.pending > 0) this.timers.arm(qp.context);
    if ((qp.backlog > 0 || qp.awaitedTokens.length > 0) && this.parts.events.arm(qp.sendCq, ARM_ANY)) {
      // Completions that were there before raise no event, may be the last, and may never be polled by the application.
      this.justArmed.push(qp.sendCq);
    }
  }

  /** An event has ended. After the outermost one, posts everything that was written, and handles deferred events. */
  private end(): void {
    if (this.depth === 1) {
      const qp = this.issuer.writing;
      if (qp !== null) this.conclude(qp);
      this.resources.flush();
    }
    this.depth--;
    if (this.hasDeferred) this.drain();
  }

  private get hasDeferred(): boolean {
    return this.finishedTokens.length + this.deferred.length + this.toFeed.length + this.justArmed.length > 0;
  }

  /** Handles events that were deferred. */
  drain(): void {
    const { policy, tables } = this.parts;
    while (this.depth === 0 && this.hasDeferred) {
      const { finishedTokens: internals, deferred: changes } = this;
      this.finishedTokens = [];
      this.deferred = [];
      this.depth++;
      try {
        for (const qp of this.toFeed.splice(0)) if (tables.qp(qp.handle) === qp) this.feed(qp);
        for (const cq of this.justArmed.splice(0)) this.pollArmed(cq);
        for (const change of changes) change();
        for (let i = 0; i < internals.length; i += 2) {
          policy.onInternal?.(internals[i], internals[i + 1], this.issuer);
        }
      } finally {
        this.end();
      }
    }
  }

  /** Polls a CQ that was armed: its earlier completions raise no event. */
  private pollArmed(cq: CqLedger): void {
    const before = cq.produced;
    this.parts.events.poll(cq);
    if (cq.produced !== before) this.toFeed.push(...cq.waiters.splice(0));
  }

  setup(context: ShimContext): void {
    this.depth++;
    try {
      this.parts.policy.setup?.(this.resources.declare(context), this.issuer);
    } finally {
      this.end();
    }
  }

  configure(changes: Readonly<Record<string, unknown>>): void {
    this.depth++;
    try {
      this.parts.policy.configure?.(changes, this.issuer);
    } finally {
      this.end();
    }
  }

  private timerFired(token: number): void {
    this.depth++;
    try {
      this.parts.policy.onTimer?.(token, this.issuer);
    } finally {
      this.end();
    }
  }

  granted(context: ShimContext): void {
    const { policy } = this.parts;
    if (policy.onGrants === undefined) return;
    this.deferred.push(() => policy.onGrants?.(context, this.issuer));
    this.drain();
  }

  /** It holds requests again that were issued before. */
  heldAgain(qp: QpLedger): void {
    this.deferChange(qp, 'state');
    this.toFeed.push(qp);
  }

  /** The weight of a group of the context's tenant has changed. */
  setGroup(context: ShimContext, name: string, weight: number): void {
    const { policy } = this.parts;
    if (policy.onGroup === undefined) return;
    this.deferred.push(() => policy.onGroup?.(context, name, weight, this.issuer));
    this.drain();
  }

  /** Labels of the context have changed, and thereby those of queue pairs that do not set them themselves. */
  relabelContext(context: ShimContext, isWeightAlone: boolean): void {
    const { policy } = this.parts;
    if (isWeightAlone && policy.onWeight !== undefined) {
      this.deferred.push(() => policy.onWeight?.(context, this.issuer));
    } else {
      for (const qp of context.qps) this.relabel(qp);
    }
    this.drain();
  }

  /** Reports a change with the next `drain`. */
  deferChange(qp: QpLedger, change: QpChange): void {
    const { policy } = this.parts;
    if (policy.onQp !== undefined) this.deferred.push(() => policy.onQp?.(qp, change, this.issuer));
  }

  /** Recomputes the labels of a queue pair. If they changed, the next `drain` reports it. */
  relabel(qp: QpLedger, change?: QpLabels): void {
    if (qp.labelling.relabel(change)) this.deferChange(qp, 'labels');
  }

  /** A send failed, or the device reports a failure: the policy is not called until the queue pair is usable again. */
  markFailed(qp: QpLedger): void {
    if (qp.broken) return;
    qp.broken = true;
    qp.countWaiting();
    this.resources.endTwins(qp);
    this.sharing?.abandon(qp);
    this.deferChange(qp, 'state');
  }

  /**
   * The queue pair leaves SQE: earlier errors are old, and held requests are flushed like those that the device had.
   */
  leaveSqe(qp: QpLedger): void {
    qp.staleErrorsUntil = qp.realFreed === qp.realPosted ? null : (qp.realPosted - 1) | 0;
    qp.sendCq.soleSender = null;
    // If requests are held, others are outstanding: after the last error nothing is held.
    if (qp.backlog > 0) qp.consumeHeld();
  }

  /** A completion of its send queue arrived; `feedAll` reports it. */
  countCompletion(qp: QpLedger): void {
    if (qp.unreported === 0) this.unreported[this.unreportedCount++] = qp;
    qp.unreported++;
  }

  /** The request with real number `seq` has ended: so have all up to it whose tokens the policy awaits. */
  reportTokens(qp: QpLedger, seq: number, status: number): void {
    const { awaitedTokens } = qp;
    let n = 0;
    for (; n < awaitedTokens.length && ((awaitedTokens[n] - seq) | 0) <= 0; n += 2) {
      this.finishedTokens.push(awaitedTokens[n + 1], awaitedTokens[n] === seq ? status : 0);
    }
    awaitedTokens.splice(0, n);
    qp.sendCq.awaitedCount -= n / 2;
    qp.countWaiting();
  }

  /**
   * Issues the oldest `count` held requests whole, without the policy, as far as there is room. WAITs and ENABLEs that
   * the device does not support end at once.
   */
  issueWhole(qp: QpLedger, count: number): void {
    const { issuer } = this;
    const emulates = this.parts.policy.zeroWaits === true;
    for (let i = 0; i < count && qp.backlog > 0 && issuer.wholeRoom(qp) > 0; i++) {
      if (!emulates || issuer.nextOpcode(qp) < ISO_WR_WAIT) issuer.pass(qp);
      else if (!issuer.skip(qp)) break;
    }
    this.feed(qp);
  }

  /** Reports to the listeners that the oldest held request goes whole. */
  private reportUncut(qp: QpLedger, reason: number): void {
    const from = (qp.issued & qp.mask) * qp.stride;
    const request = {
      qp: qp.handle,
      wrIdLo: qp.held[from],
      wrIdHi: qp.held[from + 1],
      bytes: qp.bytes[qp.issued & qp.mask],
      policy: this.parts.policy.name,
      reason: UNCUT_REASONS[reason],
    };
    for (const listener of this.uncutListeners) listener(request);
  }

  /** A piece of an application's request has ended on a twin. */
  private pieceEnded(handle: number, request: number, status: number): void {
    const qp = this.parts.tables.qp(handle);
    if (qp === undefined || !qp.isStriped || qp.issued !== request) return;
    qp.onTwins--;
    if (status !== IBV_WC_SUCCESS) qp.twinFailed = true;
    this.toFeed.push(qp);
  }

  /** The policy does not see a message until the peer's table has been read for it. */
  private feedHeld(qp: QpLedger): void {
    if (qp.isStriped) this.issuer.settleStriped(qp);
    if (qp.ready > 0 && !this.issuer.needsLookup(qp)) this.parts.policy.feed(qp, this.issuer);
    if (qp.ready > 0 && this.issuer.needsLookup(qp)) this.issuer.issueLookup(qp);
  }

  /** Feeds the queue pairs that may continue after completions of this CQ. */
  feedAll(cq: CqLedger): void {
    if (this.feeding) {
      this.unfed.push(cq);
      return;
    }
    this.feedOnce(cq);
    for (let next = this.unfed.shift(); next !== undefined; next = this.unfed.shift()) this.feedOnce(next);
  }

  private feedOnce(cq: CqLedger): void {
    this.feeding = true;
    this.pass = (this.pass + 1) | 0;
    try {
      if (this.unreportedCount > 0) this.reportCompleted();
      for (let i = cq.backlogged.length - 1; i >= 0; i--) {
        const qp = cq.backlogged[i];
        if (qp !== undefined && qp.fedIn !== this.pass) this.feed(qp);
      }
      while (cq.waiters.length > 0) {
        const waiting = cq.waiters.splice(0);
        const before = cq.produced;
        for (const qp of waiting) this.feed(qp);
        if (cq.produced === before) break;
      }
    } finally {
      this.feeding = false;
    }
    this.drain();
  }

  /** Feeds each right after onCompleted, so that what both events issue for it is one batch. */
  private reportCompleted(): void {
    const { unreported: completed, unreportedCount } = this;
    this.unreported = this.reported;
    this.reported = completed;
    this.unreportedCount = 0;
    for (let i = 0; i < unreportedCount; i++) {
      const qp = completed[i];
      const count = qp.unreported;
      qp.unreported = 0;
      if (this.parts.tables.qp(qp.handle) !== qp) continue;
      this.depth++;
      try {
        this.parts.policy.onCompleted?.(qp, count, this.issuer);
        if (qp.inBacklogList) {
          qp.fedIn = this.pass;
          this.feed(qp);
        }
      } finally {
        this.end();
      }
    }
  }

  /** The queue pair no longer holds requests. */
  unlist(qp: QpLedger): void {
    qp.inBacklogList = false;
    qp.countWaiting();
    const list = qp.sendCq.backlogged;
    const at = list.indexOf(qp);
    if (at >= 0) list.splice(at, 1);
    qp.waitOn(null);
  }

  /** The device refused requests that it had room for, or their memory is gone: fails the queue pair, as a device does. */
  fail(qp: QpLedger): void {
    if (qp.broken) return;
    this.markFailed(qp);
    this.parts.next.modifyQp(qp.handle, { qpState: IBV_QPS_ERR }, IBV_QP_STATE);
    this.flush(qp);
  }
}
