// @ts-nocheck: runs against dist, which a type check must not need.
// Handles are valid in every thread; those that a worker opened are closed however the worker ends.
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { check, open, p, pause, V, writes } from './rig.mjs';

const FILE = new URL(import.meta.url);

function start(job, data = {}) {
  const worker = new Worker(FILE, { workerData: { job, ...data } });
  const message = new Promise((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', reject);
  });
  const exit = new Promise((resolve) => worker.once('exit', resolve));
  return { worker, message, exit };
}

/** A shared receive queue with a receive and an attached UD queue pair, an address handle, a bound window. */
function openShared() {
  const { context, pd, cq, qp } = open();
  const srq = p.createSrq(pd, { maxWr: 8, maxSge: 1 }).handle;
  const cap = { maxSendWr: 8, maxRecvWr: 0, maxSendSge: 1, maxRecvSge: 0, maxInlineData: 0 };
  const ud = p.createQp(pd, {
    qpType: V.IBV_QPT_UD,
    sendCq: cq,
    recvCq: cq,
    srq,
    cap,
    sqSigAll: false,
  }).handle;
  p.attachMcast(ud, '::ffff:239.7.7.7', 0);
  let sgidIndex = 0;
  for (let i = 0; i < 4; i++) if (p.queryGid(context, 1, i).gid.startsWith('::ffff:')) sgidIndex = i;
  const ah = p.createAh(pd, { dgid: p.queryGid(context, 1, sgidIndex).gid, sgidIndex });
  const region = p.allocMr(pd, 4096, 15 | V.IBV_ACCESS_MW_BIND);
  const recvs = new V.RecvBatch(p, { capacity: 1 });
  recvs.recv(1, region.addr, 64, region.lkey);
  check(p.postSrqRecv(srq, recvs.ring, 0, 1) === 1, 'a shared receive');
  const mw = p.allocMw(pd, V.IBV_MW_TYPE_1).handle;
  const binds = new V.SendBatch(p, { capacity: 1 });
  binds.bindMw(1, 0, mw, region.handle, region.addr, 4096, V.IBV_ACCESS_REMOTE_READ);
  check(p.postSend(qp, binds.ring, 0, 1) === 1, 'a bind');
  return { srq, ud, ah, region: region.handle, mw };
}

const jobs = {
  /** Posts and polls on a queue pair of the main thread. */
  async useForeign({ qp, cq, mr }) {
    const batch = new V.SendBatch(p, { capacity: 8 });
    const wcs = new V.WcBatch(p, { capacity: 8 });
    check(p.postSend(qp, writes(batch, 8, mr).ring, 0, 8) === 8, 'post in a worker');
    let n = 0;
    while (n < 8) {
      n += p.pollCq(cq, wcs.ring, 0, 8 - n);
      await pause(1);
    }
    check(wcs.qp(0) === qp, 'the handle of the queue pair');
    return n;
  },
  /** Opens everything and leaves it open: attached, bound, posted, with an armed and watched channel. */
  openAll() {
    const all = { ...open(true), ...openShared() };
    p.watchCompChannel(all.channel, () => {});
    p.reqNotifyCq(all.cq, false);
    return all;
  },
  /** Does the same, then loops forever. */
  openAndRun() {
    const all = jobs.openAll(null);
    parentPort?.postMessage(all);
    p.refCompChannel(all.channel, true);
    return new Promise(() => setInterval(() => {}, 1000));
  },
  /** Makes children of the main thread's context. */
  childOf({ context }) {
    const pd = p.allocPd(context);
    const mr = p.allocMr(pd, 4096, 1);
    return { pd, mr: mr.handle };
  },
  /** Registers memory that the main thread deregisters. */
  async register({ pd }) {
    const mr = p.regMr(pd, new ArrayBuffer(4096), 0, 4096, 1);
    const own = p.allocMr(pd, 4096, 1);
    parentPort?.postMessage([mr.handle, own.handle]);
    await new Promise((resolve) => parentPort?.once('message', resolve));
    // The next control verb releases what was left to this thread.
    const wcs = new V.WcBatch(p, { capacity: 1 });
    check(own.memory.byteLength === 0, 'detached after the other thread closed it');
    wcs.close();
    return undefined;
  },
  /** Posts and polls as fast as possible until another thread closes the queue pair. */
  hammer({ qp, cq, mr }) {
    const batch = new V.SendBatch(p, { capacity: 8 });
    const wcs = new V.WcBatch(p, { capacity: 64 });
    writes(batch, 8, mr);
    parentPort?.postMessage('running');
    try {
      for (;;) {
        p.postSend(qp, batch.ring, 0, 8);
        p.pollCq(cq, wcs.ring, 0, 64);
      }
    } catch (error) {
      return error.code;
    }
  },
};

async function sharedHandles() {
  const rig = open();
  const { worker, message, exit } = start('useForeign', rig);
  check((await message) === 8, 'eight completions');
  await worker.terminate();
  await exit;
  p.queryQp(rig.qp);
  return rig;
}

function checkGone(all) {
  for (const call of [
    () => p.queryQp(all.qp),
    () => p.queryDevice(all.context),
    () => p.deregMr(all.mr.handle),
    () => p.querySrq(all.srq),
    () => p.queryQp(all.ud),
    () => p.destroyAh(all.ah),
    () => p.deregMr(all.region),
    () => p.queryMw(all.mw),
  ]) {
    let code = 'none';
    try {
      call();
    } catch (error) {
      code = error.code;
    }
    check(code === 'ISO_ERR_HANDLE', `closed with its worker: ${code}`);
  }
}

async function main() {
  const rig = await sharedHandles();

  const ended = start('openAll');
  const all = await ended.message;
  await ended.exit;
  checkGone(all);

  for (let i = 0; i < 3; i++) {
    const killed = start('openAndRun');
    const theirs = await killed.message;
    await killed.worker.terminate();
    checkGone(theirs);
  }

  const child = start('childOf', { context: rig.context });
  await child.message;
  await child.exit;

  const registrar = start('register', { pd: rig.pd });
  for (const handle of await registrar.message) p.deregMr(handle);
  registrar.worker.postMessage('done');
  check((await registrar.exit) === 0, 'the registrar');

  const hammer = start('hammer', rig);
  await hammer.message;
  const code = new Promise((resolve) => hammer.worker.once('message', resolve));
  await pause(100);
  p.destroyQp(rig.qp);
  check((await code) === 'ISO_ERR_HANDLE', 'closed under the hammer');
  await hammer.exit;

  p.destroyCq(rig.cq);
  p.deregMr(rig.mr.handle);
  p.deallocPd(rig.pd);
  p.closeDevice(rig.context);
  console.log('pass');
}

if (isMainThread) {
  await main();
} else {
  const result = await jobs[workerData.job](workerData);
  parentPort?.postMessage(result);
}
