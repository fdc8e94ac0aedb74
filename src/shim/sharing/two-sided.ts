/**
 * Messages that take a receive, over carriers. At first, receives are posted to the connection's own queue pair, and
 * messages go there. Before the first message over a carrier, the peer is asked to hold the receives that are posted from
 * then on. Messages for them arrive in the carriers' receives, and are copied. The peer announces how many receives it
 * holds, so no message arrives for which there is none. Messages that carriers cannot take make the connection return to
 * its own queue pair for good, after the peer has posted there what it holds.
 */
import {
  EINVAL,
  ENOMEM,
  IBV_WC_RECV,
  IBV_WC_RECV_RDMA_WITH_IMM,
  IBV_WC_SUCCESS,
  IBV_WC_WITH_IMM,
} from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { RingInfo } from '../../verbs/types.ts';
import type { ShimContext } from '../context.ts';
import type { CqLedger } from '../cq-ledger.ts';
import type { TwinAddress } from '../peer/chunks.ts';
import type { QpLedger } from '../qp-ledger.ts';
import type { KnownRing } from '../tables.ts';
import { type AnchorSlot, numberAt } from './anchor.ts';
import { BOUNCE_BYTES, type Bounce } from './bounce.ts';
import type { Carriage } from './carriage.ts';
import type { Carrier } from './carrier.ts';
import { ALONE, ASKED, Exchange, JOINED, PARTING, UNASKED } from './exchange.ts';
import { type FindRegion, HeldReceives } from './held-receives.ts';
import * as M from './mail.ts';
import type { Membership } from './membership.ts';

const RING_SLOTS = 64;
/** The most polls for receives of the own queue pair that are known to be complete. */
const MOST_POLLS = 100;
const NO_LIMIT = 0xffffffff;

/** The functions that this class uses. */
export interface TwoSidedHost {
  readonly next: Provider;
  readonly regionOf: FindRegion;
  /** Polls a CQ for the shim. */
  poll(cq: CqLedger): void;
  /** A completion in slot `index` of `words` belongs to a queue pair whose receives complete in `cq`. */
  settle(cq: CqLedger, words: Uint32Array, index: number): void;
  /** The queue pair may issue requests that it could not before, or holds some again that it had issued. */
  resume(qp: QpLedger): void;
  fail(qp: QpLedger): void;
  /** Has the connections of a context watched that wait for their peers. */
  watch(context: ShimContext): void;
}

export class TwoSided {
  private readonly host: TwoSidedHost;
  private ring: RingInfo | null = null;
  private ringSges = 0;

  constructor(host: TwoSidedHost) {
    this.host = host;
  }

  /** Null if messages of the connection cannot be carried. */
  join(qp: QpLedger, bounce: Bounce | null, slot: AnchorSlot): Exchange | null {
    if (bounce === null || qp.hasSrq || qp.recvDepth === 0) return null;
    const id = slot.anchor.numberOf(slot);
    slot.anchor.members[id] = qp;
    return new Exchange(id, qp.appDepth);
  }

  /** Notes whether the peer takes part, and by which number it knows the connection. */
  set(exchange: Exchange, peer: TwinAddress | null): void {
    exchange.peerId = peer?.holdsReceives === true ? numberAt(peer.bufferAddr) : -1;
  }

  /** The queue pair is destroyed. */
  forget({ share }: QpLedger): void {
    const exchange = share?.exchange;
    if (exchange == null) return;
    share!.own.slot.anchor.members[exchange.id] = undefined;
    exchange.held = null;
  }

  /** Asks the peer to hold receives. Returns whether it could be asked: if not, messages stay on the own queue pair. */
  ask(qp: QpLedger, share: Membership): boolean {
    const exchange = share.exchange!;
    share.pause();
    const via = this.carrierForMail(share);
    const isAsked = via !== undefined && this.sendMail(qp, via, M.JOIN, exchange.peerId, [exchange.id, 0, 0]);
    exchange.status = isAsked ? ASKED : ALONE;
    if (isAsked) this.watch(qp);
    return isAsked;
  }

