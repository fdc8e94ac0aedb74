/**
 * Random programs of verbs, run on a provider with or without interceptors. The trace of a run is what the application
 * sees (return codes, completions in order, data); a shim must not change it.
 */
import fc from 'fast-check';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';
import { ALL_ACCESS, pathTo, toRts } from '../support/to-rts.ts';
import { digest, pattern } from './bytes.ts';

export const DEPTH = 16;
export const SGES = 4;
const INLINE_BYTES = 64;
const MAX_QPS = 8;
const RECV_BYTES = 1 << 15;
/** Memory that each queue pair reads and writes. */
const SHARE_BYTES = 1 << 16;
const regionBytes = (qps: number) => qps * (SHARE_BYTES + RECV_BYTES);
const RECVS = 64;

export interface Op {
  kind: 'write' | 'read' | 'send' | 'sendImm' | 'writeImm' | 'fetchAdd' | 'compareSwap' | 'inline';
  /** Length of each SGE. */
  sges: number[];
  /** Offsets in the regions, as fractions. */
  local: number;
  remote: number;
  flags: number;
  fault: 'none' | 'rkey' | 'lkey' | 'range' | 'sges';
}

export type Step =
  | { do: 'post'; qp: number; ops: Op[] }
  | { do: 'settle' }
  | { do: 'advance'; ns: number }
  | { do: 'error'; qp: number }
  | { do: 'reset'; qp: number };

export interface Program {
  qps: number;
  sigAll: boolean;
  sharedCq: boolean;
  steps: Step[];
}

const TWO_SIDED = ['send', 'sendImm', 'writeImm'] as const;
/** Recorded runs depend on their order. */
const KINDS = [
  ...(['write', 'write', 'write', 'read', 'read'] as const),
  ...TWO_SIDED,
  ...(['fetchAdd', 'compareSwap', 'inline'] as const),
];
const ONE_SIDED = KINDS.filter((kind) => !TWO_SIDED.some((other) => other === kind));

const opOf = (kinds: readonly Op['kind'][]): fc.Arbitrary<Op> =>
  fc.record({
    kind: fc.constantFrom(...kinds),
    sges: fc.array(fc.oneof(fc.integer({ min: 0, max: 300 }), fc.integer({ min: 0, max: 7000 })), {
      minLength: 0,
      maxLength: SGES,
    }),
    local: fc.double({ min: 0, max: 1, noNaN: true }),
    remote: fc.double({ min: 0, max: 1, noNaN: true }),
    flags: fc.constantFrom(
      V.IBV_SEND_SIGNALED,
      V.IBV_SEND_SIGNALED,
      0,
      V.IBV_SEND_SIGNALED | V.IBV_SEND_FENCE,
    ),
    fault: fc.oneof(
      { weight: 30, arbitrary: fc.constant('none' as const) },
      {
        weight: 1,
        arbitrary: fc.constantFrom('rkey' as const, 'lkey' as const, 'range' as const, 'sges' as const),
      },
    ),
  });

/** Programs with at least `least` queue pairs and these kinds of requests. */
const programs = (least: number, kinds: readonly Op['kind'][]): fc.Arbitrary<Program> =>
  fc.integer({ min: least, max: MAX_QPS }).chain((qps) => {
    const qp = fc.integer({ min: 0, max: qps - 1 });
    const step: fc.Arbitrary<Step> = fc.oneof(
      {
        weight: 16,
        arbitrary: fc.record({
          do: fc.constant('post' as const),
          qp,
          ops: fc.array(opOf(kinds), { minLength: 1, maxLength: 20 }),
        }),
      },
      { weight: 6, arbitrary: fc.record({ do: fc.constant('settle' as const) }) },
      {
        weight: 4,
        arbitrary: fc.record({
          do: fc.constant('advance' as const),
          ns: fc.integer({ min: 0, max: 20_000 }),
        }),
      },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('error' as const), qp }) },
      { weight: 1, arbitrary: fc.record({ do: fc.constant('reset' as const), qp }) },
    );
    return fc.record({
      qps: fc.constant(qps),
      sigAll: fc.boolean(),
      sharedCq: fc.boolean(),
      steps: fc.array(step, { minLength: 1, maxLength: 12 }),
    });
  });

export const program = programs(1, KINDS);
/** Of several queue pairs, without messages that take a receive; and with few of them. */
export const oneSidedProgram = programs(2, ONE_SIDED);
export const mostlyOneSidedProgram = programs(2, [
  ...ONE_SIDED,
  ...ONE_SIDED,
  ...ONE_SIDED,
  'send',
  'writeImm',
]);

interface End {
  context: number;
  pd: number;
  mr: V.MrInfo;
  cqs: number[];
  qps: number[];
}

