/** Lets the policy issue what is held: at a post, after completions, after a failure. */
import { IBV_QP_STATE, IBV_QPS_ERR } from '../verbs/constants.ts';
import type { Provider } from '../verbs/provider.ts';
import { ARM_ANY, type ShimCq } from './completion.ts';
import type { DeviceEvents } from './device-events.ts';
import type { Events } from './events.ts';
import { Issuer } from './issue.ts';
import type { Policy } from './policy.ts';
import type { ShimQp } from './queue.ts';
import type { Tables } from './tables.ts';

export class Feeder {
  readonly issuer: Issuer;
  private readonly policy: Policy;
  private readonly next: Provider;
  private readonly tables: Tables;
  private readonly events: Events;
  private readonly deviceEvents: DeviceEvents;
  private feeding = false;

  constructor(policy: Policy, next: Provider, tables: Tables, events: Events, deviceEvents: DeviceEvents) {
    this.policy = policy;
    this.next = next;
    this.tables = tables;
    this.events = events;
    this.deviceEvents = deviceEvents;
    this.issuer = new Issuer(next, {
      cq: (handle) => tables.cq(handle),
      refused: (qp) => this.refused(qp),
      arm: (cq) => events.arm(cq, ARM_ANY),
      synthesised: (cq) => events.synthesised(cq),
    });
  }

  beginTranslating(qp: ShimQp): void {
    qp.translate();
    qp.sendCq.translatedQps++;
    this.deviceEvents.need(qp.sendCq.context);
    this.issuer.fit(qp.sges, qp.inlineBytes);
  }

  /** Lets the policy issue what it wants of this queue pair, as one batch. */
  feed(qp: ShimQp): void {
    if (qp.backlog > 0) {
      if (qp.broken) this.issuer.flushHeld(qp);
      else this.feedHeld(qp);
    }
    this.issuer.post(qp);
    this.issuer.account(qp);
    if (qp.backlog === 0) {
      if (qp.inBacklogList) this.unlist(qp);
      return;
    }
    if (!qp.inBacklogList) {
      qp.inBacklogList = true;
      qp.sendCq.backlogged.push(qp);
    }
    this.events.arm(qp.sendCq, ARM_ANY);
  }

  /** The oldest `count` held requests go down whole, whatever the policy thinks, as far as there is room. */
  hasten(qp: ShimQp, count: number): void {
    for (let i = 0; i < count && qp.backlog > 0 && this.issuer.room(qp) > 0; i++) this.issuer.pass(qp);
    this.feed(qp);
  }

  /** The policy does not see a message that the peer is still asked about. */
  private feedHeld(qp: ShimQp): void {
    if (!this.issuer.mustAsk(qp)) this.policy.feed(qp, this.issuer);
    if (this.issuer.mustAsk(qp)) this.issuer.ask(qp);
  }

  feedAll(cq: ShimCq): void {
    if (this.feeding) return;
    this.feeding = true;
    try {
      for (let i = cq.backlogged.length - 1; i >= 0; i--) {
        if (i < cq.backlogged.length) this.feed(cq.backlogged[i]);
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
  }

  unlist(qp: ShimQp): void {
    qp.inBacklogList = false;
    const list = qp.sendCq.backlogged;
    const at = list.indexOf(qp);
    if (at >= 0) list.splice(at, 1);
    for (const cq of this.tables.cqs) {
      const waiting = cq?.waiters.indexOf(qp) ?? -1;
      if (waiting >= 0) cq!.waiters.splice(waiting, 1);
    }
  }

  /** The device took less than it had room for, or the memory went away: as a device does, fail the queue pair. */
  refused(qp: ShimQp): void {
    if (qp.broken) return;
    qp.broken = true;
    this.next.modifyQp(qp.handle, { qpState: IBV_QPS_ERR }, IBV_QP_STATE);
    this.issuer.flushHeld(qp);
  }
}
