// @ts-nocheck: runs against dist, which a type check must not need.
/** Helpers that the child processes share: the built package, and a queue pair connected to itself. */
import { createRdmaCoreProvider } from '../../../dist/providers/rdma-core/index.js';
import * as V from '../../../dist/verbs/index.js';

export { V };
export const p = createRdmaCoreProvider();

const name = process.env.RXE_DEV ?? p.getDeviceList()[0].name;
const ACCESS = 15;

const modify = (qp, attr) => p.modifyQp(qp, attr, V.maskOf(attr));

export function connectToItself(context, qp, qpNum) {
  let sgidIndex = 0;
  for (let i = 0; i < 4; i++) if (p.queryGid(context, 1, i).gid.startsWith('::ffff:')) sgidIndex = i;
  modify(qp, { qpState: 1, pkeyIndex: 0, portNum: 1, qpAccessFlags: ACCESS });
  const ah = { dgid: p.queryGid(context, 1, sgidIndex).gid, sgidIndex };
  modify(qp, { qpState: 2, pathMtu: 3, destQpNum: qpNum, rqPsn: 1, maxDestRdAtomic: 1, minRnrTimer: 1, ah });
  modify(qp, { qpState: 3, sqPsn: 1, timeout: 16, retryCnt: 6, rnrRetry: 6, maxRdAtomic: 1 });
}

export function open(withChannel = false) {
  const context = p.openDevice(name);
  const pd = p.allocPd(context);
  const channel = withChannel ? p.createCompChannel(context) : 0;
  const cq = p.createCq(context, 256, channel).handle;
  const cap = { maxSendWr: 64, maxRecvWr: 64, maxSendSge: 2, maxRecvSge: 2, maxInlineData: 0 };
  const { handle: qp, qpNum } = p.createQp(pd, { qpType: 2, sendCq: cq, recvCq: cq, cap, sqSigAll: false });
  connectToItself(context, qp, qpNum);
  const mr = p.allocMr(pd, 65536, ACCESS);
  return { context, pd, channel, cq, qp, mr };
}

/** Fills a batch with signaled WRITEs. */
export function writes(batch, count, mr) {
  batch.clear();
  for (let i = 0; i < count; i++) batch.write(i, 2, mr.addr, 8, mr.lkey, mr.addr + 4096, mr.rkey);
  return batch;
}

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export function check(condition, text) {
  if (!condition) throw new Error(text);
}
