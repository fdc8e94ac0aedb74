/**
 * Random programs over all verbs: RC, UC and UD queue pairs, shared receive queues, memory windows and invalidation, SQD,
 * resized completion queues, errors. As in program.ts, the trace of a run is what the application sees: a shim must
 * not change it, and two providers must agree on it.
 *
 * Longer than 500 lines: the steps of a program share its state and read best in one class.
 */
import fc from 'fast-check';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';
import { ALL_ACCESS, pathTo, toRts } from '../support/to-rts.ts';
import { digest, pattern } from './bytes.ts';
import type { Ground } from './program.ts';

const DEPTH = 16;
const RECVS = 64;
const MTU = 1024;
const RECV_BYTES = 8192;
const SHARE_BYTES = 1 << 15;
const MAX_QPS = 8;
const INLINE_BYTES = 64;
const QKEY = 0x1234;
const SQ_PSN = 7;

export type MixedType = 'RC' | 'UC' | 'UD';

export interface MixedOp {
  kind: 'write' | 'writeImm' | 'read' | 'send' | 'sendImm' | 'sendInv' | 'inline' | 'fetchAdd';
  bytes: number;
  at: number;
  signaled: boolean;
  fault: 'none' | 'address' | 'key';
}

export type MixedStep =
  | { do: 'post'; qp: number; ops: MixedOp[] }
  | { do: 'settle' }
  | { do: 'bind'; qp: number; bytes: number }
  | { do: 'invalidate'; qp: number }
  | { do: 'pause'; qp: number; ops: MixedOp[] }
  | { do: 'resize'; cqe: number }
  | { do: 'limit'; limit: number }
  | { do: 'error'; qp: number };

export interface MixedProgram {
  types: MixedType[];
  srq: boolean;
  sigAll: boolean;
  /** Whether SEND_WITH_INV invalidates only keys of windows. */
  goodKeys: boolean;
  steps: MixedStep[];
}

/** Features that a run leaves out, because one of two providers is known to differ. */
export interface Omit {
  /** Whether to leave out errors that occur locally or at the peer. */
  faults?: boolean;
  /** Whether to leave out errors in the sender's own memory, which are a part of the errors above. */
  localFaults?: boolean;
  windows?: boolean;
  /** Whether to leave out requests beyond the range of a window. */
  windowRanges?: boolean;
  /** Whether to leave out SEND_WITH_INV of keys that the peer does not have. */
  badKeys?: boolean;
  pause?: boolean;
  resize?: boolean;
  srqLimit?: boolean;
}

function opOf(omit: Omit): fc.Arbitrary<MixedOp> {
  const faults = omit.faults
    ? ['none' as const]
    : omit.localFaults
      ? (['none', 'key'] as const)
      : (['none', 'address', 'key'] as const);
  return fc.record({
    kind: fc.constantFrom(
      'write' as const,
      'write' as const,
      'writeImm' as const,
      'read' as const,
      'send' as const,
      'send' as const,
      'sendImm' as const,
      ...(omit.windows ? [] : (['sendInv'] as const)),
      'inline' as const,
      'fetchAdd' as const,
    ),
    bytes: fc.oneof(fc.integer({ min: 0, max: 300 }), fc.integer({ min: 0, max: 6000 })),
    at: fc.double({ min: 0, max: 1, noNaN: true }),
    signaled: fc.boolean(),
    fault: fc.oneof(
      { weight: 30, arbitrary: fc.constant('none' as const) },
      { weight: 1, arbitrary: fc.constantFrom(...faults) },
    ),
  });
}

type Steps = fc.MaybeWeightedArbitrary<MixedStep>[];

/** Wraps steps that a program may leave out: none if `omitted`. */
function unless(omitted: boolean | undefined, ...steps: Steps): Steps {
  return omitted ? [] : steps;
}

