/**
 * Palos (chunks by weight) in the NIC. In each round, a queue pair that has work may send one chunk of payload. Its turn
 * sends packets until the chunk is used up, then it goes back to the end.
 *
 * - Only whole packets are sent: one goes while anything is left of the chunk, and what it takes too much is missing in
 *   later rounds. This needs no size of the next packet, which the hardware learns with its WQE, and it works for chunks
 *   shorter than a packet: the queue pair is due again in the first round in which it has something left.
 * - A queue pair that is away (between two WQEs, or waiting for a WQE or for payload) keeps what is left, and its place.
 *   Meanwhile the next ones send, because the link must not idle. When it returns it comes first. The next round may
 *   begin without it, but no further one before those present have borrowed a chunk each: they send ahead of their turns
 *   and are skipped later, which keeps the shares exact. A queue pair that is away for longer keeps one chunk.
 * - A queue pair without work loses what is left, but not what it has sent too much.
 * - Labelled queue pairs with short messages come before all others, within a cap (urgent-cap.ts). What they send counts
 *   against their chunks too.
 *
 * Requests of a queue pair and its responses to READs share its chunk and alternate.
 */
import { fitColumn } from '../../../shim/tables.ts';
import type { NicParams } from '../../profile/params.ts';
import { hasWork, type Sender } from '../../transport/qp.ts';
import { messageBytes } from '../../transport/request-info.ts';
import type { QpScheduler } from '../qp-scheduler.ts';
import { AwayList } from './away-list.ts';
import type { ChunkUser, NicWeights } from './nic-weights.ts';
import { TurnOrder } from './turn-order.ts';
import { UrgentQueue } from './urgent-queue.ts';

const NONE = -1;
/** In `ready`, the bits of senders in turn, and of urgent ones. */
const IN_TURN = 3;
const URGENT_SHIFT = 2;
/**
 * A member that must wait for many rounds is considered again after this many, and whenever it has waited for twice as
 * long: the granularity of its group may have grown, which is not announced to each member.
 */
const ROUNDS_UNTIL_CHECK = 64;

export class Palos implements QpScheduler, ChunkUser {
  readonly fifoBytes: number;
  private readonly weights: NicWeights;
  private readonly urgentBytes: number;
  private readonly mtuBytes: number;
  private readonly order = new TurnOrder();
  private readonly away = new AwayList();
  private readonly urgent = new UrgentQueue();
  /** [0] the current round; [1] the place that was given last. */
  private readonly counters = new Float64Array(2);
  // By member: what is left of the chunks up to `round`, below 0 if it has sent too much, in payload bytes.
  private credit: Float64Array = new Float64Array(16);
  private round: Float64Array = new Float64Array(16);
  /** By member: bit ROLE_*: this sender has a packet; in the higher bits: it is among the urgent ones. */
  private ready: Uint8Array = new Uint8Array(16);
  /** By member: the role that sent last. */
  private lastRole: Uint8Array = new Uint8Array(16);
  private isActive: Uint8Array = new Uint8Array(16);
  /** By member and role. */
  private readonly senders: (Sender | null)[] = [];
  /** The member that was charged last, until it is known whether it has another packet. */
  private charged = NONE;
  /** What next() returned. */
  private chosen: Sender | null = null;

  constructor(params: Readonly<NicParams>, weights: NicWeights) {
    const { mtuBytes, headerBytes, rethBytes, palosFifoBytes, palosUrgentBytes } = params;
    this.fifoBytes = palosFifoBytes === 0 ? 2 * (mtuBytes + headerBytes + rethBytes) : palosFifoBytes;
    this.urgentBytes = palosUrgentBytes === 0 ? mtuBytes : palosUrgentBytes;
    this.mtuBytes = mtuBytes;
    this.weights = weights;
    weights.addUser(this);
  }

  began(sender: Sender): void {
    const member = this.activate(sender);
    if (this.ready[member] === 0 && !this.order.has(member)) this.away.add(member, this.counters[0]);
  }

