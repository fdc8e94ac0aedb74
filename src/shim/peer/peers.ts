/**
 * The agreement of two shims, made for each queue pair when its connection is set up: whether messages that take a
 * receive may go in pieces (docs/architecture.md, "Between two shims").
 */
import {
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
  IBV_QP_MAX_QP_RD_ATOMIC,
  IBV_QPS_INIT,
  IBV_QPT_RC,
} from '../../verbs/constants.ts';
import { IsoverbsError } from '../../verbs/errors.ts';
import type { PeerVerbs, Provider } from '../../verbs/provider.ts';
import type { QpAttr } from '../../verbs/types.ts';
import type { Verbs } from '../../verbs/verbs.ts';
import type { QpLedger } from '../qp-ledger.ts';
import type { Tables } from '../tables.ts';
import {
  CHUNK_SENDS,
  decodeChunks,
  decodeDescription,
  encodeDescription,
  withChunk,
  withoutChunk,
} from './chunks.ts';
import { Inbox } from './inbox.ts';
import { Outbox } from './outbox.ts';
import { Regions } from './regions.ts';

const NEEDED_ACCESS = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
/** Slots that end a message in pieces: its notice, and the message itself, empty. */
export const TAIL_SLOTS = 2;

export class Peers {
  private readonly next: Provider;
  private readonly tables: Tables;
  /** The policy may cut messages longer than this. */
  private readonly aboveBytes: number;
  readonly regions: Regions;

  constructor(next: Provider, tables: Tables, aboveBytes: number) {
    this.next = next;
    this.tables = tables;
    this.aboveBytes = aboveBytes;
    this.regions = new Regions(next, (rkey) => {
      for (const qp of tables.qps) qp?.inbox?.revoke(rkey);
    });
  }

  verbs(): Partial<Verbs> & PeerVerbs {
    return {
      describePeer: (qp) => this.describe(qp),
      setPeer: (qp, description) => this.set(qp, description),
      ...this.regions.verbs(),
    };
  }

  /** The queue pair was modified, which may end the agreement. */
  modified(qp: QpLedger, attr: QpAttr, mask: number): void {
    if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) === 0) return;
    qp.maxRdAtomic = attr.maxRdAtomic ?? 0;
    // Once a request is posted, a message may be on its way in pieces. It is completed in pieces, and the table is not
    // read again.
    if (qp.maxRdAtomic === 0 && qp.appPosted === qp.sendBase) this.closeOutbox(qp);
  }

  /** Forgets the agreement: the queue pair was reset or destroyed. */
  forget(qp: QpLedger): void {
    qp.inbox?.close();
    qp.inbox = null;
    this.closeOutbox(qp);
  }

  private closeOutbox(qp: QpLedger): void {
    qp.outbox?.close();
    qp.outbox = null;
    qp.reserved = 0;
  }

  private describe(handle: number): Uint8Array | null {
    const qp = this.tables.qp(handle);
    if (qp === undefined || qp.type !== IBV_QPT_RC || qp.state < IBV_QPS_INIT) return null;
    qp.inbox ??= this.makeInbox(qp);
    const own = encodeDescription({ aboveBytes: this.aboveBytes, inbox: qp.inbox?.address ?? null });
    return withChunk(this.next.describePeer?.(handle) ?? null, CHUNK_SENDS, own);
  }

  private set(handle: number, bytes: Uint8Array | null): void {
    const qp = this.tables.qp(handle);
    if (qp === undefined || qp.type !== IBV_QPT_RC) return;
    const chunks = decodeChunks(bytes);
    this.next.setPeer?.(handle, withoutChunk(chunks, CHUNK_SENDS));
    // Messages on their way, in either direction, rely on the agreement: only RESET ends it.
    if (qp.state > IBV_QPS_INIT && (qp.outbox !== null || qp.inbox?.isOpen === true)) return;
    const peer = decodeDescription(chunks.get(CHUNK_SENDS) ?? []);
    if (peer === null) {
      this.forget(qp);
      return;
    }
    qp.inbox?.open(peer.aboveBytes);
    this.closeOutbox(qp);
    if (peer.inbox === null) return;
    if (qp.appPosted !== qp.sendBase || qp.maxRdAtomic === 0) return;
    const cq = qp.sendCq;
    // If the device has no room for the slots that end a message in pieces, messages go whole.
    const room = Math.min(qp.realDepth - qp.appDepth, cq.realCqe - cq.appCqe - cq.extra);
    if (room <= TAIL_SLOTS) return;
    qp.outbox = orNull(() => new Outbox(this.next, peer.inbox!, qp, this.aboveBytes));
    if (qp.outbox === null) return;
    qp.plainBelow = 0;
    qp.reserved = TAIL_SLOTS;
    cq.extra += qp.reserved - qp.extra;
    qp.extra = qp.reserved;
  }

  private makeInbox(qp: QpLedger): Inbox | null {
    // The peer reads and writes through this queue pair, which must allow remote access.
    if (qp.hasSrq || qp.recvDepth === 0 || (qp.accessFlags & NEEDED_ACCESS) !== NEEDED_ACCESS) return null;
    const { pd, recvDepth, recvBase: base, recvPosted: posted } = qp;
    return orNull(() => new Inbox(this.next, this.regions, { pd, recvDepth, base, posted }));
  }
}

/** Null if memory is short, in which case there is no agreement. */
function orNull<T>(make: () => T): T | null {
  try {
    return make();
  } catch (error) {
    if (error instanceof IsoverbsError) return null;
    throw error;
  }
}
