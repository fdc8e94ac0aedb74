/**
 * Lets the policy have its events, one at a time: what arises within one is told after it. Lets it issue what
 * is held: at a post, after completions, after a failure.
 */
import { IBV_QP_STATE, IBV_QPS_ERR, ISO_WR_WAIT } from '../verbs/constants.ts';
import type { Provider } from '../verbs/provider.ts';
import { assertLedger } from './assertions.ts';
import type { ShimContext } from './context.ts';
import type { CoordinatorPort, Grant } from './coordinator-port.ts';
import { ARM_ANY, type CqLedger } from './cq-ledger.ts';
import type { DeviceEvents } from './device-events.ts';
import type { Events } from './events.ts';
import { Issuer } from './issue/issuer.ts';
import type { Policy, QpChange } from './policy.ts';
import type { QpLedger } from './qp-ledger.ts';
import { ResourceKeeper } from './resource-keeper.ts';
import type { Tables } from './tables.ts';
import { Timers } from './timers.ts';

/** Tokens of timers from here on: limiters, by index of the context. */
export const LIMITER_TOKENS = 2 ** 50;

/** What the feeder stands on. */
export interface FeederParts {
  policy: Policy;
  next: Provider;
  tables: Tables;
  events: Events;
  deviceEvents: DeviceEvents;
  coordinator: CoordinatorPort | null;
  /** The channel of a context that the shim hears. */
  channel(context: ShimContext): number;
  /** The limiter of a context may have tokens. */
  serve(context: number): void;
  /** Where requests are counted that belong to no queue pair of the application. */
  counts: Float64Array;
}

export class Feeder {
  readonly issuer: Issuer;
  readonly timers: Timers;
  readonly resources: ResourceKeeper;
  /** Whether the policy wants to hear of completions. */
  readonly reportsCompletions: boolean;
  private readonly parts: FeederParts;
  private feeding = false;
  /** Passes over a CQ so far: a queue pair is fed once in each. */
  private pass = 0;
  /** Events of the policy that are going on, one inside the other. */
  private depth = 0;
  /** Queue pairs with completions that the policy was not told of. */
  private unreported: QpLedger[] = [];
  /** What arose within an event: tokens with their status, and everything else. */
  private finishedTokens: number[] = [];
  private deferred: (() => void)[] = [];
  /** To be fed, and CQs that were armed: what was there by then raises no event. */
  private readonly toFeed: QpLedger[] = [];
  private readonly justArmed: CqLedger[] = [];
  /** CQs whose completions came while those of another, or earlier ones, were being told of. */
  private readonly unfed: CqLedger[] = [];

  constructor(parts: FeederParts) {
    this.parts = parts;
    const { next, tables, events, policy } = parts;
    this.reportsCompletions = policy.onCompleted !== undefined;
    this.timers = new Timers(next, (token) => {
      if (token < LIMITER_TOKENS) this.timerFired(token);
      else parts.serve(token - LIMITER_TOKENS);
    });
    this.resources = new ResourceKeeper(
      next,
      { reportToken: (token, status) => this.finishedTokens.push(token, status), channel: parts.channel },
      parts.counts,
    );
    this.issuer = new Issuer(next, {
      timers: this.timers,
      resources: this.resources,
      coordinator: parts.coordinator,
      // It may change while it runs.
      get limits() {
        return policy.admit !== undefined;
      },
      cq: (handle) => tables.cq(handle),
      qp: (handle) => tables.qp(handle),
      feedLater: (qp) => this.toFeed.push(qp),
      translate: (qp) => this.beginTranslating(qp),
      conclude: (qp) => this.conclude(qp),
      fail: (qp) => this.fail(qp),
      arm: (cq) => {
        if (events.arm(cq, ARM_ANY)) this.justArmed.push(cq);
      },
      synthesised: (cq) => events.synthesised(cq),
    });
  }

  beginTranslating(qp: QpLedger): void {
    qp.translate();
    qp.sendCq.translatedQps++;
    this.parts.deviceEvents.ensureListening(qp.sendCq.context);
    this.issuer.fit(qp.sges, qp.inlineBytes);
    assertLedger(qp, 'begins to hold');
  }