  join(sender: Sender): void {
    if (sender.queued) return;
    sender.queued = true;
    const member = this.activate(sender);
    this.away.remove(member);
    const { urgentCap } = this.weights;
    if (urgentCap.allows(member) && messageBytes(sender) <= this.urgentBytes) {
      this.urgent.push(sender);
      this.ready[member] |= 1 << (sender.role + URGENT_SHIFT);
      return;
    }
    this.ready[member] |= 1 << sender.role;
    if (this.order.has(member)) return;
    this.catchUp(member);
    if (this.credit[member] <= 0) this.waitForTurn(member);
    this.order.add(member);
  }

  next(): Sender | null {
    this.settle();
    this.chosen = this.urgent.first;
    if (this.chosen !== null) return this.chosen;
    const member = this.firstInTurn();
    this.chosen = member === NONE ? null : this.readySender(member);
    return this.chosen;
  }

  charge(bytes: number, payloadBytes: number): void {
    const sender = this.chosen as Sender;
    const { member } = sender.qp;
    const payload = bytes === 0 ? 0 : Math.max(payloadBytes, 1);
    sender.queued = false;
    this.charged = member;
    if (this.urgent.first === sender) {
      this.urgent.shift();
      this.ready[member] &= ~(1 << (sender.role + URGENT_SHIFT));
      this.weights.urgentCap.take(member, bytes);
      if (this.credit[member] > -this.weights.chunkBytes(member)) this.credit[member] -= payload;
      return;
    }
    this.ready[member] &= ~(1 << sender.role);
    this.lastRole[member] = sender.role;
    this.credit[member] -= payload;
    // The place in a turn stays until the chunk is used up.
    const isLoan = this.order.due[member] > this.counters[0];
    if (!isLoan && this.credit[member] > 0) return;
    this.waitForTurn(member);
    this.order.moved(member);
  }

  ended(sender: Sender): void {
    const { member } = sender.qp;
    if (member === NONE || this.senders[2 * member + sender.role] !== sender) return;
    this.senders[2 * member + sender.role] = null;
    this.urgent.remove(sender);
    this.ready[member] &= ~((1 << sender.role) | (1 << (sender.role + URGENT_SHIFT)));
    if ((this.ready[member] & IN_TURN) === 0) this.order.remove(member);
    if (this.senders[2 * member] !== null || this.senders[2 * member + 1] !== null) return;
    this.away.remove(member);
    this.rest(member);
    if (this.charged === member) this.charged = NONE;
    this.credit[member] = this.round[member] = 0;
  }

  chunkChanges(member: number): void {
    const rounds = this.roundsWaited(member);
    if (rounds <= 0) return;
    this.credit[member] = Math.min(0, this.credit[member] + rounds * this.weights.chunkBytes(member));
    this.round[member] = this.counters[0];
  }

  chunkChanged(member: number): void {
    if (this.roundsWaited(member) < 0) return;
    this.planTurn(member, this.counters[0]);
    this.order.moved(member);
  }

  /** Rounds since those that are counted in the credit of a member that waits for a later one; -1 for others. */
  private roundsWaited(member: number): number {
    if (member >= this.isActive.length || !this.order.has(member)) return NONE;
    return this.order.due[member] > this.counters[0] ? this.counters[0] - this.round[member] : NONE;
  }

  /** The member of a sender, which has work. */
  private activate(sender: Sender): number {
    const member = this.weights.memberOf(sender.qp);
    if (member >= this.isActive.length || this.senders[2 * member + sender.role] !== sender) {
      this.register(member, sender);
    }
    if (this.isActive[member] === 1) return member;
    this.isActive[member] = 1;
    this.weights.began(member);
    if (this.credit[member] > 0) this.credit[member] = 0;
    const missed = this.counters[0] - 1 - this.round[member];
    if (missed <= 0) return member;
    this.credit[member] = Math.min(0, this.credit[member] + missed * this.weights.chunkBytes(member));
    this.round[member] = this.counters[0] - 1;
    return member;
  }