  /** Asks the peer to post what it holds. If that is impossible, the connection fails. */
  part(qp: QpLedger, share: Membership): void {
    const exchange = share.exchange!;
    share.pause();
    if (qp.broken) {
      exchange.status = ALONE;
      share.leave();
      return;
    }
    exchange.status = PARTING;
    const via = this.carrierForMail(share);
    if (via !== undefined && this.sendMail(qp, via, M.PART, exchange.peerId, [exchange.id, 0, 0])) {
      this.watch(qp);
      return;
    }
    exchange.status = ALONE;
    share.leave();
    this.fail(qp, share);
  }

  /** The carrier over which the peer was asked has failed. */
  askAgain(qp: QpLedger, share: Membership): void {
    if (share.exchange!.status === PARTING) this.part(qp, share);
    else if (!this.ask(qp, share)) this.fail(qp, share);
  }

  /** The connection fails as its carrier did: the next request that it would issue reports that. */
  fail(qp: QpLedger, { failStatus }: Membership): void {
    if (qp.issued !== qp.appPosted) {
      qp.failSeq = qp.issued;
      qp.failStatus = failStatus;
    }
    this.host.fail(qp);
  }

  /** The connection waits for its peer, which may have vanished: nothing of it is on the network. */
  watch({ context }: QpLedger): void {
    const { carriage } = context;
    if (carriage === null || carriage.isWatched) return;
    carriage.isWatched = true;
    this.host.watch(context);
  }

  /** Probes the peer of this connection if it still waits for it. */
  look(qp: QpLedger, { exchange, own, carrier }: Membership): void {
    if (exchange?.isStuck(qp.issued) !== true) return;
    this.watch(qp);
    for (const via of new Set([exchange.via, own, carrier]))
      if (via !== null) qp.context.carriage!.probe(via);
  }

  /** The peer must not count on receives that are held here any more: the connection has ended. */
  refuse(qp: QpLedger): void {
    const exchange = qp.share?.exchange;
    if (exchange?.held == null) return;
    const via = this.carrierForMail(qp.share!);
    if (via !== undefined) this.sendMail(qp, via, M.REFUSED, exchange.peerId, [0, 0, 0]);
  }

  /** A carrier for a message to the peer's shim. */
  carrierForMail({ exchange, group, left, own }: Membership): Carrier | undefined {
    const via = exchange?.via;
    if (via?.isLive === true) return via;
    if (own.isLive) return own;
    return (group ?? left)?.carriers.find((one) => one.isLive);
  }

  private sendMail(
    qp: QpLedger,
    via: Carrier,
    kind: number,
    id: number,
    [own, first, second]: [number, number, number],
  ): boolean {
    if (qp.share?.exchange != null) qp.share.exchange.via = via;
    return qp.context.carriage?.sendMail(via, M.codeOf(kind, id), own, first, second) === true;
  }

  /** A message has arrived on a carrier. */
  arrived(carriage: Carriage, carrier: Carrier, words: Uint32Array, index: number): void {
    const at = L.slotAt(index);
    const { bounce } = carrier;
    if (bounce === null) return;
    const buffer = words[at];
    const op = words[at + L.WC_OP];
    if ((op & 0xff) === IBV_WC_SUCCESS) {
      if (((op >>> 8) & 0xff) === IBV_WC_RECV_RDMA_WITH_IMM) {
        carrier.imm = words[at + L.WC_IMM];
        carrier.writtenBytes = words[at + L.WC_BYTE_LEN];
      } else if (((op >>> 16) & IBV_WC_WITH_IMM) !== 0) {
        this.take(carriage, carrier, words, index);
      }
    }
    bounce.free(buffer);
  }

  /** A SEND has arrived, of the application or of the peer's shim. */
  private take(carriage: Carriage, carrier: Carrier, words: Uint32Array, index: number): void {
    const at = L.slotAt(index);
    const code = words[at + L.WC_IMM];
    const kind = M.kindOf(code);
    const qp = this.memberOf(carrier, M.idOf(code));
    if (kind < M.JOIN) {
      if (qp !== undefined) this.deliver(carrier, qp, kind, words, index);
      return;
    }
    const body = words[at] * (BOUNCE_BYTES >> 2);
    const [peer, first, second] = carrier.bounce!.words.subarray(body, body + M.BODY_WORDS);
    if (kind === M.JOIN || kind === M.PART) this.answer(carriage, carrier, qp, kind, peer);
    else if (qp !== undefined) this.learn(qp, kind, first, second);
  }

