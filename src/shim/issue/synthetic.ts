/** Writes internal requests: WAITs, ENABLEs, empty WRITEs and datagrams, lookups, flushed requests. */
import {
  IBV_QPT_UD,
  IBV_SEND_SIGNALED,
  IBV_WR_RDMA_WRITE,
  IBV_WR_SEND,
  ISO_SEND_INTERNAL,
  ISO_WR_ENABLE,
  ISO_WR_WAIT,
} from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import { ENABLES, POSTS, WAITS } from '../counters.ts';
import { AS_WRITES } from '../cq-ledger.ts';
import { NO_TOKEN, type QpView } from '../policy.ts';
import type { QpLedger } from '../qp-ledger.ts';
import { SINK_QKEY } from '../resource-keeper.ts';
import type { ResourceView } from '../resources.ts';
import { FORCED, PieceWriter } from './piece-writer.ts';

export class SyntheticWriter extends PieceWriter {
  zeroWaits(view: QpView, count: number): void {
    const qp = view as QpLedger;
    qp.counts[WAITS] += count;
    this.local(qp, ISO_WR_WAIT, qp.sendCq.handle, 0, count, NO_TOKEN);
  }

  zeroSends(view: QpView, sink: ResourceView, count: number, token: number = NO_TOKEN): void {
    const qp = view as QpLedger;
    const ah = this.ownAddress(qp);
    for (let i = 0; i < count; i++) {
      const to = this.slot(qp);
      const w = this.words;
      w.fill(0, to, to + L.SLOT_WORDS);
      let flags = ISO_SEND_INTERNAL;
      if (i === count - 1 && token !== NO_TOKEN) {
        flags |= IBV_SEND_SIGNALED;
        qp.awaitedTokens.push(qp.realPosted, token);
        qp.sendCq.awaitedCount++;
      } else if (this.mustReport(qp)) {
        flags |= IBV_SEND_SIGNALED;
      }
      w[to + L.WR_OP] = IBV_WR_SEND | (flags << 8);
      w[to + L.WR_AH] = ah;
      w[to + L.WR_REMOTE_QPN] = sink.qpNum;
      w[to + L.WR_REMOTE_QKEY] = SINK_QKEY;
      this.lastData = to;
      this.lastDataSeq = qp.realPosted;
      qp.counts[POSTS]++;
      this.push(qp, flags);
    }
  }

  waitFor(view: QpView, cq: number, count: number, token: number = NO_TOKEN): void {
    const qp = view as QpLedger;
    qp.counts[WAITS]++;
    this.local(qp, ISO_WR_WAIT, cq, count, 1, token);
  }

  enable(view: QpView, target: number, count: number, token: number = NO_TOKEN): void {
    const qp = view as QpLedger;
    qp.counts[ENABLES]++;
    this.local(qp, ISO_WR_ENABLE, target, count, 1, token);
  }

  /** Writes a WAIT or ENABLE. */
  private local(
    qp: QpLedger,
    opcode: number,
    target: number,
    count: number,
    repeat: number,
    token: number,
  ): void {
    const to = this.slot(qp);
    const w = this.words;
    // When it is flushed between two pieces, its completion becomes that of the message.
    const from = (qp.issued & qp.mask) * qp.stride;
    w[to] = qp.partial ? qp.held[from] : 0;
    w[to + 1] = qp.partial ? qp.held[from + 1] : 0;
    let flags = ISO_SEND_INTERNAL;
    if (token !== NO_TOKEN) {
      flags |= IBV_SEND_SIGNALED;
      qp.awaitedTokens.push(qp.realPosted, token);
      qp.sendCq.awaitedCount++;
    }
    w[to + L.WR_OP] = opcode | (flags << 8);
    w[to + L.WR_TARGET] = target;
    w[to + L.WR_COUNT] = count;
    w[to + L.WR_REPEAT] = repeat;
    this.push(qp, flags);
  }

