/**
 * PeRF's long-message split engine (LMSE): large messages go out as sub-messages with 0_WAITs between them,
 * so that the device's round robin serves other tenants more often (PeRF, USENIX ATC 2024, section 3.2).
 */

import type { Actions, ContextView, QpView } from '../../shim/policy.ts';
import type { ResourceView } from '../../shim/resources.ts';
import { fitColumn } from '../../shim/tables.ts';
import { IBV_QPT_UD, IBV_WR_RDMA_READ } from '../../verbs/constants.ts';
import { LARGE_BYTES } from '../kit/classifier.ts';
import type { Quota } from './mqse.ts';
import { isLimited, type PerfOptions } from './options.ts';
import { type ActiveTenants, ALONE, WaitPacer, type WaitPacerOptions } from './wait-pacer.ts';

/** The long-message split engine: issues held requests in pieces followed by 0_WAITs. */
export class Lmse {
  /** Two per piece: 32 pieces with their 0_WAITs. */
  readonly slots = 64;
  private feedPieces = 0;
  private readonly pacer: WaitPacer;
  /** The sink of the empty datagrams that replace 0_WAITs on a datagram queue pair; null if there is none. */
  private readonly sinkOf: (qp: QpView) => ResourceView | null;
  /** By queue pair: empty datagrams that had no room yet. */
  private dueSends: Float64Array = new Float64Array(64);

  constructor(options: PerfOptions, sinkOf: (qp: QpView) => ResourceView | null) {
    this.sinkOf = sinkOf;
    this.pacer = new WaitPacer(pacerOptions(options));
    this.feedPieces = options.feedPieces;
  }

  configure(options: PerfOptions): void {
    this.feedPieces = options.feedPieces;
    this.pacer.configure(pacerOptions(options));
    this.dueSends.fill(0);
  }

  /** Clears the state of a new queue pair. */
  reset(qp: QpView): void {
    this.pacer.reset(qp);
    this.dueSends = fitColumn(this.dueSends, qp.index);
    this.dueSends[qp.index] = 0;
  }

  /** Issues as much as may be in flight. */
  feed(qp: QpView, out: Actions, tenants: ActiveTenants = ALONE): void {
    const { pacer } = this;
    pacer.select(qp, tenants, out, false, out.nextOpcode(qp) === IBV_WR_RDMA_READ);
    const writeBytes = pacer.pieceBytes * this.feedPieces;
    if (out.room(qp) > 2) this.addWaits(qp, pacer.leadingWaits(), out);
    while (out.backlog(qp) > 0) {
      if (out.isCrossChannel(qp)) {
        if (!out.execute(qp)) return;
        continue;
      }
      if (!this.sendDue(qp, out)) return;
      if (out.room(qp) < 2) {
        // One slot is free, and nothing in flight would free more: send it whole rather than stall.
        if (out.room(qp) === 1 && out.inflight(qp) === 0) out.pass(qp);
        return;
      }
      const isRead = out.nextOpcode(qp) === IBV_WR_RDMA_READ;
      const size = this.sizeOf(qp, out);
      const feedBytes = isRead ? Math.min(writeBytes, pacer.readBytes) : writeBytes;
      const flying = out.inflightBytes(qp);
      const bytes = out.nextBytes(qp);
      if (flying > 0 && flying + Math.min(bytes, size) > feedBytes) return;
      if (bytes > size && out.splittable(qp)) {
        // The last piece goes by itself, perhaps without 0_WAITs.
        this.sendPieces(qp, size, Math.min(bytes - 1, feedBytes - flying), out);
      } else {
        this.sendPart(qp, bytes, out);
      }
    }
    pacer.markIdle(qp);
  }

  /** Its tenant slot is over, so its rate until the next slot is meaningless. */
  pause(qp: QpView): void {
    this.pacer.pause(qp);
  }

