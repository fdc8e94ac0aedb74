/**
 * Lets the policy have its events, one at a time: what arises within one is told after it. Lets it issue what
 * is held: at a post, after completions, after a failure.
 */
import { IBV_QP_STATE, IBV_QPS_ERR, ISO_WR_WAIT } from '../verbs/constants.ts';
import type { Provider } from '../verbs/provider.ts';
import type { ShimContext } from './context.ts';
import type { CoordinatorPort, Grant } from './coordinator-port.ts';
import { ARM_ANY, type ShimCq } from './cq-ledger.ts';
import type { DeviceEvents } from './device-events.ts';
import type { Events } from './events.ts';
import { Issuer } from './issue/issuer.ts';
import type { Policy, QpChange } from './policy.ts';
import type { ShimQp } from './qp-ledger.ts';
import { ResourceKeeper } from './resources.ts';
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
  readonly hearsCompletions: boolean;
  private readonly parts: FeederParts;
  private feeding = false;
  /** Passes over a CQ so far: a queue pair is fed once in each. */
  private pass = 0;
  /** Events of the policy that are going on, one inside the other. */
  private depth = 0;
  /** Queue pairs with completions that the policy was not told of. */
  private completed: ShimQp[] = [];
  /** What arose within an event: tokens with their status, and everything else. */
  private internals: number[] = [];
  private changes: (() => void)[] = [];
  /** To be fed, and CQs that were armed: what was there by then raises no event. */
  private readonly woken: ShimQp[] = [];
  private readonly unseen: ShimCq[] = [];
  /** CQs whose completions came while those of another, or earlier ones, were being told of. */
  private readonly unfed: ShimCq[] = [];

  constructor(parts: FeederParts) {
    this.parts = parts;
    const { next, tables, events, policy } = parts;
    this.hearsCompletions = policy.onCompleted !== undefined;
    this.timers = new Timers(next, (token) => {
      if (token < LIMITER_TOKENS) this.timerFired(token);
      else parts.serve(token - LIMITER_TOKENS);
    });
    this.resources = new ResourceKeeper(
      next,
      { internal: (token, status) => this.internals.push(token, status), channel: parts.channel },
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
      wake: (qp) => this.woken.push(qp),
      translate: (qp) => this.beginTranslating(qp),
      conclude: (qp) => this.conclude(qp),
      refused: (qp) => this.refused(qp),
      arm: (cq) => {
        if (events.arm(cq, ARM_ANY)) this.unseen.push(cq);
      },
      synthesised: (cq) => events.synthesised(cq),
    });
  }

  beginTranslating(qp: ShimQp): void {
    qp.translate();
    qp.sendCq.translatedQps++;
    this.parts.deviceEvents.need(qp.sendCq.context);
    this.issuer.fit(qp.sges, qp.inlineBytes);
  }

  /** Lets the policy issue what it wants of this queue pair, as one batch. */
  feed(qp: ShimQp): void {
    this.depth++;
    try {
      if (qp.backlog > 0) {
        if (qp.broken) this.issuer.flushHeld(qp);
        else if (qp.ready > 0) this.feedHeld(qp);
      }
      this.conclude(qp);
    } finally {
      this.end();
    }
  }

  /** Its turn is over: what was written for it goes down, and whoever holds requests is to be woken. */
  private conclude(qp: ShimQp): void {
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
    if ((qp.backlog > 0 || qp.tells.length > 0) && this.parts.events.arm(qp.sendCq, ARM_ANY)) {
      // The application may not come to poll what was there before, and it may be the last.
      this.unseen.push(qp.sendCq);
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
    if (this.isWaiting) this.drain();
  }

  private get isWaiting(): boolean {
    return this.internals.length + this.changes.length + this.woken.length + this.unseen.length > 0;
  }

  /** Tells what arose while another event was going on, or in the shim itself. */
  drain(): void {
    const { policy } = this.parts;
    while (this.depth === 0 && this.isWaiting) {
      const { internals, changes } = this;
      this.internals = [];
      this.changes = [];
      this.depth++;
      try {
        for (const qp of this.woken.splice(0)) this.feed(qp);
        for (const cq of this.unseen.splice(0)) this.see(cq);
        for (const change of changes) change();
        for (let i = 0; i < internals.length; i += 2) {
          policy.onInternal?.(internals[i], internals[i + 1], this.issuer);
        }
      } finally {
        this.end();
      }
    }
  }

  private see(cq: ShimCq): void {
    const before = cq.produced;
    this.parts.events.look(cq);
    if (cq.produced !== before) this.woken.push(...cq.waiters.splice(0));
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
    this.changes.push(() => this.parts.policy.onGrant?.(context, grant, this.issuer));
    this.drain();
  }

  /** To be told with the next `drain`. */
  changed(qp: ShimQp, change: QpChange): void {
    const { policy } = this.parts;
    if (policy.onQp !== undefined) this.changes.push(() => policy.onQp?.(qp, change, this.issuer));
  }

  /** A send of it failed, or the device says so: nothing more is asked of the policy until it is whole again. */
  broke(qp: ShimQp): void {
    if (qp.broken) return;
    qp.broken = true;
    qp.countWaiting();
    this.changed(qp, 'state');
  }

  /** It leaves SQE: errors of before are old, and what was held there is flushed as what the device had. */
  mended(qp: ShimQp): void {
    qp.mended = qp.realFreed === qp.realPosted ? null : (qp.realPosted - 1) | 0;
    qp.sendCq.lone = null;
    // Something is outstanding then: had its last error been seen, nothing would be held.
    if (qp.backlog > 0) qp.consumeHeld();
  }

  /** A completion of its send queue arrived; told by `feedAll`. */
  arrived(qp: ShimQp): void {
    if (qp.arrived === 0) this.completed.push(qp);
    qp.arrived++;
  }

  /** Real number `seq` is over: so are the internal requests that the policy wants to hear of, up to there. */
  tell(qp: ShimQp, seq: number, status: number): void {
    const { tells } = qp;
    let n = 0;
    for (; n < tells.length && ((tells[n] - seq) | 0) <= 0; n += 2) {
      this.internals.push(tells[n + 1], tells[n] === seq ? status : 0);
    }
    tells.splice(0, n);
    qp.sendCq.told -= n / 2;
    qp.countWaiting();
  }

  /**
   * The oldest `count` held requests go down whole, whatever the policy thinks, as far as there is room. What the
   * device below does not know is over without it: nothing is waited for.
   */
  hasten(qp: ShimQp, count: number): void {
    const { issuer } = this;
    const emulates = this.parts.policy.zeroWaits === true;
    for (let i = 0; i < count && qp.backlog > 0 && issuer.wholeRoom(qp) > 0; i++) {
      if (!emulates || issuer.nextOpcode(qp) < ISO_WR_WAIT) issuer.pass(qp);
      else if (!issuer.skip(qp)) break;
    }
    this.feed(qp);
  }

  /** The policy does not see a message that the peer is still asked about. */
  private feedHeld(qp: ShimQp): void {
    if (!this.issuer.mustAsk(qp)) this.parts.policy.feed(qp, this.issuer);
    if (qp.ready > 0 && this.issuer.mustAsk(qp)) this.issuer.ask(qp);
  }

  feedAll(cq: ShimCq): void {
    if (this.feeding) {
      this.unfed.push(cq);
      return;
    }
    this.feedOnce(cq);
    for (let next = this.unfed.shift(); next !== undefined; next = this.unfed.shift()) this.feedOnce(next);
  }

  private feedOnce(cq: ShimCq): void {
    this.feeding = true;
    this.pass = (this.pass + 1) | 0;
    try {
      if (this.completed.length > 0) this.tellCompleted();
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
  private tellCompleted(): void {
    const { completed } = this;
    this.completed = [];
    for (const qp of completed) {
      const count = qp.arrived;
      qp.arrived = 0;
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

  unlist(qp: ShimQp): void {
    qp.inBacklogList = false;
    qp.countWaiting();
    const list = qp.sendCq.backlogged;
    const at = list.indexOf(qp);
    if (at >= 0) list.splice(at, 1);
    qp.waitOn(null);
  }

  /** The device took less than it had room for, or the memory went away: as a device does, fail the queue pair. */
  refused(qp: ShimQp): void {
    if (qp.broken) return;
    this.broke(qp);
    this.parts.next.modifyQp(qp.handle, { qpState: IBV_QPS_ERR }, IBV_QP_STATE);
    this.issuer.flushHeld(qp);
  }
}
