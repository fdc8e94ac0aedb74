/** One queue pair of an application on real devices, and its peer: posts, polls, and verifies what arrives. */
import type { Context, MemoryRegion, QueuePair } from '../../objects/index.ts';
import type { RandomStream } from '../../sim/kernel/random.ts';
import * as V from '../../verbs/index.ts';
import { LENGTH_WORD, POLL_BATCH } from '../endpoints/sender.ts';
import { CLOSE, END, Meter, OPEN, START } from '../meter.ts';
import type { App } from '../resolve.ts';
import { drawBytes } from '../sizes.ts';
import type { Clock } from './clock.ts';
import { Payload } from './payload.ts';
import type { MessageBuffers } from './spec.ts';

const OPCODES = { write: V.IBV_WR_RDMA_WRITE, send: V.IBV_WR_SEND };

/** The parts of a connection. */
export interface LiveConnectionParts {
  readonly app: App;
  readonly index: number;
  readonly buffers: MessageBuffers;
  readonly clock: Clock;
  readonly meter: LiveMeter;
  readonly thinkTimes: RandomStream;
  readonly sizes: RandomStream;
  readonly here: Context;
  readonly there: Context;
  readonly local: MemoryRegion;
  readonly remote: MemoryRegion;
  readonly qp: QueuePair;
  readonly peer: QueuePair;
  /** The address handle of the peer; UD only. */
  readonly ah: number;
}

export class LiveConnection {
  private readonly parts: LiveConnectionParts;
  private readonly provider: V.Provider;
  private readonly cq: number;
  private readonly batch: V.SendBatch;
  private readonly bytes: Uint8Array;
  private readonly wcs: V.WcBatch;
  /** One receive per buffer of the peer; null unless the application uses SEND. */
  private readonly receives: V.RecvBatch | null;
  private readonly payload: Payload;
  /** Whether a completed message has arrived, so that it can be verified. */
  private readonly isReliable: boolean;
  private readonly maxBatches: number;
  /** The time at which the post call of each outstanding batch started; used cyclically. */
  private readonly postedAt: Float64Array;
  private postedBatches = 0;
  private completedBatches = 0;
  private posted = 0;
  private completed = 0;
  private received = 0;
  /** The times at which the batches that wait for their think time are due: the first `dueCount` entries. */
  private readonly due: Float64Array;
  private dueCount = 0;
  private failed = false;
  private stopped = false;

  constructor(parts: LiveConnectionParts) {
    const { app, buffers, here, there, local, remote, index, meter } = parts;
    this.parts = parts;
    this.provider = here.provider;
    this.cq = parts.qp.sendCq.handle;
    this.isReliable = app.transport === 'rc';
    this.maxBatches = buffers.from / app.batch;
    this.postedAt = new Float64Array(this.maxBatches);
    this.due = new Float64Array(this.maxBatches);
    this.wcs = here.wcBatch({ capacity: POLL_BATCH });
    const isPulled = app.op === 'read' || app.op === 'atomic';
    const [from, to] = isPulled ? [remote, local] : [local, remote];
    this.payload = new Payload(
      buffers,
      { from, to, index, isCounter: app.op === 'atomic' },
      meter.mismatches,
    );
    const inlineBytes = app.inline ? app.maxBytes : 0;
    this.batch = here.sendBatch({ capacity: buffers.from, sges: 1, inlineBytes });
    this.bytes = new Uint8Array(this.batch.words.buffer);
    for (let slot = 0; slot < buffers.from; slot++) this.writeRequest(slot);
    this.receives = app.op === 'send' ? there.recvBatch({ capacity: buffers.to }) : null;
    if (this.receives !== null) this.postAllReceives(this.receives);
  }

  /** Writes the request of a slot. Later only its length changes, and its bytes if it is inline. */
  private writeRequest(slot: number): void {
    const { app, buffers, local, remote, index, qp, peer, ah } = this.parts;
    const { batch } = this;
    const flags = slot % app.batch === app.batch - 1 ? V.IBV_SEND_SIGNALED : 0;
    const isPulled = app.op === 'read' || app.op === 'atomic';
    const at = (mr: MemoryRegion, isFrom: boolean, n: number) =>
      mr.addr +
      (isFrom ? buffers.fromBytes * (index * buffers.from + n) : buffers.toBytes * (index * buffers.to + n));
    const here = at(local, !isPulled, slot);
    // All fetch-and-adds of a queue pair increment one counter.
    const there = at(remote, isPulled, app.op === 'atomic' ? 0 : slot);
    if (app.op === 'atomic') batch.fetchAdd(slot, flags, here, local.lkey, there, remote.rkey, 1n);
    else if (app.op === 'read') batch.read(slot, flags, here, app.maxBytes, local.lkey, there, remote.rkey);
    else if (app.inline) batch.inline(slot, OPCODES[app.op], flags, new Uint8Array(app.maxBytes));
    else if (app.op === 'send') batch.send(slot, flags, here, app.maxBytes, local.lkey);
    else batch.write(slot, flags, here, app.maxBytes, local.lkey, there, remote.rkey);
    if (app.inline && app.op === 'write') batch.remoteTo(slot, there, remote.rkey);
    if (qp.type === 'UD') batch.datagramTo(slot, ah, peer.qpNum, peer.qkey);
  }

  private postAllReceives(receives: V.RecvBatch): void {
    const { buffers, remote, index, peer } = this.parts;
    for (let n = 0; n < buffers.to; n++) {
      const addr = remote.addr + buffers.toBytes * (index * buffers.to + n);
      receives.recv(n, addr, buffers.toBytes, remote.lkey);
    }
    peer.postRecv(receives);
  }