  private register(member: number, sender: Sender): void {
    this.credit = fitColumn(this.credit, member);
    this.round = fitColumn(this.round, member);
    this.ready = fitColumn(this.ready, member);
    this.lastRole = fitColumn(this.lastRole, member);
    this.isActive = fitColumn(this.isActive, member);
    this.order.fit(member);
    this.away.fit(member);
    while (this.senders.length <= 2 * member + 1) this.senders.push(null);
    this.senders[2 * member + sender.role] = sender;
  }

  /** A member has no more work. */
  private rest(member: number): void {
    if (this.isActive[member] === 0) return;
    this.isActive[member] = 0;
    this.weights.rested(member);
  }

  /** A member returns: of the rounds that it missed, it keeps one chunk and the last round. */
  private catchUp(member: number): void {
    const missed = this.counters[0] - 1 - this.round[member];
    if (missed <= 0) return;
    const chunk = this.weights.chunkBytes(member);
    this.credit[member] = Math.min(this.credit[member] + missed * chunk, chunk);
    this.round[member] = this.counters[0] - 1;
    this.order.due[member] = this.round[member];
  }

  /** Puts a member behind those of the round in which it is due. */
  private waitForTurn(member: number): void {
    this.order.place[member] = ++this.counters[1];
    this.planTurn(member, this.round[member]);
  }

  /** Sets the round in which a member without credit is due, or is considered again after `from`. */
  private planTurn(member: number, from: number): void {
    const { round, order } = this;
    const rounds = Math.floor(-this.credit[member] / this.weights.chunkBytes(member)) + 1;
    const checkAt = from + Math.max(ROUNDS_UNTIL_CHECK, from - round[member]);
    order.due[member] = Math.min(round[member] + rounds, checkAt);
  }

  /** The member whose packet goes next, or -1. Begins the next round if need be. */
  private firstInTurn(): number {
    const { order, counters, credit, round } = this;
    for (let member = order.first; member !== NONE; member = order.first) {
      const due = order.due[member];
      if (due > counters[0]) {
        this.dropIdle();
        if (this.mayBorrow(member, due)) return member;
        counters[0] = due;
      }
      if (due > round[member]) {
        const left = credit[member] + (due - round[member]) * this.weights.chunkBytes(member);
        if (left > 0) {
          credit[member] = left;
          round[member] = due;
        }
      }
      if (credit[member] > 0) return member;
      // It is too early: the chunk has shrunk, or it was only to be considered again.
      this.planTurn(member, due);
      order.moved(member);
    }
    return NONE;
  }

  /** Whether a member sends ahead of its turn because a round may not begin without one that is away. */
  private mayBorrow(member: number, due: number): boolean {
    const { away, counters, round } = this;
    if (away.first === NONE) return false;
    if (due === counters[0] + 1 && away.since[away.first] === counters[0]) return false;
    const chunk = this.weights.chunkBytes(member);
    const left = this.credit[member] + Math.max(0, counters[0] - round[member]) * chunk;
    return left > -Math.max(chunk, this.mtuBytes);
  }

  /** Removes members that are no longer away but without work, from the one that left first on. */
  private dropIdle(): void {
    const { away } = this;
    for (let member = away.first; member !== NONE; member = away.first) {
      if (this.hasWork(member)) return;
      away.remove(member);
      this.rest(member);
    }
  }

  /** The member charged last has not joined again: it is away, or without work. */
  private settle(): void {
    const member = this.charged;
    if (member === NONE) return;
    this.charged = NONE;
    if ((this.ready[member] & IN_TURN) === 0) this.order.remove(member);
    if (this.ready[member] !== 0) return;
    if (this.hasWork(member)) this.away.add(member, this.counters[0]);
    else this.rest(member);
  }

  private hasWork(member: number): boolean {
    const request = this.senders[2 * member];
    const response = this.senders[2 * member + 1];
    return (request !== null && hasWork(request)) || (response !== null && hasWork(response));
  }

  /** The sender of a member that goes next: both take turns. */
  private readySender(member: number): Sender {
    const other = 1 - this.lastRole[member];
    const role = (this.ready[member] & (1 << other)) !== 0 ? other : this.lastRole[member];
    return this.senders[2 * member + role] as Sender;
  }
}
