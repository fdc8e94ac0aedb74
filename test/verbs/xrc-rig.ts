/** Shared by the cases with extended reliable connections. */
import * as V from '../../src/verbs/index.ts';
import type { Ground } from './ground.ts';
import { closeEnd, connect, createQp, type End, openEnd, replaceCq } from './rig.ts';

const NO_CAP = { maxSendWr: 0, maxRecvWr: 0, maxSendSge: 0, maxRecvSge: 0, maxInlineData: 0 };

/** The objects of xrcPair. */
export interface Xrc {
  a: End;
  b: End;
  xrcd: number;
  sender: V.QpInfo;
  receiver: V.QpInfo;
  srqs: V.SrqInfo[];
}

/** Deviations of xrcPair from the defaults. */
export interface XrcOptions {
  srqCount?: number;
  mrAccess?: number;
  /** Options of the completion queues of both ends. */
  wcFlags?: number;
  /** Options of the sending half. */
  init?: Partial<V.QpInitAttr>;
}

/** A sending half at `a` connected to a receiving half at `b`, and shared receive queues of `b`. */
export function xrcPair(ground: Ground, options: XrcOptions = {}): Xrc {
  const { srqCount = 1, mrAccess, wcFlags = 0, init } = options;
  const a = openEnd(ground, 0, mrAccess);
  const b = openEnd(ground, 1, mrAccess);
  if (wcFlags !== 0) for (const end of [a, b]) replaceCq(end, { wcFlags });
  const xrcd = b.p.openXrcd(b.context);
  const sender = createQp(a, { qpType: V.IBV_QPT_XRC_SEND, ...init });
  const receiver = b.p.createQp(0, {
    qpType: V.IBV_QPT_XRC_RECV,
    sendCq: 0,
    recvCq: 0,
    cap: NO_CAP,
    xrcd,
    sqSigAll: false,
  });
  const srqs = Array.from({ length: srqCount }, () => xrcSrq(b, xrcd));
  connect(a, sender.handle, b, receiver.qpNum, { qpType: V.IBV_QPT_XRC_SEND, rnrRetry: 7 });
  connect(b, receiver.handle, a, sender.qpNum, { qpType: V.IBV_QPT_XRC_RECV });
  return { a, b, xrcd, sender, receiver, srqs };
}

/** One more shared receive queue of an XRC domain. */
export function xrcSrq(end: End, xrcd: number, pd = end.pd): V.SrqInfo {
  return end.p.createSrq(pd, { maxWr: 16, maxSge: 2, srqType: V.IBV_SRQT_XRC, xrcd, cq: end.cq });
}

/** Closes what xrcPair opened. */
export function closeXrc({ a, b, xrcd, sender, receiver, srqs }: Xrc): void {
  a.p.destroyQp(sender.handle);
  b.p.destroyQp(receiver.handle);
  for (const { handle } of srqs) b.p.destroySrq(handle);
  b.p.closeXrcd(xrcd);
  closeEnd(a);
  closeEnd(b);
}
