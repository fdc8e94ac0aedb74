/** Shared by the cases of the verbs suite: an open device with the usual objects, and connected queue pairs. */
import * as V from '../../src/verbs/index.ts';
import { initAttr, pathTo, rtrAttr, rtsAttr } from '../support/to-rts.ts';
import { completions, type Ground } from './ground.ts';

export const ACCESS =
  V.IBV_ACCESS_LOCAL_WRITE |
  V.IBV_ACCESS_REMOTE_WRITE |
  V.IBV_ACCESS_REMOTE_READ |
  V.IBV_ACCESS_REMOTE_ATOMIC;

export const CAP: V.QpCap = { maxSendWr: 64, maxRecvWr: 64, maxSendSge: 4, maxRecvSge: 4, maxInlineData: 0 };

export const QKEY = 0x11111111;

/** One side: an open device, a protection domain, a completion queue and memory with all remote access rights. */
export interface End {
  ground: Ground;
  p: V.Provider;
  context: number;
  pd: number;
  cq: number;
  mr: V.MrInfo;
  bytes: Uint8Array;
  gid: string;
}

export function openEnd(ground: Ground, which: 0 | 1, access = ACCESS, lengthBytes = 1 << 16): End {
  const p = ground.provider;
  const context = p.openDevice(ground.devices[which]);
  const pd = p.allocPd(context);
  const cq = p.createCq(context, 256, 0).handle;
  const mr = p.allocMr(pd, lengthBytes, access);
  const { gid } = p.queryGid(context, 1, ground.gidIndex);
  return {
    ground,
    p,
    context,
    pd,
    cq,
    mr,
    bytes: new Uint8Array(mr.memory, mr.byteOffset, lengthBytes),
    gid,
  };
}

/** Closes the objects of openEnd; the case must have closed queue pairs and other objects before. */
export function closeEnd(end: End): void {
  const { p } = end;
  p.destroyCq(end.cq);
  p.deregMr(end.mr.handle);
  p.deallocPd(end.pd);
  p.closeDevice(end.context);
}

/** Gives an end another completion queue; call it before creating queue pairs. */
export function replaceCq(end: End, options: V.CqOptions, cqe = 256): void {
  end.p.destroyCq(end.cq);
  end.cq = end.p.createCq(end.context, cqe, 0, options).handle;
}

export function createQp(end: End, init: Partial<V.QpInitAttr> = {}): V.QpInfo {
  const { pd, cq, p } = end;
  return p.createQp(pd, { qpType: V.IBV_QPT_RC, sendCq: cq, recvCq: cq, cap: CAP, sqSigAll: false, ...init });
}

export function modify(end: End, qp: number, attr: V.QpAttr): void {
  end.p.modifyQp(qp, attr, V.maskOf(attr));
}

export function toInit(end: End, qp: number, qpType = V.IBV_QPT_RC, access = ACCESS): void {
  modify(end, qp, initAttr({ qpType, qpAccessFlags: access, qkey: QKEY }));
}

export interface ConnectOptions {
  qpType?: number;
  access?: number;
  mtu?: number;
  timeout?: number;
  retryCnt?: number;
  rnrRetry?: number;
}

/** RESET -> RTS, towards `qpNum` of `peer` (for UD: without a destination). */
export function connect(
  end: End,
  qp: number,
  peer: End,
  destQpNum: number,
  options: ConnectOptions = {},
): void {
  const { qpType = V.IBV_QPT_RC, mtu = V.IBV_MTU_1024, timeout = 14, retryCnt = 6, rnrRetry = 6 } = options;
  toInit(end, qp, qpType, options.access);
  modify(end, qp, rtrAttrTo(end, qpType, peer, destQpNum, mtu));
  modify(end, qp, rtsAttr({ qpType, psn: 1, timeout, retryCnt, rnrRetry }));
}

/** The attributes that take a queue pair from INIT to RTR. */
export function rtrAttrTo(
  end: End,
  qpType: number,
  peer: End,
  destQpNum: number,
  pathMtu = V.IBV_MTU_1024,
): V.QpAttr {
  return rtrAttr({ qpType, destQpNum, ah: pathTo(peer.gid, end.ground.gidIndex), pathMtu, psn: 1 });
}

/** Two ends with one connected queue pair each. */
export interface Pair {
  a: End;
  b: End;
  qpA: V.QpInfo;
  qpB: V.QpInfo;
}

export function connectedPair(
  ground: Ground,
  options: ConnectOptions & { init?: Partial<V.QpInitAttr>; mrAccess?: number } = {},
): Pair {
  const a = openEnd(ground, 0, options.mrAccess);
  const b = openEnd(ground, 1, options.mrAccess);
  const init = { qpType: options.qpType ?? V.IBV_QPT_RC, ...options.init };
  const qpA = createQp(a, init);
  const qpB = createQp(b, init);
  connect(a, qpA.handle, b, qpB.qpNum, options);
  connect(b, qpB.handle, a, qpA.qpNum, options);
  return { a, b, qpA, qpB };
}