  /** Requests that have not completed, or whose SEND the peer has not received. */
  get outstanding(): number {
    if (this.failed) return 0;
    const isAwaited = this.receives !== null && this.isReliable;
    return this.posted - (isAwaited ? Math.min(this.completed, this.received) : this.completed);
  }

  /** Posts as many batches as may be outstanding. */
  start(): void {
    for (let i = 0; i < this.maxBatches; i++) this.postNext();
  }

  /** Stops posting. */
  stop(): void {
    this.stopped = true;
  }

  /** Polls both ends, and posts the next batches. */
  poll(): void {
    const { clock, meter } = this.parts;
    const n = this.provider.pollCq(this.cq, this.wcs.ring, 0, POLL_BATCH);
    if (n > 0) {
      clock.read();
      meter.times[END] = clock.now[0];
      let batches = 0;
      for (let i = 0; i < n; i++) batches += this.complete(V.slotAt(i));
      for (; batches > 0; batches--) this.postNext();
    }
    if (this.receives !== null) this.pollReceives(this.receives);
    if (this.dueCount > 0) this.postDue();
  }

  /** Counts one completion and verifies its messages; returns how many batches it completed (0 after a failure). */
  private complete(at: number): number {
    const { meter, app } = this.parts;
    const { words } = this.wcs;
    if (this.failed) return 0;
    // A completion also stands for the unsignaled requests before it.
    const messages = (words[at + V.WC_SEQ] + 1 - this.completed) | 0;
    if ((words[at + V.WC_OP] & 0xff) !== V.IBV_WC_SUCCESS) {
      this.failed = true;
      meter.errors += this.posted - this.completed;
      meter.outstanding -= this.posted - this.completed;
      return 0;
    }
    meter.times[START] = this.postedAt[this.completedBatches % this.maxBatches];
    this.completedBatches++;
    meter.outstanding -= messages;
    meter.complete(messages);
    // A SEND counts when the peer receives it.
    if (app.op !== 'send') for (let i = 0; i < messages; i++) this.verify(this.completed + i);
    this.completed += messages;
    return 1;
  }

  private verify(n: number): void {
    const { meter, app } = this.parts;
    const bytes = this.payload.bytesOf(n);
    meter.countArrived(bytes);
    if (!this.isReliable) return;
    meter.verified++;
    if (app.op === 'atomic') this.payload.checkAtomic(n);
    else this.payload.check(n, bytes);
  }

  private pollReceives(receives: V.RecvBatch): void {
    const { clock, meter, buffers, peer } = this.parts;
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
      const bytes = words[at + V.WC_BYTE_LEN] - buffers.headerBytes;
      meter.countArrived(bytes);
      if (this.isReliable) {
        meter.verified++;
        this.payload.check(this.received, bytes);
      }
      const slot = this.received++ % buffers.to;
      this.provider.postRecv(peer.handle, receives.ring, slot, 1);
    }
  }

  /** Posts the next batch, after the application's think time if it has one. */
  private postNext(): void {
    const { app, clock, thinkTimes } = this.parts;
    if (app.thinkNs === 0) {
      this.post();
      return;
    }
    this.due[this.dueCount++] = clock.now[0] + thinkTimes.exponential(app.thinkNs);
  }

  private postDue(): void {
    const { clock } = this.parts;
    const { due } = this;
    clock.read();
    for (let i = this.dueCount - 1; i >= 0; i--) {
      if (due[i] > clock.now[0]) continue;
      due[i] = due[--this.dueCount];
      this.post();
    }
  }

  private post(): void {
    const { app, clock, meter, qp } = this.parts;
    if (this.failed || this.stopped) return;
    const slot = (this.postedBatches % this.maxBatches) * app.batch;
    for (let i = 0; i < app.batch; i++) this.prepareRequest(this.posted + i, slot + i);
    clock.read();
    this.postedAt[this.postedBatches % this.maxBatches] = clock.now[0];
    qp.postSend(this.batch, slot, app.batch);
    this.postedBatches++;
    this.posted += app.batch;
    meter.posted += app.batch;
    meter.outstanding += app.batch;
  }

  /** Message `n` is written to the buffer from which it will be sent. */
  private prepareRequest(n: number, slot: number): void {
    const { app, sizes } = this.parts;
    const { batch, payload } = this;
    const bytes = app.minBytes === app.maxBytes ? app.maxBytes : drawBytes(app, sizes.next());
    if (app.op === 'atomic') return;
    payload.stamp(n, bytes);
    batch.words[V.slotAt(slot) + LENGTH_WORD] = bytes;
    if (app.inline) this.bytes.set(payload.message(n), batch.inlineAt(slot));
  }

  /** After the last completion: compares the messages still in memory byte by byte. */
  verifyAll(): void {
    const { app } = this.parts;
    if (!this.isReliable || this.failed || app.op === 'atomic') return;
    this.payload.compareLast(app.op === 'send' ? this.received : this.completed);
  }
}

/** Counts what one application did in real time. Payload counts when its completion is polled. */
export class LiveMeter extends Meter {
  /** Messages whose contents were checked. */
  verified = 0;
  /** One sentence per message that did not match, for the first few. */
  readonly mismatches: string[] = [];
  private bytes = 0;
  private bytesInWindow = 0;

  /** Counts the payload of a completion that was polled at times[END]. */
  countArrived(bytes: number): void {
    const { times } = this;
    this.bytes += bytes;
    if (times[END] >= times[OPEN] && times[END] <= times[CLOSE]) this.bytesInWindow += bytes;
  }

  override deliveredBytes(): number {
    return this.bytes;
  }

  override get windowBytes(): number {
    return this.bytesInWindow;
  }
}
