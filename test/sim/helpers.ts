/** Two connected queue pairs on a fabric, at the level of verbs. */
import { createFabric, type Fabric, type FabricOptions } from '../../src/providers/sim/index.ts';
import * as V from '../../src/verbs/index.ts';
import { initAttr, rtrAttr, rtsAttr } from '../support/to-rts.ts';

export const ALL_ACCESS =
  V.IBV_ACCESS_LOCAL_WRITE |
  V.IBV_ACCESS_REMOTE_WRITE |
  V.IBV_ACCESS_REMOTE_READ |
  V.IBV_ACCESS_REMOTE_ATOMIC;

export interface EndOptions {
  cap?: Partial<V.QpCap>;
  cqe?: number;
  bytes?: number;
  access?: number;
  qpAccess?: number;
  sqSigAll?: boolean;
  managed?: boolean;
  pathMtu?: number;
  timeout?: number;
  retryCnt?: number;
  rnrRetry?: number;
  minRnrTimer?: number;
  maxRdAtomic?: number;
  maxDestRdAtomic?: number;
  psn?: number;
  /** Whether the send CQ has a completion channel. */
  event?: boolean;
  /** Service level of its packets. */
  sl?: number;
}

/** One end: a context with a PD, a memory region, CQs for sends and receives, and a queue pair. */
export interface End {
  v: V.Provider;
  context: number;
  pd: number;
  mr: V.MrInfo;
  bytes: Uint8Array;
  channel: number;
  sendCq: number;
  recvCq: number;
  qp: number;
  qpNum: number;
  send: V.SendBatch;
  recv: V.RecvBatch;
  wc: V.WcBatch;
  o: EndOptions;
}

export function makeEnd(fabric: Fabric, host: number, o: EndOptions = {}): End {
  const v = fabric.provider;
  const context = v.openDevice(`sim${host}`);
  const pd = v.allocPd(context);
  const mr = v.allocMr(pd, o.bytes ?? 65536, o.access ?? ALL_ACCESS);
  const channel = o.event === true ? v.createCompChannel(context) : 0;
  const sendCq = v.createCq(context, o.cqe ?? 256, channel).handle;
  const recvCq = v.createCq(context, o.cqe ?? 256, 0).handle;
  const cap = { maxSendWr: 64, maxRecvWr: 64, maxSendSge: 4, maxRecvSge: 4, maxInlineData: 128, ...o.cap };
  const { sqSigAll = false, managed = false } = o;
  const { handle, qpNum } = v.createQp(pd, { qpType: V.IBV_QPT_RC, sendCq, recvCq, cap, sqSigAll, managed });
  const send = new V.SendBatch(v, { capacity: 256, sges: 8, inlineBytes: 256 });
  const recv = new V.RecvBatch(v, { capacity: 256, sges: 8 });
  const wc = new V.WcBatch(v, { capacity: 256 });
  const bytes = new Uint8Array(mr.memory);
  return { v, context, pd, mr, bytes, channel, sendCq, recvCq, qp: handle, qpNum, send, recv, wc, o };
}

export function modify(end: End, attr: V.QpAttr): void {
  end.v.modifyQp(end.qp, attr, V.maskOf(attr));
}

export function toInit(end: End): void {
  modify(end, initAttr({ qpAccessFlags: end.o.qpAccess ?? ALL_ACCESS }));
}

export function toRtr(end: End, peer: End): void {
  const { pathMtu = V.IBV_MTU_4096, minRnrTimer = 1, maxDestRdAtomic = 16, sl = 0 } = end.o;
  const ah = { dgid: peer.v.queryGid(peer.context, 1, 0).gid, portNum: 1, sgidIndex: 0, sl };
  const rqPsn = peer.o.psn ?? 0;
  modify(end, rtrAttr({ pathMtu, destQpNum: peer.qpNum, rqPsn, maxDestRdAtomic, minRnrTimer, ah }));
}

export function toRts(end: End): void {
  const { timeout = 8, retryCnt = 7, rnrRetry = 7, maxRdAtomic = 16, psn = 0 } = end.o;
  modify(end, rtsAttr({ timeout, retryCnt, rnrRetry, maxRdAtomic, sqPsn: psn }));
}

export function connect(a: End, b: End): void {
  for (const end of [a, b]) toInit(end);
  toRtr(a, b);
  if (b !== a) toRtr(b, a);
  for (const end of new Set([a, b])) toRts(end);
}

/** A fabric of two hosts with one connected queue pair on each. */
export function pair(fabric: FabricOptions = {}, a: EndOptions = {}, b: EndOptions = a): [End, End, Fabric] {
  const f = createFabric({ autoAdvance: false, ...fabric });
  const ends: [End, End] = [makeEnd(f, 0, a), makeEnd(f, 1, b)];
  connect(...ends);
  return [...ends, f];
}

/** Posts the whole send batch and empties it. Returns how many requests were accepted. */
export function post(end: End): number {
  const n = end.v.postSend(end.qp, end.send.ring, 0, end.send.length);
  end.send.clear();
  return n;
}

export function postRecv(end: End): number {
  const n = end.v.postRecv(end.qp, end.recv.ring, 0, end.recv.length);
  end.recv.clear();
  return n;
}

export interface Wc {
  wrId: number;
  status: string;
  opcode: string;
  byteLen: number;
  imm: number | null;
  recv: boolean;
  seq: number;
}

/** Runs the simulation to its end and returns the contents of a CQ. */
export function drain(fabric: Fabric, end: End, cq: number = end.sendCq): Wc[] {
  fabric.simulation.run();
  return take(end, cq);
}

/** The current contents of a CQ. (A poll that finds nothing advances time by 25 ns.) */
export function take(end: End, cq: number = end.sendCq): Wc[] {
  const { wc } = end;
  const n = end.v.pollCq(cq, wc.ring, 0, wc.capacity);
  return Array.from({ length: n }, (_, i) => ({
    wrId: wc.wrId(i),
    status: V.wcStatusName(wc.status(i)),
    opcode: V.wcOpcodeName(wc.opcode(i)),
    byteLen: wc.byteLen(i),
    imm: (wc.flags(i) & V.IBV_WC_WITH_IMM) !== 0 ? wc.imm(i) : null,
    recv: wc.isRecv(i),
    seq: wc.words[V.slotAt(i) + V.WC_SEQ],
  }));
}

/** Fills with a pattern without repetitions. */
export function fill(bytes: Uint8Array, from: number, length: number, salt = 1): void {
  for (let i = 0; i < length; i++) bytes[from + i] = (i * 31 + (i >> 8) * 7 + salt) & 255;
}

export const { IBV_SEND_SIGNALED: SIGNALED } = V;