/** One more connection between the ends of a pair. */
export function connectedAgain(
  { a, b }: Pair,
  options: ConnectOptions = {},
): { qpA: V.QpInfo; qpB: V.QpInfo } {
  const init = { qpType: options.qpType ?? V.IBV_QPT_RC };
  const [qpA, qpB] = [createQp(a, init), createQp(b, init)];
  connect(a, qpA.handle, b, qpB.qpNum, options);
  connect(b, qpB.handle, a, qpA.qpNum, options);
  return { qpA, qpB };
}

export function closePair({ a, b, qpA, qpB }: Pair): void {
  a.p.destroyQp(qpA.handle);
  b.p.destroyQp(qpB.handle);
  closeEnd(a);
  closeEnd(b);
}

/** Posts the requests of `fill`, all of which must be accepted. */
export function postSend(end: End, qp: number, fill: (batch: V.SendBatch) => void): void {
  const batch = new V.SendBatch(end.p, { capacity: 32, sges: 4, inlineBytes: 64 });
  fill(batch);
  const posted = end.p.postSend(qp, batch.ring, 0, batch.length);
  const { errno, reason, length } = batch;
  batch.close();
  if (posted !== length)
    throw new Error(`posted ${posted} of ${length}: errno ${errno}, ${V.REASON_TEXT[reason]}`);
}

/** Posts one receive of `lengthBytes` at `offset` of the end's memory. */
export function postRecv(end: End, qp: number, wrId: number, offset: number, lengthBytes: number): void {
  const batch = new V.RecvBatch(end.p, { capacity: 1 });
  batch.recv(wrId, end.mr.addr + offset, lengthBytes, end.mr.lkey);
  const posted = end.p.postRecv(qp, batch.ring, 0, 1);
  const { errno, reason } = batch;
  batch.close();
  if (posted !== 1) throw new Error(`the receive was refused: errno ${errno}, ${V.REASON_TEXT[reason]}`);
}

/** The same for a shared receive queue. */
export function postShared(end: End, srq: number, wrId: number, offset: number, lengthBytes: number): void {
  const batch = new V.RecvBatch(end.p, { capacity: 1 });
  batch.recv(wrId, end.mr.addr + offset, lengthBytes, end.mr.lkey);
  const posted = end.p.postSrqRecv(srq, batch.ring, 0, 1);
  const { errno, reason } = batch;
  batch.close();
  if (posted !== 1) throw new Error(`the receive was refused: errno ${errno}, ${V.REASON_TEXT[reason]}`);
}

/** The REASON_* for which posting the requests of `fill` is rejected; 0 if they are accepted. */
export function refusal(end: End, qp: number, fill: (batch: V.SendBatch) => void): number {
  const batch = new V.SendBatch(end.p, { capacity: 32, sges: 4, inlineBytes: 64 });
  fill(batch);
  end.p.postSend(qp, batch.ring, 0, batch.length);
  const { reason } = batch;
  batch.close();
  return reason;
}

/** Lets enough time pass for an unwanted effect to show. */
export async function pass(ground: Ground, turns = 30): Promise<void> {
  for (let i = 0; i < turns; i++) await ground.turn();
}

/** Collects the asynchronous events of an end's context. */
export function eventsOf(end: End): { event: number; element: number }[] {
  const heard: { event: number; element: number }[] = [];
  end.p.watchAsyncEvents(end.context, (event, element) => heard.push({ event, element }));
  return heard;
}

/** An address handle of `end` that leads to `peer`. */
export function addressHandle(end: End, peer: End, attr: Partial<V.AhAttr> = {}): number {
  const { gidIndex } = end.ground;
  return end.p.createAh(end.pd, {
    dgid: peer.gid,
    sgidIndex: gidIndex,
    portNum: 1,
    hopLimit: 64,
    ...attr,
  });
}

/** The fields of a completion that a case compares. */
export interface Wc {
  wrId: number;
  status: string;
  opcode: string;
  byteLen: number;
  flags: number;
  imm: number;
  qpNum: number;
  srcQp: number;
  srq: number;
}

/** Waits for `count` completions and reads them. */
export async function polled(end: End, count: number, cq = end.cq): Promise<Wc[]> {
  const wcs = await completions(end.ground, cq, count);
  const read = Array.from({ length: wcs.length }, (_, i) => ({
    wrId: wcs.wrId(i),
    status: V.wcStatusName(wcs.status(i)),
    opcode: V.wcOpcodeName(wcs.opcode(i)),
    byteLen: wcs.byteLen(i),
    flags: wcs.flags(i),
    imm: wcs.imm(i),
    qpNum: wcs.qpNum(i),
    srcQp: wcs.srcQp(i),
    srq: wcs.srq(i),
  }));
  wcs.close();
  return read;
}
