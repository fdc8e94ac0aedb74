/** The requests and receives of an application, which are written once and reposted. */
import * as V from '../../verbs/index.ts';
import { OPCODES } from '../operations.ts';
import type { App } from '../resolve.ts';
import { RECEIVE_BATCH } from './receiver.ts';
import type { RegionBuffers } from './region-buffers.ts';

/** Access to the memory of applications. */
export const ACCESS =
  V.IBV_ACCESS_LOCAL_WRITE |
  V.IBV_ACCESS_REMOTE_WRITE |
  V.IBV_ACCESS_REMOTE_READ |
  V.IBV_ACCESS_REMOTE_ATOMIC;
/** Largest ring, in slots. The queue pairs of an application share rings. */
const RING_SLOTS = 1 << 16;

/** The memory that one queue pair uses at its two ends. */
export interface BufferPair {
  readonly from: number;
  readonly lkey: number;
  readonly to: number;
  readonly toLkey: number;
  readonly rkey: number;
  readonly bufferBytes: number;
}

/** What of an application determines its requests. */
export type RingApp = Pick<App, 'op' | 'isCompareSwap' | 'qps' | 'batch' | 'maxBytes' | 'inline'>;

/** Equal receives or requests, RECEIVE_BATCH of them in a row. */
export interface Reposted {
  readonly ring: number;
  readonly start: number;
}

export interface ReplyDevices {
  /** The receives in which the responses arrive. */
  readonly receives: Reposted;
  /** The responses, of which the last is signaled. */
  readonly responses: Reposted;
}

/** Rings for the requests of one end and the receives of the other, which several queue pairs share. */
export class Rings {
  private readonly here: V.Provider;
  private readonly there: V.Provider;
  private readonly app: RingApp;
  private send: V.SendBatch | null = null;
  private recv: V.RecvBatch | null = null;

  constructor(here: V.Provider, there: V.Provider, app: RingApp) {
    this.here = here;
    this.there = there;
    this.app = app;
  }

  /** Writes the batch of queue pair `index`; only its last request is signaled. */
  requests(index: number, { from, lkey, to, rkey }: BufferPair): { batch: V.SendBatch; start: number } {
    const { app, here } = this;
    const inlineBytes = app.inline ? app.maxBytes : 0;
    if (this.send === null || this.send.length === this.send.capacity) {
      const capacity = app.batch * this.sharers(index, app.batch);
      this.send = new V.SendBatch(here, { capacity, sges: 1, inlineBytes });
    }
    const batch = this.send;
    const start = batch.length;
    const message = new Uint8Array(inlineBytes);
    for (let i = 0; i < app.batch; i++) {
      const flags = i === app.batch - 1 ? V.IBV_SEND_SIGNALED : 0;
      if (app.inline) batch.inline(i, OPCODES[app.op], flags, message);
      else if (app.op === 'send') batch.send(i, flags, from, app.maxBytes, lkey);
      else if (app.op === 'write') batch.write(i, flags, from, app.maxBytes, lkey, to, rkey);
      else if (app.op === 'read') batch.read(i, flags, from, app.maxBytes, lkey, to, rkey);
      else if (app.isCompareSwap) batch.compareSwap(i, flags, from, lkey, to, rkey, 0n, 0n);
      else batch.fetchAdd(i, flags, from, lkey, to, rkey, 1n);
      if (app.inline && app.op === 'write') batch.remoteTo(start + i, to, rkey);
    }
    return { batch, start };
  }

  /**
   * Writes and posts all receives of queue pair `index`.
   * @param shared the buffers that they use in turn; null: they all use the buffer of the pair
   */
  receives(
    index: number,
    { to, toLkey, bufferBytes }: BufferPair,
    qp: number,
    depth: number,
    shared: RegionBuffers | null = null,
  ): { ring: number; words: Uint32Array; start: number } {
    const { there } = this;
    if (this.recv === null || this.recv.length === this.recv.capacity) {
      const capacity = RECEIVE_BATCH * this.sharers(index, RECEIVE_BATCH);
      this.recv = new V.RecvBatch(there, { capacity });
    }
    const batch = this.recv;
    const start = batch.length;
    for (let i = 0; i < RECEIVE_BATCH; i++) batch.recv(i, to, bufferBytes, toLkey);
    for (let left = depth; left > 0; left -= RECEIVE_BATCH) {
      const count = Math.min(left, RECEIVE_BATCH);
      shared?.toReceives(batch.words, start, count);
      there.postRecv(qp, batch.ring, start, count);
    }
    return { ring: batch.ring, words: batch.words, start };
  }

  /** How many queue pairs, starting with `index`, share a ring when each takes `slots` of it. */
  private sharers(index: number, slots: number): number {
    return Math.max(1, Math.min(this.app.qps - index, Math.floor(RING_SLOTS / slots)));
  }
}

/** Sets the keys of the request in a slot: of its message unless it is inline, and of the peer's memory. */
export function setKeys(words: Uint32Array, slot: number, lkey: number, rkey: number): void {
  const at = V.slotAt(slot);
  const isInline = ((words[at + V.WR_OP] >>> 8) & V.IBV_SEND_INLINE) !== 0;
  if (!isInline) words[at + V.WR_SGE0 + V.SGE_LKEY] = lkey;
  words[at + V.WR_RKEY] = rkey;
}

/** The responses of an application's peer. */
export function responsesOf({ qps, replyBytes, isReplyInline }: App): RingApp {
  return {
    op: 'send',
    isCompareSwap: false,
    qps,
    batch: RECEIVE_BATCH,
    maxBytes: replyBytes,
    inline: isReplyInline,
  };
}

/** Writes the responses of the peer of queue pair `index`, and posts the receives for them. */
export function repliesOf(
  back: Rings,
  index: number,
  buffers: BufferPair,
  qp: number,
  receives: number,
): ReplyDevices {
  const { from, lkey, to, toLkey } = buffers;
  const turned = { ...buffers, from: to, lkey: toLkey, to: from, toLkey: lkey };
  const { batch, start } = back.requests(index, turned);
  return { receives: back.receives(index, turned, qp, receives), responses: { ring: batch.ring, start } };
}
