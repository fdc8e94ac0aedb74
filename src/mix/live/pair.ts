/** One queue pair of an application on real devices, and its peer: posts, polls, and looks at what arrives. */
import type { Context, MemoryRegion, QueuePair } from '../../objects/index.ts';
import type { RandomStream } from '../../sim/kernel/random.ts';
import * as V from '../../verbs/index.ts';
import { END, START } from '../meter.ts';
import type { App } from '../resolve.ts';
import { LENGTH_WORD, POLL_BATCH } from '../sender.ts';
import type { Clock } from './clock.ts';
import type { LiveMeter } from './meter.ts';
import { Payload } from './payload.ts';
import type { Slots } from './spec.ts';

const OPCODES = { write: V.IBV_WR_RDMA_WRITE, send: V.IBV_WR_SEND };

/** What a pair is made of. */
export interface PairParts {
  readonly app: App;
  readonly index: number;
  readonly slots: Slots;
  readonly clock: Clock;
  readonly meter: LiveMeter;
  readonly thinking: RandomStream;
  readonly sizing: RandomStream;
  readonly here: Context;
  readonly there: Context;
  readonly local: MemoryRegion;
  readonly remote: MemoryRegion;
  readonly qp: QueuePair;
  readonly peer: QueuePair;
  /** UD: the way to the peer. */
  readonly ah: number;
}

export class Pair {
  private readonly parts: PairParts;
  private readonly provider: V.Provider;
  private readonly cq: number;
  private readonly batch: V.SendBatch;
  private readonly bytes: Uint8Array;
  private readonly wcs: V.WcBatch;
  /** When the peer has to receive: a receive for each slot over there. */
  private readonly receives: V.RecvBatch | null;
  private readonly payload: Payload;
  /** Whether what completes has arrived, so that it may be looked at. */
  private readonly isReliable: boolean;
  private readonly batches: number;
  /** Start of the post call of each batch that is outstanding: a ring. */
  private readonly postedAt: Float64Array;
  private postedBatches = 0;
  private doneBatches = 0;
  private posted = 0;
  private done = 0;
  private received = 0;
  /** When batches are due that are thought about; of them so many. */
  private readonly due: Float64Array;
  private thinking = 0;
  private failed = false;
  private stopped = false;

  constructor(parts: PairParts) {
    const { app, slots, here, there, local, remote, index, meter } = parts;
    this.parts = parts;
    this.provider = here.provider;
    this.cq = parts.qp.sendCq.handle;
    this.isReliable = app.transport === 'rc';
    this.batches = slots.from / app.batch;
    this.postedAt = new Float64Array(this.batches);
    this.due = new Float64Array(this.batches);
    this.wcs = here.wcBatch({ capacity: POLL_BATCH });
    const isPulled = app.op === 'read' || app.op === 'atomic';
    const [from, to] = isPulled ? [remote, local] : [local, remote];
    this.payload = new Payload(slots, { from, to, index, isCounter: app.op === 'atomic' }, meter.wrong);
    const inlineBytes = app.inline ? app.maxBytes : 0;
    this.batch = here.sendBatch({ capacity: slots.from, sges: 1, inlineBytes });
    this.bytes = new Uint8Array(this.batch.words.buffer);
    for (let slot = 0; slot < slots.from; slot++) this.write(slot);
    this.receives = app.op === 'send' ? there.recvBatch({ capacity: slots.to }) : null;
    if (this.receives !== null) this.postAll(this.receives);
  }

  /** The request of a slot: only its length changes, and the bytes of an inline one. */
  private write(slot: number): void {
    const { app, slots, local, remote, index, qp, peer, ah } = this.parts;
    const { batch } = this;
    const flags = slot % app.batch === app.batch - 1 ? V.IBV_SEND_SIGNALED : 0;
    const isPulled = app.op === 'read' || app.op === 'atomic';
    const at = (mr: MemoryRegion, isFrom: boolean, n: number) =>
      mr.addr +
      (isFrom ? slots.fromBytes * (index * slots.from + n) : slots.toBytes * (index * slots.to + n));
    const here = at(local, !isPulled, slot);
    // All fetch-and-adds of a queue pair count in one place.
    const there = at(remote, isPulled, app.op === 'atomic' ? 0 : slot);
    if (app.op === 'atomic') batch.fetchAdd(slot, flags, here, local.lkey, there, remote.rkey, 1n);
    else if (app.op === 'read') batch.read(slot, flags, here, app.maxBytes, local.lkey, there, remote.rkey);
    else if (app.inline) batch.inline(slot, OPCODES[app.op], flags, new Uint8Array(app.maxBytes));
    else if (app.op === 'send') batch.send(slot, flags, here, app.maxBytes, local.lkey);
    else batch.write(slot, flags, here, app.maxBytes, local.lkey, there, remote.rkey);
    if (app.inline && app.op === 'write') batch.remoteTo(slot, there, remote.rkey);
    if (qp.type === 'UD') batch.datagramTo(slot, ah, peer.qpNum, peer.qkey);
  }

  private postAll(receives: V.RecvBatch): void {
    const { slots, remote, index, peer } = this.parts;
    for (let n = 0; n < slots.to; n++) {
      const addr = remote.addr + slots.toBytes * (index * slots.to + n);
      receives.recv(n, addr, slots.toBytes, remote.lkey);
    }
    peer.postRecv(receives);
  }