  /** Lets the policy issue what it wants of this queue pair, as one batch. */
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
    this.issuer.flushHeld(qp);
    assertLedger(qp, 'flush');
  }

  /** Its turn is over: what was written for it goes down, and whoever holds requests is to be woken. */
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
    if (this.timers.pending > 0) this.timers.sleep(qp.context);
    if ((qp.backlog > 0 || qp.awaitedTokens.length > 0) && this.parts.events.arm(qp.sendCq, ARM_ANY)) {
      // The application may not come to poll what was there before, and it may be the last.
      this.justArmed.push(qp.sendCq);
    }
  }

  /** An event is over. Of the outermost, everything that was written goes down; then come those that waited. */
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

  /** Tells what arose while another event was going on, or in the shim itself. */
  drain(): void {
    const { policy } = this.parts;
    while (this.depth === 0 && this.hasDeferred) {
      const { finishedTokens: internals, deferred: changes } = this;
      this.finishedTokens = [];
      this.deferred = [];
      this.depth++;
      try {
        for (const qp of this.toFeed.splice(0)) this.feed(qp);
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

  granted(context: ShimContext, grant: Grant): void {
    this.deferred.push(() => this.parts.policy.onGrant?.(context, grant, this.issuer));
    this.drain();
  }

  /** To be told with the next `drain`. */
  deferChange(qp: QpLedger, change: QpChange): void {
    const { policy } = this.parts;
    if (policy.onQp !== undefined) this.deferred.push(() => policy.onQp?.(qp, change, this.issuer));
  }

  /** A send of it failed, or the device says so: nothing more is asked of the policy until it is whole again. */
  markFailed(qp: QpLedger): void {
    if (qp.broken) return;
    qp.broken = true;
    qp.countWaiting();
    this.deferChange(qp, 'state');
  }

  /** It leaves SQE: errors of before are old, and what was held there is flushed as what the device had. */
  leaveSqe(qp: QpLedger): void {
    qp.staleErrorsUntil = qp.realFreed === qp.realPosted ? null : (qp.realPosted - 1) | 0;
    qp.sendCq.soleSender = null;
    // Something is outstanding then: had its last error been seen, nothing would be held.
    if (qp.backlog > 0) qp.consumeHeld();
  }

  /** A completion of its send queue arrived; told by `feedAll`. */
  countCompletion(qp: QpLedger): void {
    if (qp.unreported === 0) this.unreported.push(qp);
    qp.unreported++;
  }

  /** Real number `seq` is over: so are the internal requests that the policy wants to hear of, up to there. */
  reportTokens(qp: QpLedger, seq: number, status: number): void {
    const { awaitedTokens: tells } = qp;
    let n = 0;
    for (; n < tells.length && ((tells[n] - seq) | 0) <= 0; n += 2) {
      this.finishedTokens.push(tells[n + 1], tells[n] === seq ? status : 0);
    }
    tells.splice(0, n);
    qp.sendCq.awaitedCount -= n / 2;
    qp.countWaiting();
  }

  /**
   * The oldest `count` held requests go down whole, whatever the policy thinks, as far as there is room. What the
   * device below does not know is over without it: nothing is waited for.
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

  /** The policy does not see a message that the peer is still asked about. */
  private feedHeld(qp: QpLedger): void {
    if (!this.issuer.needsLookup(qp)) this.parts.policy.feed(qp, this.issuer);
    if (qp.ready > 0 && this.issuer.needsLookup(qp)) this.issuer.issueLookup(qp);
  }

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
      if (this.unreported.length > 0) this.reportCompleted();
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

  /** Each is fed at once, so that what both events issue for it is one batch. */
  private reportCompleted(): void {
    const { unreported: completed } = this;
    this.unreported = [];
    for (const qp of completed) {
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

  unlist(qp: QpLedger): void {
    qp.inBacklogList = false;
    qp.countWaiting();
    const list = qp.sendCq.backlogged;
    const at = list.indexOf(qp);
    if (at >= 0) list.splice(at, 1);
    qp.waitOn(null);
  }

  /** The device took less than it had room for, or the memory went away: as a device does, fail the queue pair. */
  fail(qp: QpLedger): void {
    if (qp.broken) return;
    this.markFailed(qp);
    this.parts.next.modifyQp(qp.handle, { qpState: IBV_QPS_ERR }, IBV_QP_STATE);
    this.flush(qp);
  }
}