/** One step of a program with this many queue pairs. */
function stepOf(omit: Omit, qps: number): fc.Arbitrary<MixedStep> {
  const qp = fc.integer({ min: 0, max: qps - 1 });
  const ops = fc.array(opOf(omit), { minLength: 1, maxLength: 8 });
  const step = <Do extends MixedStep['do']>(
    weight: number,
    what: Do,
    fields: { [K in Exclude<keyof Extract<MixedStep, { do: Do }>, 'do'>]: fc.Arbitrary<unknown> },
  ) => ({
    weight,
    arbitrary: fc.record({ do: fc.constant(what), ...fields }) as unknown as fc.Arbitrary<MixedStep>,
  });
  const windowBytes = fc.integer({ min: omit.windowRanges ? SHARE_BYTES : 1, max: SHARE_BYTES });
  return fc.oneof(
    step(12, 'post', { qp, ops }),
    step(5, 'settle', {}),
    ...unless(omit.windows, step(2, 'bind', { qp, bytes: windowBytes }), step(1, 'invalidate', { qp })),
    ...unless(omit.pause, step(2, 'pause', { qp, ops })),
    ...unless(omit.resize, step(1, 'resize', { cqe: fc.integer({ min: DEPTH * MAX_QPS, max: 600 }) })),
    ...unless(omit.srqLimit, step(1, 'limit', { limit: fc.integer({ min: 0, max: RECVS }) })),
    ...unless(omit.faults, step(1, 'error', { qp })),
  );
}

export function mixedProgram(omit: Omit = {}): fc.Arbitrary<MixedProgram> {
  const type = fc.constantFrom('RC' as const, 'UC' as const, 'UD' as const);
  return fc.array(type, { minLength: 1, maxLength: MAX_QPS }).chain((types) =>
    fc.record({
      types: fc.constant(types),
      srq: fc.boolean(),
      sigAll: fc.boolean(),
      goodKeys: fc.constant(omit.badKeys === true),
      steps: fc.array(stepOf(omit, types.length), { minLength: 1, maxLength: 12 }),
    }),
  );
}

const TYPES: Record<MixedType, number> = { RC: V.IBV_QPT_RC, UC: V.IBV_QPT_UC, UD: V.IBV_QPT_UD };

interface Side {
  context: number;
  pd: number;
  mr: V.MrInfo;
  cq: number;
  srq: number;
  qps: V.QpInfo[];
  /** UD: address handle of the other side. */
  ah: number;
}

interface Window {
  mw: number;
  rkey: number;
  /** Whether the window, as far as the program knows, is bound to a queue pair in RTS. */
  bound: boolean;
}

class Run {
  readonly ground: Ground;
  readonly program: MixedProgram;
  readonly p: V.Provider;
  readonly a: Side;
  readonly b: Side;
  readonly windows: (Window | null)[] = [];
  readonly names = new Map<number, string>();
  readonly trace: Record<string, string[]> = { posts: [] };
  readonly posted: number[];
  /** Whether the queue pair failed, so that the contents of its peer's memory are undefined. */
  failed = false;
  private nextId = 1;

  constructor(program: MixedProgram, interceptors: Interceptor[], ground: Ground) {
    this.program = program;
    this.ground = ground;
    this.p = compose(ground.provider, interceptors);
    this.posted = program.types.map(() => 0);
    this.a = this.open(0);
    this.b = this.open(1);
    for (const side of [this.a, this.b]) side.ah = this.addressOf(side === this.a ? this.b : this.a, side.pd);
    program.types.forEach((type, i) => {
      this.connect(this.a, this.b, i, type);
      this.connect(this.b, this.a, i, type);
      this.names.set(this.a.qps[i].handle, `a${i}`);
      this.names.set(this.b.qps[i].handle, `b${i}`);
      this.windows.push(type === 'RC' && this.usesWindows() ? this.makeWindow() : null);
      if (this.b.srq === 0) this.postRecvs(this.b, this.b.qps[i].handle, i);
    });
    if (this.b.srq !== 0) this.postRecvs(this.b, 0, 0);
  }

