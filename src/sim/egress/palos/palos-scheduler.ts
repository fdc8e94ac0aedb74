/**
 * Palos (chunks by weight) in the NIC. In each round, a queue pair with work may send one chunk of payload. Its turn
 * sends packets until the chunk is used up; then the queue pair goes to the end.
 *
 * - Only whole packets are sent: a packet goes while anything is left of the chunk, and any excess is deducted in later
 *   rounds. This does not require the size of the next packet, which the hardware learns from its WQE, and it works for
 *   chunks shorter than a packet: the queue pair is due again in the first round in which it has something left.
 * - A queue pair that is away (between two WQEs, or while a WQE or payload is on its way) keeps what is left, and its
 *   place. Others send meanwhile, because the link must not idle. The next round may begin without it, but no further
 *   one until those present have borrowed a chunk each: they send ahead of their turns and are skipped later, which keeps
 *   shares exact. A queue pair that is away for even longer keeps one chunk.
 * - A queue pair without work loses what is left, but still owes what it has sent too much.
 * - Short messages of queue pairs labelled `latency` come before all others, within a cap (urgent-cap.ts). They count
 *   against the chunk as well, so the label gives precedence rather than a larger share, except for the cap itself.
 *
 * Requests of a queue pair and its responses to READs share its chunk and alternate.
 */
import { fitColumn } from '../../../shim/tables.ts';
import type { NicParams } from '../../profile/params.ts';
import type { Sender } from '../../transport/qp.ts';
import { hasWork, messageBytes } from '../../transport/request-info.ts';
import type { QpScheduler } from '../qp-scheduler.ts';
import { IdList } from './id-list.ts';
import type { ChunkUser, NicWeights } from './nic-weights.ts';
import { TurnOrder } from './turn-order.ts';

const NONE = -1;
/**
 * A member that must wait for many rounds is considered again after this many, and whenever it has waited for twice as
 * long: the granularity of its group may have grown, which is not announced to each member.
 */
const ROUNDS_UNTIL_CHECK = 64;

/** The scheduler of the queue pairs of a port. A member is a queue pair; each has up to two senders. */
export class Palos implements QpScheduler, ChunkUser {
  readonly fifoBytes: number;
  private readonly weights: NicWeights;
  /** [0] the chunk that was read last. */
  private readonly chunk: Float64Array;
  private readonly urgentBytes: number;
  private readonly mtuBytes: number;
  /** [0] the current round; [1] the place that was given last. */
  private readonly counters = new Float64Array(2);
  private readonly order = new TurnOrder();
  /** Members with work that have no packet in the round. */
  private readonly away = new IdList();
  /** Senders that go first; and those that the cap holds back, which are in the round as well. */
  private readonly urgent = new IdList();
  private readonly capped = new IdList();
  /** By number of the sender: twice its member plus its role. */
  private readonly senders: (Sender | null)[] = [];
  // By member: what is left of the chunks up to `round`, in payload bytes; below 0 if the member has sent too much.
  private credit: Float64Array = new Float64Array(16);
  private round: Float64Array = new Float64Array(16);
  /** By member: the round in which it left, while it is away. */
  private leftIn: Float64Array = new Float64Array(16);
  /** By member: bit ROLE_*: this sender has a packet in the round. */
  private ready: Uint8Array = new Uint8Array(16);
  /** By member: the role that sent last. */
  private lastRole: Uint8Array = new Uint8Array(16);
  private isActive: Uint8Array = new Uint8Array(16);
  /** The member that was charged last, until it is known whether it has another packet. */
  private charged = NONE;
  /** The sender that next() returned, and whether it sends ahead of its turn. */
  private chosen = NONE;
  private isLoan = false;

  constructor(params: Readonly<NicParams>, weights: NicWeights) {
    const { mtuBytes, headerBytes, rethBytes, palosFifoBytes, palosUrgentBytes } = params;
    this.fifoBytes = palosFifoBytes === 0 ? 2 * (mtuBytes + headerBytes + rethBytes) : palosFifoBytes;
    this.urgentBytes = palosUrgentBytes === 0 ? mtuBytes : palosUrgentBytes;
    this.mtuBytes = mtuBytes;
    this.weights = weights;
    this.chunk = weights.chunkBytes;
    weights.addUser(this);
  }

  began(sender: Sender): void {
    const member = this.activate(sender);
    if (!this.isHere(member) && !this.away.has(member)) this.leave(member);
  }

