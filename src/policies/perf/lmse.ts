/**
 * PeRF's long-message split engine (LMSE): large messages go out as sub-messages with 0_WAITs between them,
 * so that the device's round robin gives other tenants a turn more often (PeRF, USENIX ATC 2024, section 3.2).
 */

import type { Actions, ContextView, QpView } from '../../shim/policy.ts';
import type { ResourceView } from '../../shim/resources.ts';
import { fitColumn } from '../../shim/tables.ts';
import { IBV_QPT_UD, IBV_WR_RDMA_READ } from '../../verbs/constants.ts';
import { LARGE_BYTES } from './classifier.ts';
import type { Quota } from './mqse.ts';
import { isLimited, type PerfOptions } from './options.ts';
import { type ActiveTenants, ALONE, WaitPacer, type WaitPacerOptions } from './wait-pacer.ts';

/** The long-message split engine: issues held requests in pieces with 0_WAITs behind them. */
export class Lmse {
  /** Two a piece: 32 sub-messages with their waits. */
  readonly slots = 64;
  private feedPieces = 0;
  private readonly pacer: WaitPacer;
  /** Of a datagram queue pair, where what goes in the place of 0_WAITs is sent to; null: nowhere. */
  private readonly sinkOf: (qp: QpView) => ResourceView | null;
  /** By queue pair: empty datagrams for which there was no room yet. */
  private dueSends: Float64Array = new Float64Array(64);

  constructor(options: PerfOptions, sinkOf: (qp: QpView) => ResourceView | null) {
    this.sinkOf = sinkOf;
    this.pacer = new WaitPacer(pacerOptions(options));
    this.feedPieces = options.feedPieces;
  }

  configure(options: PerfOptions): void {
    this.feedPieces = options.feedPieces;
    this.pacer.configure(pacerOptions(options));
  }

  /** A queue pair was created: nothing is known of it. */
  reset(qp: QpView): void {
    this.pacer.reset(qp);
    this.dueSends = fitColumn(this.dueSends, qp.index);
    this.dueSends[qp.index] = 0;
  }

  /** Issues of what is held as much as may fly. */
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
        // Room for no more than this, and nothing under way that would make some: no cut, but no standstill.
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
        // Its last piece goes by itself: perhaps without 0_WAITs.
        this.sendPieces(qp, size, Math.min(bytes - 1, feedBytes - flying), out);
      } else {
        this.sendPart(qp, bytes, out);
      }
    }
    pacer.markIdle(qp);
  }

  /** Its tenant's slot is over: how slow it is until the next one says nothing. */
  pause(qp: QpView): void {
    this.pacer.pause(qp);
  }

  /** Issues of the oldest held requests what `quota` allows, and takes it off. */
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
      // A request and its 0_WAITs; one alone where nothing is under way that would make room.
      if (quota.slots < 2 && out.inflight(qp) > 0) return;
      const bytes = out.nextBytes(qp);
      const size = this.sizeOf(qp, out);
      const isCut = bytes > Math.min(size, quota.bytes) && quota.slots >= 2 && out.splittable(qp);
      if (isCut && Math.min(bytes, quota.bytes) >= size) {
        const most = Math.min(Math.floor(quota.bytes / size), quota.slots >> 1);
        const n = this.sendPieces(qp, size, Math.min(bytes, most * size), out);
        quota.bytes -= n * size;
        quota.slots -= 2 * n;
      } else {
        // A turn ends where it ends: the next one is let go so much before that.
        const part = isCut ? Math.min(bytes, Math.max(quota.bytes, LARGE_BYTES)) : bytes;
        this.sendPart(qp, part, out);
        quota.bytes -= part;
        quota.slots -= 2;
      }
      quota.requests--;
    }
  }

  /** Bytes that take as long as a turn needs to be let go; 0: that is not known. */
  handoverBytes(qp: QpView, out: Actions, tenants: ActiveTenants): number {
    this.pacer.select(qp, tenants, out, true);
    return this.pacer.handoverBytes;
  }

  /** waits.ts */
  handoverDelayNs(context: ContextView, tenants: ActiveTenants, bytes: number, out: Actions): number {
    return this.pacer.handoverDelayNs(context, tenants, bytes, out);
  }

  /** As many full pieces as may fly now; what remains at the end is sent like a short message. */
  private sendPieces(qp: QpView, size: number, mayFly: number, out: Actions): number {
    const most = Math.min(Math.floor(mayFly / size), out.room(qp) >> 1);
    const count = Math.max(1, most);
    return out.pieces(qp, size, count, this.pacer.waitsPerPiece(size, count));
  }

  /** Bytes of a piece of the oldest held request. */
  private sizeOf(qp: QpView, out: Actions): number {
    return out.nextOpcode(qp) === IBV_WR_RDMA_READ ? this.pacer.readPieceBytes : this.pacer.pieceBytes;
  }

  private sendPart(qp: QpView, bytes: number, out: Actions): void {
    const isLast = bytes === out.nextBytes(qp) && out.outstanding(qp) === 1;
    if (bytes < out.nextBytes(qp)) out.piece(qp, bytes);
    else out.pass(qp);
    if (bytes < LARGE_BYTES) return;
    this.addWaits(qp, this.pacer.waitsAfterWhole(bytes, isLast), out);
  }

  private addWaits(qp: QpView, count: number, out: Actions): void {
    if (count === 0) return;
    if (qp.type !== IBV_QPT_UD || out.wait === 'emulated') out.zeroWaits(qp, count);
    else if (this.sinkOf(qp) !== null) this.dueSends[qp.index] += count;
  }

  /** Sends the empty datagrams that are due, a slot each. False: not all of them yet. */
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