  private usesWindows(): boolean {
    return this.program.steps.some((step) => step.do === 'bind');
  }

  private open(which: 0 | 1): Side {
    const { p, program, ground } = this;
    const context = p.openDevice(ground.devices[which]);
    p.watchAsyncEvents(context, (event, element) => {
      const name = this.names.get(element) ?? (element > 255 ? 'srq' : 'port');
      // Nothing orders the events of different objects.
      const list = `events of ${name}`;
      this.trace[list] ??= [];
      this.trace[list].push(V.asyncEventName(event));
    });
    const pd = p.allocPd(context);
    const share = SHARE_BYTES * program.types.length;
    const access = ALL_ACCESS | (this.usesWindows() ? V.IBV_ACCESS_MW_BIND : 0);
    const mr = p.allocMr(pd, share + RECV_BYTES * program.types.length, access);
    const bytes = new Uint8Array(mr.memory, mr.byteOffset, mr.lengthBytes);
    bytes.set(pattern(bytes.length, which));
    const cq = p.createCq(context, 1024, 0).handle;
    const srq = program.srq && which === 1 ? p.createSrq(pd, { maxWr: RECVS, maxSge: 1 }).handle : 0;
    const cap = { maxSendWr: DEPTH, maxSendSge: 2, maxInlineData: INLINE_BYTES };
    const recv = srq === 0 ? { maxRecvWr: RECVS, maxRecvSge: 1 } : { maxRecvWr: 0, maxRecvSge: 0 };
    const qps = program.types.map((type) =>
      p.createQp(pd, {
        qpType: TYPES[type],
        sendCq: cq,
        recvCq: cq,
        cap: { ...cap, ...recv },
        sqSigAll: program.sigAll,
        ...(srq !== 0 && { srq }),
      }),
    );
    return { context, pd, mr, cq, srq, qps, ah: 0 };
  }

  private addressOf(peer: Side, pd: number): number {
    if (!this.program.types.includes('UD')) return 0;
    return this.p.createAh(pd, this.pathTo(peer));
  }

  private pathTo(peer: Side): V.AhAttr {
    const { gidIndex } = this.ground;
    return pathTo(this.p.queryGid(peer.context, 1, gidIndex).gid, gidIndex);
  }

  private connect(side: Side, peer: Side, i: number, type: MixedType): void {
    toRts(this.p, side.qps[i].handle, {
      qpType: TYPES[type],
      qkey: QKEY,
      destQpNum: peer.qps[i].qpNum,
      psn: SQ_PSN,
      ah: this.pathTo(peer),
      timeout: this.ground.timeout,
      retryCnt: 3,
      rnrRetry: 2,
    });
  }

  private makeWindow(): Window {
    const { handle, rkey } = this.p.allocMw(this.b.pd, V.IBV_MW_TYPE_2);
    return { mw: handle, rkey, bound: false };
  }

  private postRecvs(side: Side, qp: number, i: number): void {
    const batch = new V.RecvBatch(this.p, { capacity: RECVS });
    const addr = side.mr.addr + SHARE_BYTES * this.program.types.length + RECV_BYTES * i;
    for (let k = 0; k < RECVS; k++) batch.recv(0xabc00 + i * 256 + k, addr, RECV_BYTES, side.mr.lkey);
    if (qp === 0) this.p.postSrqRecv(side.srq, batch.ring, 0, RECVS);
    else this.p.postRecv(qp, batch.ring, 0, RECVS);
    batch.close();
  }