  /** The connection with this number, if it has the same peer as the carrier: no other may get messages over it. */
  private memberOf(carrier: Carrier, id: number): QpLedger | undefined {
    const qp = carrier.slot.anchor.members[id];
    const peer = qp?.share?.own.peer ?? null;
    return peer !== null && peer.rkey === carrier.peer?.rkey ? qp : undefined;
  }

  /** The peer's shim asks that receives are held, or posted. */
  private answer(
    carriage: Carriage,
    carrier: Carrier,
    qp: QpLedger | undefined,
    kind: number,
    peer: number,
  ): void {
    const exchange = qp?.share?.exchange;
    if (kind === M.PART) {
      if (qp !== undefined) this.release(qp, false);
      carriage.sendMail(carrier, M.codeOf(M.GO, peer), 0, 0, 0);
    } else if (qp === undefined || exchange == null || qp.broken) {
      carriage.sendMail(carrier, M.codeOf(M.REFUSED, peer), 0, 0, 0);
    } else {
      exchange.via = carrier;
      exchange.held ??= this.makeHeld(qp);
      exchange.announced = (qp.recvPosted - qp.recvBase - exchange.held.count) | 0;
      carriage.sendMail(carrier, M.codeOf(M.HOLDING, peer), exchange.id, exchange.announced, NO_LIMIT);
      this.grant(qp, exchange);
    }
  }

  private makeHeld({ handle, pd, recvDepth: depth }: QpLedger): HeldReceives {
    const sges = this.host.next.queryQp(handle).init.cap.maxRecvSge;
    return new HeldReceives({ pd, depth, sges }, this.host.regionOf);
  }

  /** The peer's shim has answered, or holds more receives. */
  private learn(qp: QpLedger, kind: number, first: number, second: number): void {
    const share = qp.share!;
    const exchange = share.exchange!;
    const { status } = exchange;
    if (kind === M.HOLDING && status === ASKED) {
      exchange.status = JOINED;
      exchange.from = first | 0;
      exchange.granted = first | 0;
      exchange.leastBytes = second;
    } else if ((kind === M.REFUSED && status === ASKED) || (kind === M.GO && status === PARTING)) {
      exchange.status = ALONE;
      share.leave();
    } else if (kind === M.REFUSED && status === JOINED) {
      exchange.mustPart = true;
    } else if (kind === M.CREDIT && status === JOINED) {
      if (((first - exchange.granted) | 0) > 0) exchange.granted = first | 0;
      exchange.leastBytes = second;
    } else {
      return;
    }
    this.host.resume(qp);
  }

  /** A receive has completed: gives it the number that the application knows. */
  completed(qp: QpLedger, { exchange }: Membership, words: Uint32Array, at: number): void {
    if (exchange === null) return;
    words[at + L.WC_SEQ] += exchange.carried;
    this.grant(qp, exchange);
  }

  /** Announces further receives to the peer, if there are many or it may soon have none left. */
  private grant(qp: QpLedger, exchange: Exchange): void {
    const { held } = exchange;
    if (held === null) return;
    const posted = (qp.recvPosted - qp.recvBase) | 0;
    const due = (posted - exchange.announced) | 0;
    const left = (exchange.announced - (qp.recvTaken - qp.recvBase)) | 0;
    const few = qp.recvDepth >> 2;
    if (due === 0 || (due < few && left > few)) return;
    const via = this.carrierForMail(qp.share!);
    if (via === undefined) return;
    const body: [number, number, number] = [exchange.id, posted, held.leastBytes()];
    if (this.sendMail(qp, via, M.CREDIT, exchange.peerId, body)) exchange.announced = posted;
  }