  join(sender: Sender): void {
    if (sender.queued) return;
    sender.queued = true;
    const member = this.activate(sender);
    this.away.remove(member);
    const isInTurn = this.order.has(member);
    if (!isInTurn) this.catchUp(member);
    const { urgentCap } = this.weights;
    if (urgentCap.isLabelled(member) && messageBytes(sender) <= this.urgentBytes) {
      const list = urgentCap.allows(member) ? this.urgent : this.capped;
      list.add(2 * member + sender.role);
      if (list === this.urgent) return;
    }
    this.ready[member] |= 1 << sender.role;
    if (isInTurn) return;
    if (this.credit[member] <= 0) this.waitForTurn(member);
    this.order.add(member);
  }

  next(): Sender | null {
    this.settle();
    if (this.capped.first !== NONE) this.promote(this.capped.first);
    this.chosen = this.urgent.first === NONE ? this.firstInTurn() : this.urgent.first;
    return this.chosen === NONE ? null : this.senders[this.chosen];
  }

  charge(bytes: number, payloadBytes: number): void {
    const { chosen } = this;
    const member = chosen >> 1;
    const sender = this.senders[chosen] as Sender;
    const payload = bytes === 0 ? 0 : Math.max(payloadBytes, 1);
    sender.queued = false;
    this.charged = member;
    if (this.urgent.has(chosen)) {
      const { urgentCap } = this.weights;
      this.urgent.remove(chosen);
      urgentCap.take(member, bytes);
      // Without a limit, a queue pair would owe more and more if its share is below the cap.
      if (!this.owesMoreThan(member, urgentCap.burstBytes)) this.credit[member] -= payload;
      return;
    }
    this.capped.remove(chosen);
    this.ready[member] &= ~(1 << sender.role);
    this.lastRole[member] = sender.role;
    if (bytes === 0) return;
    if (!this.isLoan) this.grant(member);
    this.credit[member] -= payload;
    // The place in a turn stays until the chunk is used up.
    if (!this.isLoan && this.credit[member] > 0) return;
    this.waitForTurn(member);
    this.order.moved(member);
  }

  ended(sender: Sender): void {
    const { member } = sender.qp;
    const id = 2 * member + sender.role;
    if (member === NONE || this.senders[id] !== sender) return;
    this.senders[id] = null;
    this.urgent.remove(id);
    this.capped.remove(id);
    this.ready[member] &= ~(1 << sender.role);
    if (this.ready[member] === 0) this.order.remove(member);
    if (this.senders[id ^ 1] !== null) return;
    this.away.remove(member);
    this.rest(member);
    if (this.charged === member) this.charged = NONE;
    this.credit[member] = this.round[member] = 0;
  }

  chunkChanges(member: number): void {
    const rounds = this.roundsWaited(member);
    if (rounds <= 0) return;
    this.weights.readChunk(member);
    this.credit[member] = Math.min(0, this.credit[member] + rounds * this.chunk[0]);
    this.round[member] = this.counters[0];
  }

  chunkChanged(member: number): void {
    if (this.roundsWaited(member) < 0) return;
    this.order.due[member] = this.counters[0];
    this.planTurn(member);
    this.order.moved(member);
  }