  /** Adds an operation to a batch, through the window of the peer if there is one. */
  private addOp(batch: V.SendBatch, o: MixedOp, i: number): void {
    const type = this.program.types[i];
    const id = this.nextId++;
    const flags = o.signaled ? V.IBV_SEND_SIGNALED : 0;
    const window = this.windows[i];
    const noKey = this.program.goodKeys && !window?.bound;
    const kind = o.kind === 'sendInv' && noKey ? (type === 'RC' ? 'send' : 'inline') : allowedKind(o, type);
    const bytes = type === 'UD' ? Math.min(o.bytes, MTU) : o.bytes;
    const half = SHARE_BYTES >> 1;
    const into = kind === 'read' || kind === 'fetchAdd' ? half : 0;
    const local = this.a.mr.addr + SHARE_BYTES * i + into + Math.floor(o.at * (half - bytes - 8));
    // A request with a response fails late, when later requests may or may not have been executed.
    const late = kind === 'read' || kind === 'fetchAdd';
    const lkey = o.fault === 'address' && !late ? 0xdead : this.a.mr.lkey;
    const rkey = window?.bound ? window.rkey : this.b.mr.rkey;
    // READs and writing requests use separate halves of the peer's share, because they may overtake each other.
    const from = kind === 'read' ? half : 0;
    const remote = this.b.mr.addr + SHARE_BYTES * i + from + (Math.floor(o.at * (half - bytes - 8)) & ~7);
    const key = o.fault === 'key' ? 0xdead : rkey;
    const index = batch.length;
    if (kind === 'fetchAdd') batch.fetchAdd(id, flags, local, lkey, remote, key, 5n);
    else if (kind === 'inline') {
      batch.inline(id, V.IBV_WR_SEND, flags, new Uint8Array(Math.min(bytes, INLINE_BYTES)).fill(id));
    } else if (kind === 'sendInv') {
      // An earlier READ may still access the memory that this request invalidates.
      batch.sendInv(id, flags | V.IBV_SEND_FENCE, local, bytes, lkey, rkey);
    } else {
      const opcode = OPCODES[kind];
      batch.write(id, flags, local, bytes, lkey, remote, key);
      batch.words[V.slotAt(index) + V.WR_OP] = opcode | (flags << 8) | (1 << 16);
      batch.words[V.slotAt(index) + V.WR_SGE0 + V.SGE_LENGTH] = bytes;
      batch.words[V.slotAt(index) + V.WR_SGE0 + V.SGE_LKEY] = lkey;
      batch.words[V.slotAt(index) + V.WR_SGE0] = local;
      batch.words[V.slotAt(index) + V.WR_SGE0 + 1] = local / 2 ** 32;
      batch.imm(index, id);
    }
    if (type === 'UD') {
      batch.datagramTo(index, o.fault === 'address' ? 0xdead : this.a.ah, this.b.qps[i].qpNum, QKEY);
    }
    if (kind === 'sendInv' && window !== null) window.bound = false;
  }

  post(i: number, ops: readonly MixedOp[]): void {
    const room = Math.max(0, this.ground.strictQueues ? ops.length : DEPTH - this.posted[i]);
    const batch = new V.SendBatch(this.p, { capacity: ops.length, inlineBytes: INLINE_BYTES });
    for (const o of ops.slice(0, room)) this.addOp(batch, o, i);
    this.posted[i] += batch.length;
    const n = this.p.postSend(this.a.qps[i].handle, batch.ring, 0, batch.length);
    const why = n < batch.length ? ` ${batch.errno} ${batch.reason}` : '';
    this.trace.posts.push(`a${i}: ${n}/${batch.length}${why}`);
    // The application may reuse the memory of its requests at once.
    batch.words.fill(0xffffffff, V.HEADER_WORDS);
    batch.close();
  }

  /** BIND_MW of the window at the passive side: a new key, a new range. */
  async bind(i: number, bytes: number): Promise<void> {
    const window = this.windows[i];
    if (window === null) return;
    await this.settle();
    const batch = new V.SendBatch(this.p, { capacity: 1 });
    const rkey = ((window.rkey & ~0xff) | ((window.rkey + 1) & 0xff)) >>> 0;
    const addr = this.b.mr.addr + SHARE_BYTES * i;
    const access = V.IBV_ACCESS_REMOTE_WRITE | V.IBV_ACCESS_REMOTE_READ | V.IBV_ACCESS_REMOTE_ATOMIC;
    batch.bindMw(this.nextId++, V.IBV_SEND_SIGNALED, window.mw, this.b.mr.handle, addr, bytes, access, rkey);
    const n = this.p.postSend(this.b.qps[i].handle, batch.ring, 0, 1);
    this.trace.posts.push(`b${i}: bind ${n}${n === 0 ? ` ${batch.errno} ${batch.reason}` : ''}`);
    batch.close();
    await this.settle();
    if (n === 1) Object.assign(window, { rkey, bound: true });
  }

