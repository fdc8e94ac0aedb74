/** Decides over which queue pair the next requests of a connection go: its own, or a carrier. */
import {
  IBV_WR_ATOMIC_CMP_AND_SWP,
  IBV_WR_ATOMIC_FETCH_AND_ADD,
  IBV_WR_RDMA_READ,
  IBV_WR_RDMA_WRITE,
} from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import { isSend, takesReceive } from '../peer/outbox.ts';
import type { QpLedger } from '../qp-ledger.ts';
import { LEAVE } from './anchor.ts';
import { BOUNCE_BYTES } from './bounce.ts';
import { type Exchange, JOINED } from './exchange.ts';
import type { Groups } from './groups.ts';
import { isCarried } from './mail.ts';
import { CARRIED, JOINING, LEFT, type Membership, OWN } from './membership.ts';
import type { TwoSided } from './two-sided.ts';

/** Opcodes that carriers take without an agreement on receives. */
const TAKEN = new Set([
  IBV_WR_RDMA_WRITE,
  IBV_WR_RDMA_READ,
  IBV_WR_ATOMIC_CMP_AND_SWP,
  IBV_WR_ATOMIC_FETCH_AND_ADD,
]);

export class Lanes {
  private readonly groups: Groups;
  private readonly twoSided: TwoSided;

  constructor(groups: Groups, twoSided: TwoSided) {
    this.groups = groups;
    this.twoSided = twoSided;
  }

  /** The queue pair is about to post: lets it join a carrier if that saves contexts. */
  prepare(qp: QpLedger): void {
    const share = qp.share!;
    const { group } = share;
    if (share.state !== OWN || group === null || group.members < 2) return;
    if (this.groups.mostAt(qp, share) < 2 || qp.usesWaits || qp.broken || qp.backlog > 0) return;
    const isIdle = qp.realPosted === qp.realFreed;
    // Unless the last request reports, the shim does not learn when the queue pair is idle.
    if (!isIdle && qp.lastSignaled !== ((qp.realPosted - 1) | 0)) return;
    const { exchange } = share;
    if (exchange !== null && exchange.peerId >= 0 && exchange.sent > 0) {
      if (!this.twoSided.canJoin(exchange)) return;
      if (!isIdle) share.state = JOINING;
      else this.twoSided.ask(qp, share);
      return;
    }
    const carrier = this.groups.carrierFor(qp, share);
    if (carrier === undefined) return;
    share.carry(carrier);
    share.leavesAt = null;
    if (!isIdle) share.state = JOINING;
  }

  /** The request that was held last has this opcode (IBV_WR_*). */
  note(qp: QpLedger, opcode: number): void {
    const share = qp.share!;
    const { exchange } = share;
    const seq = (qp.appPosted - 1) | 0;
    if (exchange !== null && takesReceive(opcode)) {
      exchange.note(seq);
      if (exchange.holdsPosts && isCarried(opcode)) return;
    }
    const mayBeCarried = share.carrier !== null || exchange?.holdsPosts === true;
    if (mayBeCarried && !TAKEN.has(opcode)) share.leavesAt ??= seq;
  }

  /** How many slots can be issued now, as far as this depends on sharing. */
  room(qp: QpLedger): number {
    const share = qp.share!;
    const { exchange } = share;
    if (share.state === LEFT) return Number.POSITIVE_INFINITY;
    if (exchange?.isWaiting === true) return 0;
    const isIdle = qp.realPosted === qp.realFreed;
    if (share.state === JOINING) {
      if (!isIdle) return 0;
      this.begin(qp, share);
      return this.room(qp);
    }
    if (exchange?.status === JOINED) return this.roomOfJoined(qp, share, exchange, isIdle);
    const { carrier } = share;
    if (carrier === null) return Number.POSITIVE_INFINITY;
    const mustLeave = this.mustLeave(share) || !carrier.isUsable;
    if (!mustLeave && share.leavesAt === null) return carrier.room;
    const left = mustLeave ? 0 : (share.leavesAt! - qp.issued) | 0;
    if (left > 0) return Math.min(left, carrier.room);
    if (!isIdle) return 0;
    if (!mustLeave && exchange !== null && this.twoSided.canJoin(exchange)) share.pause();
    else share.leave();
    return Number.POSITIVE_INFINITY;
  }

  private mustLeave({ mustLeave, own }: Membership): boolean {
    return mustLeave || (own.slot.anchor.valueOf(own.slot) & LEAVE) !== 0;
  }

  /** All that the own queue pair had is complete: a carrier takes over, or the peer is asked to hold receives. */
  private begin(qp: QpLedger, share: Membership): void {
    if (share.carrier !== null) share.state = CARRIED;
    else this.twoSided.ask(qp, share);
  }

  /** `room` for a connection whose peer holds receives. */
  private roomOfJoined(qp: QpLedger, share: Membership, exchange: Exchange, isIdle: boolean): number {
    const leaves = share.leavesAt !== null && ((share.leavesAt - qp.issued) | 0) <= 0;
    const cannot = leaves || exchange.mustPart || this.mustLeave(share) || share.carrier?.isUsable === false;
    if (!cannot && share.carrier === null) {
      if (!exchange.isNext(exchange.from, qp.issued)) return Number.POSITIVE_INFINITY;
      if (!isIdle) return 0;
      const carrier = this.groups.carrierFor(qp, share);
      if (carrier !== undefined) share.carry(carrier);
    }
    const { carrier } = share;
    const waits = exchange.isNext(exchange.granted, qp.issued);
    if (!cannot && carrier !== null && waits && exchange.isPatient) {
      this.twoSided.watch(qp);
      return 0;
    }
    // Each message may require a request of the shim.
    if (!cannot && carrier !== null && !waits && isShort(qp, exchange)) return carrier.room >> 1;
    if (isIdle) this.twoSided.part(qp, share);
    return 0;
  }
}

/** Whether the next request, if it is a SEND, fits the receives of the peer and of its shim. */
function isShort(qp: QpLedger, { leastBytes }: Exchange): boolean {
  if (qp.partial || qp.issued === qp.appPosted) return true;
  const row = qp.issued & qp.mask;
  if (!isSend(qp.held[row * qp.stride + L.WR_OP] & 0xff)) return true;
  return qp.bytes[row] <= Math.min(leastBytes, BOUNCE_BYTES);
}
