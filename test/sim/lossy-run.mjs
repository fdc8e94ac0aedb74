/**
 * One run over lossy links, and its trace hash. Plain JavaScript, so that a separate process can run it on the built
 * package: node test/sim/lossy-run.mjs SEED
 */
import { pathToFileURL } from 'node:url';

/**
 * @param {typeof import('../../src/providers/sim/index.ts')} sim
 * @param {typeof import('../../src/verbs/index.ts')} V
 * @param {number} seed
 */
export function lossyRun(sim, V, seed) {
  const fabric = sim.createFabric({ seed, loss: 0.05, autoAdvance: false });
  const v = fabric.provider;
  const cap = { maxSendWr: 16, maxRecvWr: 1, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
  const [a, b] = ['sim0', 'sim1'].map((name) => {
    const context = v.openDevice(name);
    const pd = v.allocPd(context);
    const cq = v.createCq(context, 64, 0).handle;
    const mr = v.allocMr(pd, 65536, 7);
    const init = { qpType: V.IBV_QPT_RC, sendCq: cq, recvCq: cq, cap, sqSigAll: false };
    return { cq, mr, gid: v.queryGid(context, 1, 0).gid, ...v.createQp(pd, init) };
  });
  for (const [end, peer] of [
    [a, b],
    [b, a],
  ]) {
    const ah = { dgid: peer.gid };
    const [pathMtu, destQpNum] = [V.IBV_MTU_1024, peer.qpNum];
    for (const attr of [
      { qpState: V.IBV_QPS_INIT, pkeyIndex: 0, portNum: 1, qpAccessFlags: 7 },
      { qpState: V.IBV_QPS_RTR, ah, pathMtu, destQpNum, rqPsn: 0, maxDestRdAtomic: 4, minRnrTimer: 1 },
      { qpState: V.IBV_QPS_RTS, timeout: 4, retryCnt: 7, rnrRetry: 7, maxRdAtomic: 4, sqPsn: 0 },
    ]) {
      v.modifyQp(end.handle, attr, V.maskOf(attr));
    }
  }
  const send = new V.SendBatch(v, { capacity: 2 });
  const wc = new V.WcBatch(v, { capacity: 64 });
  for (let i = 0; i < 20; i++) {
    const [from, to] = [a.mr, b.mr];
    send.clear().write(i, V.IBV_SEND_SIGNALED, from.addr, 3000 * i, from.lkey, to.addr, to.rkey);
    send.read(i, V.IBV_SEND_SIGNALED, from.addr, 2000 * i, from.lkey, to.addr, to.rkey);
    v.postSend(a.handle, send.ring, 0, 2);
    fabric.simulation.run();
    v.pollCq(a.cq, wc.ring, 0, 64);
  }
  return fabric.traceHash();
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const built = (/** @type {string} */ file) => import(new URL(`../../dist/${file}`, import.meta.url).href);
  const [sim, V] = [await built('providers/sim/index.js'), await built('verbs/index.js')];
  console.log(lossyRun(sim, V, Number(process.argv[2])));
}