  async invalidate(i: number): Promise<void> {
    const window = this.windows[i];
    if (window === null || !window.bound) return;
    await this.settle();
    const batch = new V.SendBatch(this.p, { capacity: 1 });
    batch.localInv(this.nextId++, V.IBV_SEND_SIGNALED, window.rkey);
    const n = this.p.postSend(this.b.qps[i].handle, batch.ring, 0, 1);
    this.trace.posts.push(`b${i}: invalidate ${n}${n === 0 ? ` ${batch.errno} ${batch.reason}` : ''}`);
    batch.close();
    await this.settle();
    window.bound = false;
  }

  /** SQD and back: requests posted in between must wait. */
  async pause(i: number, ops: readonly MixedOp[]): Promise<void> {
    await this.settle();
    const qp = this.a.qps[i].handle;
    this.modify(`a${i} to SQD`, qp, { qpState: V.IBV_QPS_SQD });
    this.post(i, ops);
    await this.settle(false);
    this.modify(`a${i} to RTS`, qp, { qpState: V.IBV_QPS_RTS });
    await this.settle();
  }

  async error(i: number): Promise<void> {
    await this.settle();
    this.modify(`a${i} to ERR`, this.a.qps[i].handle, { qpState: V.IBV_QPS_ERR });
  }

  private modify(what: string, qp: number, attr: V.QpAttr): void {
    try {
      this.p.modifyQp(qp, attr, V.maskOf(attr));
      this.trace.posts.push(what);
    } catch (error) {
      if (!(error instanceof V.IsoverbsError)) throw error;
      this.trace.posts.push(`${what}: ${error.code}`);
    }
  }

  resize(cqe: number): void {
    try {
      const granted = this.p.resizeCq(this.a.cq, cqe);
      this.trace.posts.push(`resized to ${this.ground.strictQueues ? granted : granted >= cqe}`);
    } catch (error) {
      if (!(error instanceof V.IsoverbsError)) throw error;
      this.trace.posts.push(`resize: ${error.code}`);
    }
  }

  limit(srqLimit: number): void {
    if (this.b.srq !== 0) this.p.modifySrq(this.b.srq, { srqLimit }, V.IBV_SRQ_LIMIT);
  }

  private pollAll(wcs: V.WcBatch): number {
    let total = 0;
    for (const { cq } of [this.a, this.b]) {
      const n = this.p.pollCq(cq, wcs.ring, 0, wcs.capacity);
      total += n;
      for (let i = 0; i < n; i++) {
        const name = this.names.get(wcs.qp(i)) ?? 'unknown';
        this.trace[name] ??= [];
        this.trace[name].push(describe(wcs, i, this.program.types[Number(name.slice(1))]));
        if (wcs.status(i) !== V.IBV_WC_SUCCESS) this.failed = true;
      }
    }
    return total;
  }

  /** Polls until no more completions arrive; `empties` tells whether the send queues are empty then. */
  async settle(empties = true): Promise<void> {
    const wcs = new V.WcBatch(this.p, { capacity: 64 });
    for (let idle = 0; idle < this.ground.idlePolls; ) {
      await this.ground.run();
      idle = this.pollAll(wcs) === 0 ? idle + 1 : 0;
    }
    wcs.close();
    if (empties) this.posted.fill(0);
  }

  states(): string[] {
    return [this.a, this.b].flatMap(({ qps }) =>
      qps.map(({ handle }) => V.stateName(this.p.queryQp(handle).attr.qpState ?? -1)),
    );
  }