/** Where programs run: two devices that reach each other, and their time. */
export interface Ground {
  provider: V.Provider;
  devices: readonly [string, string];
  gidIndex: number;
  /** Whether a full send queue refuses exactly the requests beyond its depth; if not, programs never fill it. */
  strictQueues: boolean;
  /** Polls in a row that find nothing before a program counts as settled. */
  idlePolls: number;
  /** Running numbers of the first send and of the first receive; default 0. */
  first?: { send: number; recv: number };
  /** The maximum number of polls to wait for signaled sends; 0 if `run` leaves none in flight. */
  patientPolls: number;
  /** The timeout of the connections of programs over all verbs, as ibv_modify_qp takes it; default that of toRts(). */
  timeout?: number;
  /** Lets all pending events happen. */
  run(): Promise<void>;
  advance(ns: number): Promise<void>;
}

interface World {
  ground: Ground;
  provider: V.Provider;
  /** By QP: requests posted since the QP was last settled. */
  posted: number[];
  /** Ids of signaled sends, by QP. */
  reporting: Set<string>[];
  a: End;
  b: End;
  /** By QP handle: 'a0', 'b2' ... */
  names: Map<number, string>;
  nextId: number;
  trace: Record<string, string[]>;
  /** Whether a request failed. Byte ranges that it may have touched are not compared. */
  failed: boolean;
}

const CAP = {
  maxSendWr: DEPTH,
  maxRecvWr: RECVS,
  maxSendSge: SGES,
  maxRecvSge: 1,
  maxInlineData: INLINE_BYTES,
};

function openEnd(p: V.Provider, device: string, program: Program): End {
  const context = p.openDevice(device);
  const pd = p.allocPd(context);
  const lengthBytes = regionBytes(program.qps);
  const mr = p.allocMr(pd, lengthBytes, ALL_ACCESS);
  const salt = device.length + device.charCodeAt(3);
  new Uint8Array(mr.memory, mr.byteOffset, lengthBytes).set(pattern(lengthBytes, salt));
  const cqCount = program.sharedCq ? 1 : program.qps;
  const cqs = Array.from({ length: cqCount }, () => p.createCq(context, 1024, 0).handle);
  const qps = Array.from({ length: program.qps }, (_, i) => {
    const cq = cqs[i % cqs.length];
    const attr = { qpType: V.IBV_QPT_RC, sendCq: cq, recvCq: cq, cap: CAP, sqSigAll: program.sigAll };
    return p.createQp(pd, attr).handle;
  });
  return { context, pd, mr, cqs, qps };
}

function connectQp(p: V.Provider, qp: number, peer: number, dgid: string, sgidIndex: number): void {
  toRts(p, qp, {
    pathMtu: V.IBV_MTU_4096,
    destQpNum: peer,
    psn: 7,
    ah: pathTo(dgid, sgidIndex),
    retryCnt: 3,
    rnrRetry: 2,
  });
}

function postRecvs(w: World, end: End, i: number): void {
  const batch = new V.RecvBatch(w.provider, { capacity: RECVS });
  for (let k = 0; k < RECVS; k++) {
    batch.recv(
      0xabc0000 + k,
      end.mr.addr + end.qps.length * SHARE_BYTES + i * RECV_BYTES,
      RECV_BYTES,
      end.mr.lkey,
    );
  }
  w.provider.postRecv(end.qps[i], batch.ring, 0, RECVS);
  batch.close();
}

const numbers = new Map<number, number>();

function build(program: Program, interceptors: Interceptor[], ground: Ground): World {
  numbers.clear();
  const remember: Interceptor = {
    name: 'remember',
    wrap: (next) => ({
      createQp(pd, attr) {
        const info = next.createQp(pd, attr);
        numbers.set(info.handle, info.qpNum);
        return info;
      },
    }),
  };
  const provider = compose(ground.provider, [remember, ...interceptors]);
  const a = openEnd(provider, ground.devices[0], program);
  const b = openEnd(provider, ground.devices[1], program);
  const posted = new Array<number>(program.qps).fill(0);
  const reporting = posted.map(() => new Set<string>());
  const trace = { posts: [] };
  const names = new Map();
  const w: World = { ground, provider, posted, reporting, a, b, names, nextId: 1, trace, failed: false };
  for (let i = 0; i < program.qps; i++) connectPair(w, i);
  return w;
}