  /** Rounds that the credit of a member does not include yet, if the member waits for a later one; otherwise -1. */
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
    this.addMissed(member, false);
    return member;
  }

  private register(member: number, sender: Sender): void {
    this.credit = fitColumn(this.credit, member);
    this.round = fitColumn(this.round, member);
    this.leftIn = fitColumn(this.leftIn, member);
    this.ready = fitColumn(this.ready, member);
    this.lastRole = fitColumn(this.lastRole, member);
    this.isActive = fitColumn(this.isActive, member);
    this.order.fit(member);
    this.away.fit(member);
    this.urgent.fit(2 * member + 1);
    this.capped.fit(2 * member + 1);
    while (this.senders.length <= 2 * member + 1) this.senders.push(null);
    this.senders[2 * member + sender.role] = sender;
  }

  /** A member has no more work. */
  private rest(member: number): void {
    if (this.isActive[member] === 0) return;
    this.isActive[member] = 0;
    this.weights.rested(member);
  }

  private leave(member: number): void {
    this.away.add(member);
    this.leftIn[member] = this.counters[0];
  }

  /** A member returns: of the rounds that it missed, it keeps at most one chunk, and the chunk of the last round. */
  private catchUp(member: number): void {
    if (this.round[member] >= this.counters[0] - 1) return;
    this.addMissed(member, true);
    this.order.due[member] = this.round[member];
  }

  /** Adds the chunks of missed rounds before the last one, until the credit is 0, or one chunk if `keepsChunk`. */
  private addMissed(member: number, keepsChunk: boolean): void {
    const { credit, round } = this;
    const last = this.counters[0] - 1;
    if (round[member] >= last) return;
    this.weights.readChunk(member);
    const chunk = this.chunk[0];
    credit[member] = Math.min(credit[member] + (last - round[member]) * chunk, keepsChunk ? chunk : 0);
    round[member] = last;
  }

  /** Puts a member behind those of the round in which it is due. */
  private waitForTurn(member: number): void {
    this.order.place[member] = ++this.counters[1];
    this.order.due[member] = this.round[member];
    this.planTurn(member);
  }

  /** Moves the round in which a member without credit is due, or is considered again. */
  private planTurn(member: number): void {
    const { due } = this.order;
    const round = this.round[member];
    this.weights.readChunk(member);
    const dueIn = Math.floor(-this.credit[member] / this.chunk[0]) + 1;
    const checkedIn = due[member] - round + Math.max(ROUNDS_UNTIL_CHECK, due[member] - round);
    due[member] = round + Math.min(dueIn, checkedIn);
  }

  /** The sender whose packet goes next, or -1. Its round begins when it is charged. */
  private firstInTurn(): number {
    const { order, credit, round, chunk, counters } = this;
    for (let member = order.first; member !== NONE; member = order.first) {
      const due = order.due[member];
      if (due > counters[0]) this.dropIdle();
      this.isLoan = due > counters[0] && this.mayBorrow(member);
      if (this.isLoan) return this.senderOf(member);
      this.weights.readChunk(member);
      if (credit[member] + Math.max(0, due - round[member]) * chunk[0] > 0) return this.senderOf(member);
      // It is too early: the chunk has shrunk, or the member was only to be considered again.
      this.planTurn(member);
      order.moved(member);
    }
    return NONE;
  }

  /** The turn of a member begins or continues: adds the chunks up to the round in which it is due. */
  private grant(member: number): void {
    const { round, counters } = this;
    const due = this.order.due[member];
    if (due > counters[0]) counters[0] = due;
    if (due <= round[member]) return;
    this.weights.readChunk(member);
    this.credit[member] += (due - round[member]) * this.chunk[0];
    round[member] = due;
  }

  /** Whether a member sends ahead of its turn because its round may not begin without one that is away. */
  private mayBorrow(member: number): boolean {
    const { away, counters } = this;
    if (away.first === NONE) return false;
    if (this.order.due[member] === counters[0] + 1 && this.leftIn[away.first] === counters[0]) return false;
    return !this.owesMoreThan(member, 0);
  }

  /** Whether a member owes a chunk, or a packet if that is more, plus this many bytes. */
  private owesMoreThan(member: number, moreBytes: number): boolean {
    this.weights.readChunk(member);
    const chunk = this.chunk[0];
    const waited = Math.max(0, this.counters[0] - this.round[member]);
    return this.credit[member] + waited * chunk <= -Math.max(chunk, this.mtuBytes) - moreBytes;
  }

  /** Removes members that have no work from those that are away, beginning with the first, up to one with work. */
  private dropIdle(): void {
    const { away } = this;
    for (let member = away.first; member !== NONE; member = away.first) {
      if (this.hasWork(member)) return;
      away.remove(member);
      this.rest(member);
    }
  }

  /** Lets a sender that the cap held back go first if the cap now allows it. */
  private promote(id: number): void {
    const member = id >> 1;
    const { urgentCap } = this.weights;
    const isLabelled = urgentCap.isLabelled(member);
    if (isLabelled && !urgentCap.allows(member)) return;
    this.capped.remove(id);
    if (!isLabelled) return;
    this.urgent.add(id);
    this.ready[member] &= ~(1 << (id & 1));
    if (this.ready[member] === 0) this.order.remove(member);
  }

  /** If the member charged last has not joined again, it is away or without work. */
  private settle(): void {
    const member = this.charged;
    if (member === NONE) return;
    this.charged = NONE;
    if (this.ready[member] === 0) this.order.remove(member);
    if (this.isHere(member)) return;
    if (this.hasWork(member)) this.leave(member);
    else this.rest(member);
  }

  /** Whether a member has a packet that may go next. */
  private isHere(member: number): boolean {
    return this.order.has(member) || this.urgent.has(2 * member) || this.urgent.has(2 * member + 1);
  }

  private hasWork(member: number): boolean {
    const request = this.senders[2 * member];
    const response = this.senders[2 * member + 1];
    return (request !== null && hasWork(request)) || (response !== null && hasWork(response));
  }

  /** The sender of a member that goes next: if both have packets, they alternate. */
  private senderOf(member: number): number {
    const other = 1 - this.lastRole[member];
    return 2 * member + ((this.ready[member] & (1 << other)) !== 0 ? other : 1 - other);
  }
}