  data(): string {
    if (this.failed) return 'not compared';
    const bytes = SHARE_BYTES * this.program.types.length;
    return [this.a, this.b].map(({ mr }) => digest(mr, bytes)).join(' ');
  }

  close(): void {
    const { p } = this;
    for (const window of this.windows) if (window !== null) p.deallocMw(window.mw);
    for (const side of [this.a, this.b]) {
      for (const { handle } of side.qps) p.destroyQp(handle);
      if (side.ah !== 0) p.destroyAh(side.ah);
      if (side.srq !== 0) p.destroySrq(side.srq);
      p.destroyCq(side.cq);
      p.deregMr(side.mr.handle);
      p.deallocPd(side.pd);
      p.watchAsyncEvents(side.context, null);
      p.closeDevice(side.context);
    }
  }
}

const OPCODES = {
  write: V.IBV_WR_RDMA_WRITE,
  writeImm: V.IBV_WR_RDMA_WRITE_WITH_IMM,
  read: V.IBV_WR_RDMA_READ,
  send: V.IBV_WR_SEND,
  sendImm: V.IBV_WR_SEND_WITH_IMM,
} as const;

/** Mostly a kind of request that the type supports, sometimes one that it must refuse. */
function allowedKind(o: MixedOp, type: MixedType): MixedOp['kind'] {
  if (type === 'RC' || o.at > 0.97) return o.kind;
  if (type === 'UC') {
    if (o.kind === 'read') return 'write';
    return o.kind === 'fetchAdd' || o.kind === 'sendInv' ? 'send' : o.kind;
  }
  return o.kind === 'sendImm' || o.kind === 'writeImm' ? 'sendImm' : o.kind === 'inline' ? 'inline' : 'send';
}

function describe(wcs: V.WcBatch, i: number, type: MixedType): string {
  const recv = wcs.isRecv(i);
  // Which receive of a shared queue a message takes depends on timing.
  const id = wcs.srq(i) !== 0 ? 'srq' : wcs.wrId(i);
  const parts = [recv ? 'recv' : 'send', id, V.wcStatusName(wcs.status(i))];
  if (wcs.status(i) === V.IBV_WC_SUCCESS) {
    const opcode = wcs.opcode(i);
    const flags = wcs.flags(i);
    parts.push(V.wcOpcodeName(opcode));
    if (recv || opcode === V.IBV_WC_RDMA_READ || opcode === V.IBV_WC_FETCH_ADD) parts.push(wcs.byteLen(i));
    // The flag is undefined for sends, where soft-RoCE sets it.
    if (recv && (flags & V.IBV_WC_WITH_IMM) !== 0) parts.push(`imm ${wcs.imm(i)}`);
    if ((flags & V.IBV_WC_WITH_INV) !== 0) parts.push('invalidated');
    // ibv_poll_cq(3) defines it for UD.
    if (type === 'UD' && (flags & V.IBV_WC_GRH) !== 0) parts.push('grh');
  }
  return parts.join(' ');
}

async function runStep(run: Run, step: MixedStep): Promise<void> {
  switch (step.do) {
    case 'post':
      return run.post(step.qp, step.ops);
    case 'settle':
      return run.settle();
    case 'bind':
      return run.bind(step.qp, step.bytes);
    case 'invalidate':
      return run.invalidate(step.qp);
    case 'pause':
      return run.pause(step.qp, step.ops);
    case 'resize':
      return run.resize(step.cqe);
    case 'limit':
      return run.limit(step.limit);
    case 'error':
      return run.error(step.qp);
  }
}

/** Runs a program; returns everything on which the application may rely. */
export async function runMixed(program: MixedProgram, interceptors: Interceptor[], ground: Ground) {
  const run = new Run(program, interceptors, ground);
  for (const step of program.steps) await runStep(run, step);
  await run.settle();
  const seen = { trace: run.trace, states: run.states(), data: run.data() };
  run.close();
  return seen;
}