  /** postRecv while receives are held. */
  postRecv(qp: QpLedger, exchange: Exchange, known: KnownRing, start: number, count: number): number {
    const held = exchange.held!;
    const { words, capacity, extBytes } = known;
    const free = (qp.recvDepth - held.count - qp.recvsKept - exchange.onDevice(qp)) | 0;
    words[L.HDR_ERRNO] = 0;
    words[L.HDR_REASON] = L.REASON_NONE;
    let n = 0;
    for (; n < count; n++) {
      const isWide = words[L.slotAt(start + n) + L.WR_OP] >>> 16 > held.sges;
      if (isWide || n >= free) {
        words[L.HDR_ERRNO] = isWide ? EINVAL : ENOMEM;
        words[L.HDR_REASON] = isWide ? L.REASON_SGE_COUNT : L.REASON_QUEUE_FULL;
        break;
      }
      held.push(words, start + n, capacity, extBytes);
    }
    qp.recvPosted = (qp.recvPosted + n) | 0;
    qp.recvCq.soleSender = null;
    if (qp.inbox !== null) qp.inbox.note(words, start, n);
    this.grant(qp, exchange);
    return n;
  }

  /** Copies a message to the oldest receive of its connection, and completes that. */
  private deliver(carrier: Carrier, qp: QpLedger, kind: number, words: Uint32Array, index: number): void {
    const exchange = qp.share!.exchange!;
    const { held } = exchange;
    // An honest peer sends nothing for which there is no receive.
    if (held === null || held.count === 0) return;
    this.settleOwn(qp, exchange);
    const at = L.slotAt(index);
    const isSend = kind !== M.WRITE_IMM;
    const bytes = isSend ? words[at + L.WC_BYTE_LEN] : carrier.writtenBytes;
    const from = words[at] * BOUNCE_BYTES;
    const status = isSend ? held.scatter(carrier.bounce!.bytes, from, bytes) : IBV_WC_SUCCESS;
    const hasImm = kind !== M.SEND;
    held.writeId(words, at);
    const opcode = isSend ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM;
    words[at + L.WC_OP] = status | (opcode << 8) | (hasImm ? IBV_WC_WITH_IMM << 16 : 0) | L.WC_RECV_SIDE;
    words[at + L.WC_BYTE_LEN] = bytes;
    words[at + L.WC_IMM] = hasImm ? carrier.imm : 0;
    words[at + L.WC_QP] = qp.handle;
    words[at + L.WC_QP_NUM] = qp.qpNum;
    words[at + L.WC_SRQ] = 0;
    words[at + L.WC_SEQ] = qp.recvPosted - held.count - exchange.carried;
    held.drop();
    exchange.via = carrier;
    if (status !== IBV_WC_SUCCESS) this.host.fail(qp);
    this.host.settle(qp.recvCq, words, index);
    exchange.carried = (exchange.carried + 1) | 0;
    qp.context.carriage!.touch(qp.recvCq);
  }

  /** Polls what the device has received on the own queue pair, because it came before the carriers' messages. */
  private settleOwn(qp: QpLedger, exchange: Exchange): void {
    for (let polls = 0; exchange.onDevice(qp) > 0 && polls < MOST_POLLS; polls++) this.host.poll(qp.recvCq);
  }

  /** Posts the receives that are held to the device. `isEmpty`: without their memory, to be flushed. */
  release(qp: QpLedger, isEmpty: boolean): void {
    const exchange = qp.share?.exchange;
    const held = exchange?.held;
    if (exchange == null || held == null) return;
    // A failure shows while a CQ is being polled, which another poll would disturb.
    if (!isEmpty && exchange.onDevice(qp) > 0) this.host.poll(qp.recvCq);
    exchange.held = null;
    const { handle, capacity, extBytes, memory } = this.ringFor(held.sges);
    const words = new Uint32Array(memory);
    while (held.count > 0) {
      const n = held.moveTo(words, capacity, extBytes, isEmpty);
      const taken = this.host.next.postRecv(qp.handle, handle, 0, n);
      if (taken === n) continue;
      this.host.fail(qp);
      return;
    }
  }

  private ringFor(sges: number): RingInfo {
    const { next } = this.host;
    if (this.ring !== null && this.ringSges >= sges) return this.ring;
    if (this.ring !== null) next.destroyRing(this.ring.handle);
    this.ring = next.createWrRing(RING_SLOTS, sges, 0);
    this.ringSges = sges;
    return this.ring;
  }

  /** Whether the peer can be asked. */
  canJoin({ peerId, status, sent }: Exchange): boolean {
    return peerId >= 0 && status === UNASKED && sent > 0;
  }
}
