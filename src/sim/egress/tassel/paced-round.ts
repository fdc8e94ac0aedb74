/**
 * The round of a port whose limiter is Tassel. Of the limited queue pairs with an eligible packet, the one with the
 * smallest finish time goes first (3.1.3). Queue pairs without a limit keep the order of the profile, and alternate with
 * the limited ones by packet, each with the same share: a limit is an upper bound, not a reservation.
 *
 * The FIFO behind it is short, because a packet must not be chosen before the link is idle: later ones may have smaller
 * finish times.
 */
import type { NicParams } from '../../profile/params.ts';
import { ROLE_REQUEST, type Sender } from '../../transport/qp.ts';
import { nextRequestBytes } from '../../transport/request-packets.ts';
import { nextResponseBytes } from '../../transport/responder.ts';
import { TurnOrder } from '../palos/turn-order.ts';
import type { QpScheduler } from '../qp-scheduler.ts';
import type { EligiblePackets, LinkTags } from './link-tags.ts';

const NONE = -1;

export class PacedRound implements QpScheduler, EligiblePackets {
  readonly fifoBytes: number;
  private readonly headers: { readonly params: Readonly<NicParams> };
  private readonly tags: LinkTags;
  private readonly others: QpScheduler;
  /** Limited senders with an eligible packet, by finish time. Numbers are twice the member plus the role. */
  private readonly order = new TurnOrder();
  private readonly senders: (Sender | null)[] = [];
  /** [0] the number of limited senders that have joined so far. */
  private readonly joined = new Float64Array(1);
  /** The limited sender that next() returned, or NONE. */
  private chosen = NONE;
  /** Senders without a limit in the round, and what limited ones have sent since it was the turn of the others. */
  private otherCount = 0;
  private turn = 0;

  /** @param others the order of senders without a limit */
  constructor(params: Readonly<NicParams>, tags: LinkTags, others: QpScheduler) {
    this.headers = { params };
    this.fifoBytes = 2 * (params.mtuBytes + params.headerBytes + params.rethBytes);
    this.tags = tags;
    this.others = others;
    tags.addEligible(this);
  }

  join(sender: Sender): void {
    if (sender.queued) return;
    if (!this.tags.isPaced(sender)) {
      this.others.join(sender);
      this.otherCount++;
      return;
    }
    const { qp, role } = sender;
    const id = 2 * qp.tagMember + role;
    const bytes =
      role === ROLE_REQUEST ? nextRequestBytes(this.headers, qp) : nextResponseBytes(this.headers, qp);
    sender.queued = true;
    this.order.fit(id);
    while (this.senders.length <= id) this.senders.push(null);
    this.senders[id] = sender;
    this.tags.readFinish(qp.tagMember, Math.max(0, bytes), this.order.due, id);
    this.order.place[id] = ++this.joined[0];
    this.order.add(id);
  }

  next(clock: Float64Array): Sender | null {
    const limited = this.order.size;
    this.chosen = this.order.first;
    if (limited > 0 && (this.otherCount === 0 || this.turn < limited)) return this.senders[this.chosen];
    const other = this.others.next(clock);
    if (other === null) return limited > 0 ? this.senders[this.chosen] : null;
    this.chosen = NONE;
    return other;
  }

  charge(bytes: number, payloadBytes: number): void {
    const { chosen } = this;
    if (chosen === NONE) {
      this.others.charge(bytes, payloadBytes);
      this.otherCount--;
      if (bytes > 0) this.turn = Math.max(0, this.turn - Math.max(1, this.order.size));
      return;
    }
    if (bytes > 0) this.turn = this.otherCount === 0 ? 0 : this.turn + this.otherCount;
    else this.tags.leave(chosen >> 1);
    this.remove(chosen);
  }

  ended(sender: Sender): void {
    const id = 2 * sender.qp.tagMember + sender.role;
    if (id >= 0 && this.senders[id] === sender) this.remove(id);
    const wasQueued = sender.queued;
    this.others.ended(sender);
    if (wasQueued && !sender.queued) this.otherCount--;
  }

  drop(member: number): void {
    for (let id = 2 * member; id <= 2 * member + 1; id++) this.remove(id);
  }

  private remove(id: number): void {
    const sender = this.senders[id] ?? null;
    if (sender === null || !this.order.has(id)) return;
    this.order.remove(id);
    sender.queued = false;
    if (this.chosen === id) this.chosen = NONE;
  }
}