function connectPair(w: World, i: number): void {
  const { a, b, provider: p } = w;
  const { gidIndex } = w.ground;
  connectQp(p, a.qps[i], numbers.get(b.qps[i]) ?? 0, p.queryGid(b.context, 1, gidIndex).gid, gidIndex);
  connectQp(p, b.qps[i], numbers.get(a.qps[i]) ?? 0, p.queryGid(a.context, 1, gidIndex).gid, gidIndex);
  w.names.set(a.qps[i], `a${i}`);
  w.names.set(b.qps[i], `b${i}`);
  postRecvs(w, b, i);
}

function closeEnd(p: V.Provider, end: End): void {
  for (const qp of end.qps) p.destroyQp(qp);
  for (const cq of end.cqs) p.destroyCq(cq);
  p.deregMr(end.mr.handle);
  p.deallocPd(end.pd);
  p.closeDevice(end.context);
}

function addSges(batch: V.SendBatch, index: number, o: Op, mr: V.MrInfo, share: number): number {
  const total = o.sges.reduce((sum, n) => sum + n, 0);
  let addr = mr.addr + Math.floor(o.local * (share - total - 64));
  // A READ fails late, when later requests may or may not have been executed.
  const lkey = o.fault === 'lkey' && o.kind !== 'read' ? 0xdead : mr.lkey;
  for (const bytes of o.sges) {
    batch.sge(index, addr, bytes, lkey);
    addr += bytes;
  }
  if (o.fault === 'sges') for (let i = o.sges.length; i <= SGES; i++) batch.sge(index, mr.addr, 1, mr.lkey);
  return total;
}

/**
 * Each QP has its own share of both regions, with one half for READs and the other for requests in the other direction. A
 * WRITE behind a READ without a fence may overtake it: such races are undefined, and not compared.
 */
function addOp(w: World, batch: V.SendBatch, o: Op, qp: number, qps: number): void {
  const share = SHARE_BYTES;
  const half = (share >> 1) & ~63;
  const lands = o.kind === 'read' || o.kind === 'fetchAdd' || o.kind === 'compareSwap';
  const { a, b } = w;
  const id = w.nextId++;
  const base = qp * share;
  const local = { ...a.mr, addr: a.mr.addr + base + (lands ? half : 0) };
  const total = o.sges.reduce((sum, n) => sum + n, 0);
  const rkey = o.fault === 'rkey' ? 0xdead : b.mr.rkey;
  const at = Math.floor(o.remote * (half - total - 64)) + (o.kind === 'read' ? half : 0);
  const remote = o.fault === 'range' ? b.mr.addr + regionBytes(qps) - 8 + base : b.mr.addr + base + at;
  const index = batch.length;
  if (o.kind === 'fetchAdd' || o.kind === 'compareSwap') {
    const target = b.mr.addr + base + (at & ~7);
    if (o.kind === 'fetchAdd') batch.fetchAdd(id, o.flags, local.addr, local.lkey, target, rkey, 5n);
    else batch.compareSwap(id, o.flags, local.addr + 8, local.lkey, target, rkey, 3n, 9n);
    return;
  }
  if (o.kind === 'inline') {
    const data = new Uint8Array(Math.min(total, INLINE_BYTES)).fill(id & 255);
    batch.inline(id, V.IBV_WR_RDMA_WRITE, o.flags, data).remoteTo(index, remote, b.mr.rkey);
    return;
  }
  const opcodes = {
    write: V.IBV_WR_RDMA_WRITE,
    read: V.IBV_WR_RDMA_READ,
    send: V.IBV_WR_SEND,
    sendImm: V.IBV_WR_SEND_WITH_IMM,
    writeImm: V.IBV_WR_RDMA_WRITE_WITH_IMM,
  };
  batch.write(id, o.flags, 0, 0, 0, remote, rkey);
  batch.words[V.slotAt(index) + V.WR_OP] = opcodes[o.kind] | (o.flags << 8);
  batch.imm(index, id);
  addSges(batch, index, o, local, half);
}

function post(w: World, step: Extract<Step, { do: 'post' }>, { qps, sigAll }: Program): void {
  const batch = new V.SendBatch(w.provider, {
    capacity: step.ops.length,
    sges: SGES + 1,
    inlineBytes: INLINE_BYTES,
  });
  const room = w.ground.strictQueues ? step.ops.length : DEPTH - w.posted[step.qp];
  for (const o of step.ops.slice(0, room)) addOp(w, batch, o, step.qp, qps);
  w.posted[step.qp] += batch.length;
  const n = w.provider.postSend(w.a.qps[step.qp], batch.ring, 0, batch.length);
  for (let i = 0; i < n; i++) {
    const isSignaled = sigAll || (step.ops[i].flags & V.IBV_SEND_SIGNALED) !== 0;
    if (isSignaled) w.reporting[step.qp].add(`${w.nextId - batch.length + i}`);
  }
  w.trace.posts.push(`${n}/${batch.length} ${n < batch.length ? `${batch.errno} ${batch.reason}` : ''}`);
  // The application may reuse the memory of its requests at once.
  batch.words.fill(0xffffffff, V.HEADER_WORDS);
  batch.close();
}

