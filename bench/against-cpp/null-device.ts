/** Queue pairs on the null device of native/bench, which completes every request at the next poll. */
import * as V from '#src/verbs/index.ts';
import { ROOT } from '../root.ts';

/** The build folder of native/bench. */
export const BUILD = `${ROOT}native/bench/build/Release/`;
/** The null device's library: set ISOVERBS_LIBIBVERBS to it before the addon loads. */
export const LIBRARY = `${BUILD}null_verbs.so`;

export interface NullQp {
  provider: V.Provider;
  context: number;
  pd: number;
  qp: number;
  cq: number;
  send: V.SendBatch;
  wcs: V.WcBatch;
}

export function openNull(provider: V.Provider, options?: V.OpenOptions): NullQp {
  const context = provider.openDevice('null0', options);
  const pd = provider.allocPd(context);
  const cq = provider.createCq(context, 4096, 0).handle;
  const qp = createQp(provider, pd, cq, 2048);
  const send = new V.SendBatch(provider, { capacity: 256 });
  const wcs = new V.WcBatch(provider, { capacity: 256 });
  return { provider, context, pd, qp, cq, send, wcs };
}

/** Creates another queue pair on the same completion queue. */
export function anotherQp({ provider, pd, cq }: NullQp, maxSendWr: number): number {
  return createQp(provider, pd, cq, maxSendWr);
}

function createQp(provider: V.Provider, pd: number, cq: number, maxSendWr: number): number {
  const cap = { maxSendWr, maxRecvWr: 1, maxSendSge: 2, maxRecvSge: 1, maxInlineData: 0 };
  const attr = { qpType: V.IBV_QPT_RC, sendCq: cq, recvCq: cq, cap, sqSigAll: false };
  const qp = provider.createQp(pd, attr).handle;
  toRts(provider, qp);
  return qp;
}

function toRts(provider: V.Provider, qp: number): void {
  const init: V.QpAttr = { qpState: V.IBV_QPS_INIT, pkeyIndex: 0, portNum: 1, qpAccessFlags: 0 };
  provider.modifyQp(qp, init, V.maskOf(init));
  const rtr: V.QpAttr = {
    qpState: V.IBV_QPS_RTR,
    pathMtu: V.IBV_MTU_4096,
    destQpNum: 1,
    rqPsn: 0,
    maxDestRdAtomic: 1,
    minRnrTimer: 12,
    ah: { dlid: 1, portNum: 1 },
  };
  provider.modifyQp(qp, rtr, V.maskOf(rtr));
  const rts: V.QpAttr = {
    qpState: V.IBV_QPS_RTS,
    sqPsn: 0,
    timeout: 14,
    retryCnt: 7,
    rnrRetry: 7,
    maxRdAtomic: 1,
  };
  provider.modifyQp(qp, rts, V.maskOf(rts));
}