  /** Requests that are not over yet. */
  get outstanding(): number {
    if (this.failed) return 0;
    const isAwaited = this.receives !== null && this.isReliable;
    return this.posted - (isAwaited ? Math.min(this.done, this.received) : this.done);
  }

  /** Its first posts: as many as may be outstanding. */
  start(): void {
    for (let i = 0; i < this.batches; i++) this.next();
  }

  /** Posts nothing any more. */
  stop(): void {
    this.stopped = true;
  }

  /** Polls, and posts what may follow. */
  turn(): void {
    const { clock, meter } = this.parts;
    const n = this.provider.pollCq(this.cq, this.wcs.ring, 0, POLL_BATCH);
    if (n > 0) {
      clock.read();
      meter.times[END] = clock.now[0];
      let batches = 0;
      for (let i = 0; i < n; i++) batches += this.complete(V.slotAt(i));
      for (; batches > 0; batches--) this.next();
    }
    if (this.receives !== null) this.receive(this.receives);
    if (this.thinking > 0) this.wake();
  }

  /** Counts one completion, and looks at what came; returns how many batches it ends. */
  private complete(at: number): number {
    const { meter, app } = this.parts;
    const { words } = this.wcs;
    if (this.failed) return 0;
    // It ends those before it too, which were not signaled.
    const messages = (words[at + V.WC_SEQ] + 1 - this.done) | 0;
    if ((words[at + V.WC_OP] & 0xff) !== V.IBV_WC_SUCCESS) {
      this.failed = true;
      meter.errors += this.posted - this.done;
      meter.outstanding -= this.posted - this.done;
      return 0;
    }
    meter.times[START] = this.postedAt[this.doneBatches % this.batches];
    this.doneBatches++;
    meter.outstanding -= messages;
    meter.complete(messages);
    // A SEND counts where it is received.
    if (app.op !== 'send') for (let i = 0; i < messages; i++) this.look(this.done + i);
    this.done += messages;
    return 1;
  }

  private look(n: number): void {
    const { meter, app } = this.parts;
    const bytes = this.payload.bytesOf(n);
    meter.arrive(bytes);
    if (!this.isReliable) return;
    meter.verified++;
    if (app.op === 'atomic') this.payload.checkAtomic(n);
    else this.payload.check(n, bytes);
  }

  private receive(receives: V.RecvBatch): void {
    const { clock, meter, slots, peer } = this.parts;
    const n = this.provider.pollCq(peer.recvCq.handle, this.wcs.ring, 0, POLL_BATCH);
    if (n === 0) return;
    clock.read();
    meter.times[END] = clock.now[0];
    const { words } = this.wcs;
    for (let i = 0; i < n; i++) {
      const at = V.slotAt(i);
      if ((words[at + V.WC_OP] & 0xff) !== V.IBV_WC_SUCCESS) {
        this.failed = true;
        return;
      }
      const bytes = words[at + V.WC_BYTE_LEN] - slots.headBytes;
      meter.arrive(bytes);
      if (this.isReliable) {
        meter.verified++;
        this.payload.check(this.received, bytes);
      }
      const slot = this.received++ % slots.to;
      this.provider.postRecv(peer.handle, receives.ring, slot, 1);
    }
  }

  /** Posts the next batch, after a pause if it thinks. */
  private next(): void {
    const { app, clock, thinking } = this.parts;
    if (app.thinkNs === 0) {
      this.post();
      return;
    }
    this.due[this.thinking++] = clock.now[0] + thinking.exponential(app.thinkNs);
  }

  private wake(): void {
    const { clock } = this.parts;
    const { due } = this;
    clock.read();
    for (let i = this.thinking - 1; i >= 0; i--) {
      if (due[i] > clock.now[0]) continue;
      due[i] = due[--this.thinking];
      this.post();
    }
  }

  private post(): void {
    const { app, clock, meter, qp } = this.parts;
    if (this.failed || this.stopped) return;
    const slot = (this.postedBatches % this.batches) * app.batch;
    for (let i = 0; i < app.batch; i++) this.prepare(this.posted + i, slot + i);
    clock.read();
    this.postedAt[this.postedBatches % this.batches] = clock.now[0];
    qp.postSend(this.batch, slot, app.batch);
    this.postedBatches++;
    this.posted += app.batch;
    meter.posted += app.batch;
    meter.outstanding += app.batch;
  }

  /** Message `n` is written where it will be sent from. */
  private prepare(n: number, slot: number): void {
    const { app, sizing } = this.parts;
    const { batch, payload } = this;
    const sizes = app.maxBytes - app.minBytes + 1;
    const bytes = sizes === 1 ? app.maxBytes : app.minBytes + Math.floor(sizing.next() * sizes);
    if (app.op === 'atomic') return;
    payload.stamp(n, bytes);
    batch.words[V.slotAt(slot) + LENGTH_WORD] = bytes;
    if (app.inline) this.bytes.set(payload.message(n), batch.inlineAt(slot));
  }

  /** All is over: what is where it had to go. */
  compare(): void {
    const { app } = this.parts;
    if (!this.isReliable || this.failed || app.op === 'atomic') return;
    this.payload.compare(app.op === 'send' ? this.received : this.done);
  }
}
