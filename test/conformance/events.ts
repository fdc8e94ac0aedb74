/**
 * Random programs driven by completion events: several queues on one channel, polled a few completions at a time, new
 * requests posted inside the listener, queue pairs destroyed with requests in flight. The completions of each queue
 * pair do not depend on timing, so a shim must not change them. A program that misses an event stops.
 */
import fc from 'fast-check';
import { createFabric, type Fabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, type End, makeEnd } from '../sim/helpers.ts';

export interface Flow {
  /** Index of the completion queue. */
  cq: number;
  depth: number;
  /** Requests per batch. The last one is signaled, and any other one that has the flag. */
  window: number;
  sizes: { bytes: number; read: boolean; signaled: boolean }[];
  /** Destroy the queue pair after this many completions (0: never). */
  destroyAt: number;
  /** Move it to ERR after this many completions (0: never). */
  errorAt: number;
  sigAll: boolean;
  /** Whether SENDs are solicited. The peer's receiver listens for solicited completions only. */
  sends: boolean;
}

export interface EventProgram {
  flows: Flow[];
  cqs: number;
  /** Maximum number of completions per poll. */
  pollMax: number;
  /** Whether queues have exactly as many entries as the program needs, or 256. */
  tightCq: boolean;
  /** Whether the listener is attached only after everything is posted. */
  lateListener: boolean;
}

const size = fc.record({
  bytes: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 900 }), fc.integer({ min: 1, max: 120_000 })),
  read: fc.boolean(),
  signaled: fc.boolean(),
});

const flow: fc.Arbitrary<Flow> = fc
  .record({
    cq: fc.integer({ min: 0, max: 2 }),
    depth: fc.constantFrom(1, 2, 3, 8, 64),
    window: fc.integer({ min: 1, max: 8 }),
    sizes: fc.array(size, { minLength: 1, maxLength: 24 }),
    destroyAt: fc.constantFrom(0, 0, 0, 1, 3),
    errorAt: fc.constantFrom(0, 0, 0, 2),
    sigAll: fc.boolean(),
    sends: fc.boolean(),
  })
  .map((f) => ({ ...f, window: Math.min(f.window, f.depth) }));

export const eventProgram: fc.Arbitrary<EventProgram> = fc.record({
  flows: fc.array(flow, { minLength: 1, maxLength: 4 }),
  cqs: fc.integer({ min: 1, max: 3 }),
  pollMax: fc.constantFrom(1, 2, 16),
  tightCq: fc.boolean(),
  lateListener: fc.boolean(),
});

const REGION = 1 << 18;
const SHARE = REGION / 4;

interface Lane {
  flow: Flow;
  end: End;
  peer: End;
  next: number;
  completed: number;
  /** Outstanding completions before the next batch is posted. */
  waiting: number;
  alive: boolean;
  /** The poll that returned the completion after which the queue pair was destroyed. */
  buriedIn: number;
  failed: boolean;
  trace: string[];
}

class Run {
  private readonly fabric: Fabric;
  private readonly lanes: Lane[] = [];
  private readonly v: V.Provider;
  private readonly a: End;
  private readonly b: End;
  private readonly cqs: number[];
  private readonly wc: V.WcBatch;
  private readonly program: EventProgram;
  private polls = 0;
  /** Completions of queue pairs that were destroyed before the poll. */
  private strays = 0;

  constructor(program: EventProgram, chain: Interceptor[], wait: boolean) {
    this.fabric = createFabric({ hosts: 2, seed: 1, wait, autoAdvance: false });
    this.program = program;
    this.a = makeEnd({ ...this.fabric, provider: compose(this.fabric.provider, chain) }, 0, {
      bytes: REGION,
      event: true,
    });
    this.b = makeEnd(this.fabric, 1, { bytes: REGION, event: true });
    this.v = this.a.v;
    for (let i = 0; i < REGION; i++) this.a.bytes[i] = (i * 31 + (i >> 8)) & 255;
    for (let i = 0; i < REGION; i++) this.b.bytes[i] = (i * 37 + (i >> 9)) & 255;
    this.wc = new V.WcBatch(this.v, { capacity: program.pollMax });
    this.cqs = Array.from({ length: program.cqs }, (_, i) => {
      const needed = program.flows
        .filter((f) => f.cq % program.cqs === i)
        .reduce((sum, f) => sum + f.depth, 0);
      return this.v.createCq(this.a.context, program.tightCq ? Math.max(1, needed) : 256, this.a.channel)
        .handle;
    });
    for (const [i, f] of program.flows.entries()) this.lanes.push(this.openLane(f, i));
  }

  private openLane(flow: Flow, index: number): Lane {
    const { a, b, v } = this;
    const cap = { maxSendWr: flow.depth, maxRecvWr: 64, maxSendSge: 2, maxRecvSge: 2, maxInlineData: 0 };
    const cq = this.cqs[flow.cq % this.cqs.length];
    const init = { qpType: V.IBV_QPT_RC, sqSigAll: flow.sigAll, cap };
    const mine = v.createQp(a.pd, { ...init, sendCq: cq, recvCq: cq });
    const theirs = b.v.createQp(b.pd, { ...init, sendCq: b.sendCq, recvCq: b.recvCq });
    const end: End = { ...a, qp: mine.handle, qpNum: mine.qpNum };
    const peer: End = { ...b, qp: theirs.handle, qpNum: theirs.qpNum };
    connect(end, peer);
    for (let i = 0; i < 64; i++) peer.recv.recv(i, b.mr.addr + index * SHARE, SHARE, b.mr.lkey);
    b.v.postRecv(peer.qp, peer.recv.ring, 0, 64);
    peer.recv.clear();
    return {
      flow,
      end,
      peer,
      next: 0,
      completed: 0,
      waiting: 0,
      alive: true,
      buriedIn: Number.POSITIVE_INFINITY,
      failed: false,
      trace: [],
    };
  }