  zeroWrites(view: QpView): boolean {
    const qp = view as QpLedger;
    const row = qp.issued & qp.mask;
    // As on a device, one request may stand for several 0_WAITs.
    const total = Math.max(1, this.nextWord(qp, L.WR_REPEAT));
    while (qp.sums[2] < total) {
      if (this.room(qp) < 1) return false;
      if (!qp.partial) qp.first[row] = qp.realPosted;
      qp.partial = true;
      qp.split[row] = AS_WRITES;
      qp.sums[2]++;
      this.zeroWrite(qp, row, qp.sums[2] === total);
    }
    this.finish(qp, row);
    return true;
  }

  private zeroWrite(qp: QpLedger, row: number, isLast: boolean): void {
    const to = this.slot(qp);
    const from = row * qp.stride;
    this.words.fill(0, to, to + L.SLOT_WORDS);
    this.words[to] = qp.held[from];
    this.words[to + 1] = qp.held[from + 1];
    let flags = ISO_SEND_INTERNAL;
    if ((isLast && qp.visible[row] !== 0) || this.mustReport(qp)) flags |= IBV_SEND_SIGNALED;
    this.words[to + L.WR_OP] = IBV_WR_RDMA_WRITE | (flags << 8);
    this.lastData = to;
    this.lastDataSeq = qp.realPosted;
    qp.counts[POSTS]++;
    this.push(qp, flags);
  }

  /** Reads the peer's table of receives. The READ belongs to the oldest held message, as if it were its first piece. */
  issueLookup(qp: QpLedger): void {
    const outbox = qp.outbox!;
    if (outbox.isLookupInFlight(qp.realFreed) || this.room(qp) < 1) return;
    const row = qp.issued & qp.mask;
    const to = this.slot(qp);
    this.words[to] = qp.held[row * qp.stride];
    this.words[to + 1] = qp.held[row * qp.stride + 1];
    outbox.writeLookup(this.words, to, qp.realPosted);
    this.words[to + L.WR_OP] |= FORCED;
    qp.first[row] = qp.realPosted;
    qp.lookupIssued = true;
    this.lastData = to;
    this.lastDataSeq = qp.realPosted;
    this.push(qp, IBV_SEND_SIGNALED);
  }

  /**
   * The queue pair is in ERR: posts each held request as an empty, signaled one, which the device flushes. They are
   * empty because the memory that a held request names may be gone.
   */
  flushHeld(qp: QpLedger): void {
    while (qp.backlog > 0 && this.freeSlots(qp) > 0) {
      const row = qp.issued & qp.mask;
      const from = row * qp.stride;
      const to = this.slot(qp);
      this.words[to] = qp.held[from];
      this.words[to + 1] = qp.held[from + 1];
      this.words[to + L.WR_OP] = IBV_WR_SEND | FORCED;
      for (let i = L.WR_REMOTE_LO; i <= L.WR_SRQN; i++) this.words[to + i] = qp.held[from + i];
      // The device refuses a datagram without an address handle. A WAIT has none, and a held datagram's may be gone.
      if (qp.type === IBV_QPT_UD) this.words[to + L.WR_AH] = this.ownAddress(qp);
      if (!qp.partial && !qp.lookupIssued) qp.first[row] = qp.realPosted;
      this.push(qp, IBV_SEND_SIGNALED);
      this.finish(qp, row);
    }
    this.submit(qp);
  }

  /** An address handle for datagrams that no queue pair receives: that of the queue pair's own port. */
  private ownAddress(qp: QpLedger): number {
    if (qp.ownAh !== 0) return qp.ownAh;
    const { next } = this;
    const { context } = qp.sendCq;
    const { portNum = 1 } = next.queryQp(qp.handle).attr;
    const { gidTblLen, lid } = next.queryPort(context, portNum);
    for (let sgidIndex = 0; sgidIndex < gidTblLen; sgidIndex++) {
      const dgid = next.queryGid(context, portNum, sgidIndex).gid;
      if (dgid === '::') continue;
      qp.ownAh = next.createAh(qp.pd, { dgid, sgidIndex, hopLimit: 1, dlid: lid, portNum });
      break;
    }
    return qp.ownAh;
  }
}