function describe(wcs: V.WcBatch, i: number, first = { send: 0, recv: 0 }): string {
  const recv = wcs.isRecv(i);
  const number = (wcs.words[V.slotAt(i) + V.WC_SEQ] - (recv ? first.recv : first.send)) | 0;
  const parts = [recv ? 'recv' : 'send', `#${number}`, wcs.wrId(i), V.wcStatusName(wcs.status(i))];
  if (wcs.status(i) === V.IBV_WC_SUCCESS) {
    const opcode = wcs.opcode(i);
    parts.push(V.wcOpcodeName(opcode));
    // ibv_poll_cq(3): byte_len is defined for receives, READs and atomics.
    if (recv || opcode === V.IBV_WC_RDMA_READ || opcode === V.IBV_WC_FETCH_ADD) parts.push(wcs.byteLen(i));
    if ((wcs.flags(i) & V.IBV_WC_WITH_IMM) !== 0) parts.push(`imm ${wcs.imm(i)}`);
  }
  return parts.join(' ');
}

function pollAll(w: World, wcs: V.WcBatch): number {
  let total = 0;
  for (const cq of [...w.a.cqs, ...w.b.cqs]) {
    const n = w.provider.pollCq(cq, wcs.ring, 0, wcs.capacity);
    total += n;
    for (let i = 0; i < n; i++) {
      const name = w.names.get(wcs.qp(i)) ?? 'unknown';
      w.trace[name] ??= [];
      w.trace[name].push(describe(wcs, i, w.ground.first));
      if (!wcs.isRecv(i)) w.reporting[Number(name.slice(1))]?.delete(`${wcs.wrId(i)}`);
      if (wcs.status(i) !== V.IBV_WC_SUCCESS) w.failed = true;
    }
  }
  return total;
}

async function settle(w: World, wcs: V.WcBatch): Promise<void> {
  const { idlePolls, patientPolls } = w.ground;
  const isReporting = () => w.reporting.some(({ size }) => size > 0);
  let polls = 0;
  for (let idle = 0; idle < idlePolls || (polls < patientPolls && isReporting()); polls++) {
    await w.ground.run();
    idle = pollAll(w, wcs) === 0 ? idle + 1 : 0;
  }
  if (patientPolls > 0 && polls >= patientPolls) noteStuck(w);
  w.posted.fill(0);
}

/** Adds to the trace how far the device has got with requests that do not complete: all QPs begin with PSN 7. */
function noteStuck({ provider, a, b, reporting, trace }: World): void {
  reporting.forEach(({ size }, i) => {
    if (size === 0) return;
    const states = [a, b].map(({ qps }) => {
      const { attr } = provider.queryQp(qps[i]);
      return `state ${attr.qpState}, SQ PSN ${attr.sqPsn}, RQ PSN ${attr.rqPsn}`;
    });
    trace[`${size} stuck ${i}`] = states;
  });
}

/** Runs a program; its trace is everything on which the application may rely. */
export async function runProgram(program: Program, interceptors: Interceptor[], ground: Ground) {
  const w = build(program, interceptors, ground);
  const wcs = new V.WcBatch(w.provider, { capacity: 64 });
  for (const step of program.steps) {
    if (step.do === 'post') post(w, step, program);
    else if (step.do === 'settle') await settle(w, wcs);
    else if (step.do === 'advance') await ground.advance(step.ns);
    else if (step.do === 'error') {
      await settle(w, wcs);
      w.provider.modifyQp(w.a.qps[step.qp], { qpState: V.IBV_QPS_ERR }, V.IBV_QP_STATE);
    } else {
      await settle(w, wcs);
      for (const end of [w.a, w.b]) {
        w.provider.modifyQp(end.qps[step.qp], { qpState: V.IBV_QPS_RESET }, V.IBV_QP_STATE);
      }
      w.reporting[step.qp].clear();
      connectPair(w, step.qp);
    }
  }
  await settle(w, wcs);
  const data = w.failed ? 'not compared' : [w.a, w.b].map(({ mr }) => digest(mr, mr.lengthBytes)).join(' ');
  // A device may grant more than was requested; a shim need not report that.
  const caps = w.a.qps.map((qp) => {
    const { cap } = w.provider.queryQp(qp).init;
    return ground.strictQueues ? cap : cap.maxSendWr >= DEPTH;
  });
  for (const end of [w.a, w.b]) closeEnd(w.provider, end);
  wcs.close();
  return { trace: w.trace, data, caps };
}