  /** Issues the oldest held requests within `quota`, and subtracts them. */
  issue(qp: QpView, out: Actions, quota: Quota, tenants: ActiveTenants = ALONE): void {
    const { pacer } = this;
    pacer.select(qp, tenants, out, true);
    while (quota.bytes > 0 && quota.requests > 0 && quota.slots > 0) {
      if (out.backlog(qp) === 0 || out.isCrossChannel(qp)) return;
      if (this.dueSends[qp.index] > 0) {
        const before = out.room(qp);
        if (!this.sendDue(qp, out, quota.slots)) return;
        quota.slots -= before - out.room(qp);
      }
      // A request and its 0_WAITs need two slots, unless nothing in flight would free more.
      if (quota.slots < 2 && out.inflight(qp) > 0) return;
      const bytes = out.nextBytes(qp);
      const size = this.sizeOf(qp, out);
      // At the end of the quota, a short message is not worth cutting.
      const most = quota.bytes >= size ? size : Math.max(quota.bytes, LARGE_BYTES);
      const isCut = bytes > most && quota.slots >= 2 && out.splittable(qp);
      if (isCut && quota.bytes >= size) {
        const count = Math.min(Math.floor(quota.bytes / size), quota.slots >> 1);
        const n = this.sendPieces(qp, size, Math.min(bytes, count * size), out);
        quota.bytes -= n * size;
        quota.slots -= 2 * n;
      } else {
        // Ends the turn at its quota, because the next turn is enabled relative to that.
        const part = isCut ? most : bytes;
        this.sendPart(qp, part, out);
        quota.bytes -= part;
        quota.slots -= 2;
      }
      quota.requests--;
    }
  }

  /** Bytes that take as long as the handover of a turn; 0 if unknown. */
  handoverBytes(qp: QpView, out: Actions, tenants: ActiveTenants): number {
    this.pacer.select(qp, tenants, out, true);
    return this.pacer.handoverBytes;
  }

  /** Whether small messages can have a fraction of a 0_WAIT each. */
  pacesShort(context: ContextView, out: Actions): boolean {
    return this.pacer.timedNic(context, out) !== null;
  }

  /** See wait-pacer.ts. */
  handoverDelayNs(context: ContextView, tenants: ActiveTenants, bytes: number, out: Actions): number {
    return this.pacer.handoverDelayNs(context, tenants, bytes, out);
  }

  /** Issues as many full pieces as `mayFly` allows; the rest is sent like a short message. */
  private sendPieces(qp: QpView, size: number, mayFly: number, out: Actions): number {
    const most = Math.min(Math.floor(mayFly / size), out.room(qp) >> 1);
    const count = Math.max(1, most);
    return out.pieces(qp, size, count, this.pacer.waitsPerPiece(size, count));
  }

  /** Piece size for the oldest held request. */
  private sizeOf(qp: QpView, out: Actions): number {
    return out.nextOpcode(qp) === IBV_WR_RDMA_READ ? this.pacer.readPieceBytes : this.pacer.pieceBytes;
  }

  private sendPart(qp: QpView, bytes: number, out: Actions): void {
    const isLast = bytes === out.nextBytes(qp) && out.outstanding(qp) === 1;
    if (bytes < out.nextBytes(qp)) out.piece(qp, bytes);
    else out.pass(qp);
    if (bytes < LARGE_BYTES && !this.pacer.isExact) return;
    this.addWaits(qp, this.pacer.waitsAfterWhole(bytes, isLast), out);
  }

  private addWaits(qp: QpView, count: number, out: Actions): void {
    if (count === 0) return;
    if (qp.type !== IBV_QPT_UD || out.wait === 'emulated') out.zeroWaits(qp, count);
    else if (this.sinkOf(qp) !== null) this.dueSends[qp.index] += count;
  }

  /** Sends the due empty datagrams, one slot each. Returns false if some are still due. */
  private sendDue(qp: QpView, out: Actions, slots = Number.POSITIVE_INFINITY): boolean {
    const due = this.dueSends[qp.index];
    if (due === 0) return true;
    const n = Math.min(due, out.room(qp), slots);
    if (n > 0) out.zeroSends(qp, this.sinkOf(qp)!, n);
    this.dueSends[qp.index] = due - n;
    return n === due;
  }
}

function pacerOptions(options: PerfOptions): WaitPacerOptions {
  const waits = options.waits ?? (options.paper ? 'fixed' : 'adaptive');
  return { ...options, waits, nic: { ...options }, limited: isLimited(options) };
}
