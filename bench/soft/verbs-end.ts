/** One end of a reliable connection: over user-space RoCE, or over kernel soft-RoCE. */
import { Context, type Endpoint } from '#src/objects/index.ts';
import { createRdmaCoreProvider } from '#src/providers/rdma-core/index.ts';
import { createSoftNetwork } from '#src/providers/soft/index.ts';
import * as V from '#src/verbs/index.ts';
import {
  ADDRESSES,
  type Answer,
  afterSlice,
  LONG_BYTES,
  MTU_BYTES,
  measure,
  measureTrips,
  type Order,
  SHORT_BYTES,
  STREAM_BYTES,
} from './messages.ts';

/** Long requests in flight, and batches of short ones. */
const LONG_DEPTH = 8;
const BATCH = 64;
const SHORT_DEPTH = 4;
/** Offsets in the region of the pingpong's round trip numbers: the one that the peer writes, and the one that is sent. */
const THEIRS = 1;
const MINE = 64;
/** 4.096 us * 2^18: a virtual machine may pause for half a second, which is as long as all retries take by default. */
const TIMEOUT = 18;
/** Messages of a run that counts bytes. */
const SHORT_MESSAGES = 20_000;
const LONG_MESSAGES = 1000;

/** What one end sends to the other. */
export interface Introduction {
  readonly endpoint: Endpoint;
  readonly addr: number;
  readonly rkey: number;
}

/** The device of one end on user-space RoCE. */
export function openSoft(index: number): Context {
  return new Context(createSoftNetwork({ addresses: [ADDRESSES[index]] }).provider, 'soft0', {});
}

/** The kernel's soft-RoCE device, which both ends share. */
export function openRxe(device: string): Context {
  return new Context(createRdmaCoreProvider(), device, {});
}

/** One end. connect() gives it the introduction of the other one. */
export class VerbsEnd {
  private readonly context: Context;
  private readonly cq;
  private readonly qp;
  private readonly mr;
  private readonly wcs;
  private peer: Introduction;
  /** Continues from one measurement to the next: the peer may send before this end has begun. */
  private trip = 0;

  constructor(context: Context) {
    this.context = context;
    const pd = context.allocPd();
    this.cq = context.createCq({ cqe: 1024 });
    this.qp = pd.createQp({ sendCq: this.cq, cap: { maxSendWr: 512, maxRecvWr: 64 } });
    this.mr = pd.allocate(STREAM_BYTES, { access: { remoteWrite: true } });
    this.wcs = context.wcBatch({ capacity: 64 });
    this.peer = this.introduction;
  }

  get introduction(): Introduction {
    return { endpoint: this.qp.endpoint(), addr: this.mr.addr, rkey: this.mr.rkey };
  }

  connect(peer: Introduction): void {
    this.peer = peer;
    this.qp.connectTo(peer.endpoint, { timeout: TIMEOUT });
    // A process that waits for packets stays alive.
    this.cq.next().catch(() => {});
  }

  run({ test, measures }: Order): Answer | null {
    if (test === 'pingpong') return this.pingpong(measures);
    if (!measures) return null;
    if (test === 'bytes') return this.allocated();
    const isLong = test === 'write';
    const loop = isLong ? this.longWrites() : this.shortWrites();
    const answer = measure(loop.step, afterSlice);
    loop.drain();
    return isLong ? { ...answer, units: answer.units * LONG_BYTES } : answer;
  }

  private allocated(): Answer {
    const bytes = leastBytes(this.shortWrites(), SHORT_MESSAGES);
    const perPacket = LONG_BYTES / MTU_BYTES;
    const longBytes = leastBytes(this.longWrites(), LONG_MESSAGES) / perPacket;
    const streamed = this.writes(LONG_BYTES, 1, LONG_DEPTH, STREAM_BYTES);
    const streamedBytes = leastBytes(streamed, LONG_MESSAGES) / perPacket;
    return { units: 0, ns: 0, cpuNs: 0, bytes, longBytes, streamedBytes };
  }

  private longWrites() {
    return this.writes(LONG_BYTES, 1, LONG_DEPTH);
  }

  private shortWrites() {
    return this.writes(SHORT_BYTES, BATCH, SHORT_DEPTH);
  }

  /** Polls, and returns the number of completions. */
  private take(): number {
    const count = this.cq.poll(this.wcs);
    for (let i = 0; i < count; i++) {
      if (this.wcs.status(i) !== V.IBV_WC_SUCCESS) throw new Error(V.wcStatusName(this.wcs.status(i)));
    }
    return count;
  }

  /** WRITEs from this place in the region, of which the last one is signaled. */
  private batchAt(offset: number, lengthBytes: number, count: number) {
    const { mr, peer } = this;
    const requests = this.context.sendBatch({ capacity: count });
    for (let i = 0; i < count; i++) {
      const flags = i === count - 1 ? V.IBV_SEND_SIGNALED : 0;
      requests.write(1, flags, mr.addr + offset, lengthBytes, mr.lkey, peer.addr, peer.rkey);
    }
    return requests;
  }

  /**
   * Batches of WRITEs, each from the next place in the first `spanBytes` of the region. A step returns how many WRITEs
   * have completed.
   */
  private writes(lengthBytes: number, batch: number, depth: number, spanBytes = lengthBytes) {
    const batches = Array.from({ length: spanBytes / lengthBytes }, (_, place) =>
      this.batchAt(place * lengthBytes, lengthBytes, batch),
    );
    let next = 0;
    let inFlight = 0;
    const step = () => {
      for (; inFlight < depth; inFlight++) {
        this.qp.postSend(batches[next]);
        next = (next + 1) % batches.length;
      }
      const done = this.take();
      inFlight -= done;
      return done * batch;
    };
    const drain = () => {
      while (inFlight > 0) inFlight -= this.take();
    };
    return { step, drain };
  }

  /** Each end WRITEs the number of the round trip into the memory of the other one, which polls for it. */
  private pingpong(measures: boolean): Answer | null {
    const { mr, peer } = this;
    const requests = this.context.sendBatch({ capacity: 1 });
    requests.write(
      1,
      V.IBV_SEND_SIGNALED,
      mr.addr + MINE,
      SHORT_BYTES,
      mr.lkey,
      peer.addr + THEIRS - 1,
      peer.rkey,
    );
    let pending = 0;
    const send = () => {
      mr.bytes[MINE + 1] = this.trip;
      this.qp.postSend(requests);
      pending++;
    };
    const wait = () => {
      while (mr.bytes[THEIRS] !== this.trip) pending -= this.take();
    };
    const next = () => {
      this.trip = (this.trip % 255) + 1;
      if (measures) send();
      wait();
      if (!measures) send();
    };
    const answer = measureTrips(next);
    while (pending > 0) pending -= this.take();
    return measures ? answer : null;
  }
}

/** Bytes allocated for a message: the least of several runs, because the rest is the compiler's. */
function leastBytes({ step, drain }: { step(): number; drain(): void }, messages: number): number {
  const each = Array.from({ length: 8 }, () => {
    globalThis.gc?.();
    const before = process.memoryUsage().heapUsed;
    let units = 0;
    while (units < messages) units += step();
    drain();
    return (process.memoryUsage().heapUsed - before) / units;
  });
  return Math.max(0, Math.min(...each));
}