  /** Posts the next batch of a flow; its last request is signaled, so that there is something to wait for. */
  private postNext(lane: Lane, index: number): void {
    const { flow, end, peer } = lane;
    const { send } = end;
    send.clear();
    const last = Math.min(lane.next + flow.window, flow.sizes.length) - 1;
    for (; lane.next <= last; lane.next++) {
      const { bytes, read, signaled } = flow.sizes[lane.next];
      const asked = signaled || lane.next === last;
      if (asked || flow.sigAll) lane.waiting++;
      const flags = asked ? V.IBV_SEND_SIGNALED : 0;
      const n = Math.min(bytes, SHARE / 2);
      const local = end.mr.addr + index * SHARE;
      const remote = peer.mr.addr + index * SHARE;
      const half = SHARE / 2;
      if (flow.sends)
        send.send(lane.next, flags | V.IBV_SEND_SOLICITED, local, Math.min(n, 5000), end.mr.lkey);
      else if (read) send.read(lane.next, flags, local + half, n, end.mr.lkey, remote + half, peer.mr.rkey);
      else send.write(lane.next, flags, local, n, end.mr.lkey, remote, peer.mr.rkey);
    }
    const taken = this.v.postSend(end.qp, send.ring, 0, send.length);
    lane.trace.push(`posted ${taken}/${send.length}`);
  }

  private onCompletion(i: number): void {
    const handle = this.wc.qp(i);
    const index = this.lanes.findIndex((lane) => lane.end.qp === handle);
    const lane = this.lanes[index];
    // This completion was polled in the same batch, before the queue pair was destroyed, so the program still gets it.
    if (lane === undefined || lane.buriedIn < this.polls) {
      this.strays++;
      return;
    }
    if (!lane.alive) return;
    lane.trace.push(`${this.wc.wrId(i)} ${V.wcStatusName(this.wc.status(i))}`);
    lane.completed++;
    lane.waiting--;
    if (this.wc.status(i) !== V.IBV_WC_SUCCESS) lane.failed = true;
    if (lane.completed === lane.flow.destroyAt) {
      lane.alive = false;
      lane.buriedIn = this.polls;
      this.v.destroyQp(lane.end.qp);
    } else if (lane.completed === lane.flow.errorAt) {
      lane.failed = true;
      this.v.modifyQp(lane.end.qp, { qpState: V.IBV_QPS_ERR }, V.IBV_QP_STATE);
    } else if (!lane.failed && lane.waiting === 0 && lane.next < lane.flow.sizes.length) {
      this.postNext(lane, index);
    }
  }

  /** Arms the queue, then polls until it is empty, as every event-driven program does. */
  private readonly onEvent = (cq: number): void => {
    this.v.reqNotifyCq(cq, false);
    for (;;) {
      const n = this.v.pollCq(cq, this.wc.ring, 0, this.program.pollMax);
      if (n === 0) return;
      this.polls++;
      for (let i = 0; i < n; i++) this.onCompletion(i);
    }
  };

  async go() {
    const { v, a, b, lanes } = this;
    // Solicited completions raise the peer's event, as in a server that receives requests.
    let woken = 0;
    b.v.reqNotifyCq(b.recvCq, true);
    if (!this.program.lateListener) v.watchCompChannel(a.channel, this.onEvent);
    for (const cq of this.cqs) v.reqNotifyCq(cq, false);
    for (const [i, lane] of lanes.entries()) this.postNext(lane, i);
    if (this.program.lateListener) {
      await this.fabric.run();
      v.watchCompChannel(a.channel, this.onEvent);
    }
    for (let quiet = 0; quiet < 3; quiet++) {
      const before = this.fabric.simulation.nowNs;
      await this.fabric.run();
      if (this.fabric.simulation.nowNs > before) quiet = 0;
      if (woken++ > 10_000) throw new Error('the program never ends');
    }
    return this.result();
  }

  private result() {
    const { v, lanes } = this;
    const undisturbed = lanes.every((lane) => lane.flow.destroyAt === 0 && lane.flow.errorAt === 0);
    for (const lane of lanes) if (lane.alive) v.destroyQp(lane.end.qp);
    const left = this.cqs.map((cq) => v.pollCq(cq, this.wc.ring, 0, this.program.pollMax));
    for (const cq of this.cqs) v.destroyCq(cq);
    return {
      // Which requests are flushed after an error depends on timing.
      traces: lanes.map((lane) => (lane.flow.errorAt === 0 ? lane.trace : lane.trace.length > 0)),
      unfinished: lanes.map((lane) => lane.alive && !lane.failed && lane.waiting > 0),
      left,
      strays: this.strays,
      data: undisturbed ? [sum(this.a.bytes), sum(this.b.bytes)] : 'not compared',
    };
  }
}

function sum(bytes: Uint8Array): number {
  let h = 2166136261;
  for (const byte of bytes) h = Math.imul(h ^ byte, 16777619);
  return h >>> 0;
}

export function runEvents(program: EventProgram, chain: Interceptor[], wait = true) {
  return new Run(program, chain, wait).go();
}
