// @ts-nocheck
// A program that tries to get more than its tenant may have, on the null device, which completes each request at the next
// poll. It prints what it got as JSON. Environment: TRICK (hold, reopen, names, qps, insist or later), TURNS=1 to let the event loop run,
// BYTES of each message, CONTEXTS at a time, SECONDS, and PAUSE_MS between two posts. With REPORT_MS, it also prints
// `{ ns, completions }` so often, with the time of CLOCK_MONOTONIC.
import { writeSync } from 'node:fs';
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises';
import { defaultProvider } from '../../../dist/open.js';
import * as V from '../../../dist/verbs/index.js';

const { TRICK = 'hold', TURNS, BYTES = '64', CONTEXTS = '1', SECONDS = '2', LINGER_MS = '0' } = process.env;
const { PAUSE_MS, REPORT_MS } = process.env;
const bytes = Number(BYTES);
const BATCH = 16;
const POLLS = 64;
/** A context of these tricks lives that long. */
const LIFE_MS = 2;

let beganMs = performance.now();
let endMs = beganMs + 1000 * Number(SECONDS);
const provider = defaultProvider();
const send = new V.SendBatch(provider, { capacity: BATCH });
const wcs = new V.WcBatch(provider, { capacity: POLLS });
let [completions, opened, qps, waitedMs] = [0, 0, 0, 0];

function toRts(qp) {
  const ah = { dlid: 1, portNum: 1 };
  const init = { qpState: V.IBV_QPS_INIT, pkeyIndex: 0, portNum: 1, qpAccessFlags: 0 };
  const rtr = { qpState: V.IBV_QPS_RTR, pathMtu: V.IBV_MTU_4096, destQpNum: 1, rqPsn: 0 };
  const rts = { qpState: V.IBV_QPS_RTS, sqPsn: 0, timeout: 14, retryCnt: 7, rnrRetry: 7, maxRdAtomic: 1 };
  for (const attr of [init, { ...rtr, maxDestRdAtomic: 1, minRnrTimer: 12, ah }, rts]) {
    provider.modifyQp(qp, attr, V.maskOf(attr));
  }
}

function createQp({ pd, cq }) {
  const cap = { maxSendWr: 128, maxRecvWr: 1, maxSendSge: 2, maxRecvSge: 1, maxInlineData: 0 };
  const fromMs = performance.now();
  const qp = provider.createQp(pd, {
    qpType: V.IBV_QPT_RC,
    sendCq: cq,
    recvCq: cq,
    cap,
    sqSigAll: false,
  }).handle;
  waitedMs = Math.max(waitedMs, performance.now() - fromMs);
  toRts(qp);
  return qp;
}

function open() {
  const tenant = TRICK === 'names' ? `name${opened}` : undefined;
  opened++;
  const context = provider.openDevice('null0', { tenant });
  const pd = provider.allocPd(context);
  const cq = provider.createCq(context, 4096, 0).handle;
  return { context, pd, cq, qps: [] };
}

function close({ context, pd, cq, qps }) {
  for (const qp of qps) provider.destroyQp(qp);
  provider.destroyCq(cq);
  provider.deallocPd(pd);
  provider.closeDevice(context);
}

function post(qp) {
  send.clear();
  for (let i = 0; i < BATCH; i++) {
    send.write(i, V.IBV_SEND_SIGNALED, 0x10000000, bytes, 7, 0x20000000, 9);
  }
  provider.postSend(qp, send.ring, 0, BATCH);
}

let reportAtMs = 0;

function report() {
  if (performance.now() < reportAtMs) return;
  reportAtMs = performance.now() + Number(REPORT_MS);
  writeSync(1, `${JSON.stringify({ ns: Number(process.hrtime.bigint()), completions })}\n`);
}

const asleep = new Int32Array(new SharedArrayBuffer(4));

/** Leaves the CPU to others for PAUSE_MS. The event loop runs only if TURNS is set. */
async function pause() {
  if (REPORT_MS) report();
  if (TURNS) await (PAUSE_MS ? delay(Number(PAUSE_MS)) : turn());
  else if (PAUSE_MS) Atomics.wait(asleep, 0, 0, Number(PAUSE_MS));
}

/** Posts and polls once. */
function use({ qps: [qp], cq }) {
  post(qp);
  completions += provider.pollCq(cq, wcs.ring, 0, POLLS);
}

async function reopen() {
  const all = Array.from({ length: Number(CONTEXTS) }, open);
  for (const one of all) one.qps.push(createQp(one));
  const untilMs = performance.now() + LIFE_MS;
  do {
    for (const one of all) use(one);
    await pause();
  } while (performance.now() < untilMs);
  for (const one of all) close(one);
}

async function hold() {
  const all = Array.from({ length: Number(CONTEXTS) }, open);
  for (const one of all) one.qps.push(createQp(one));
  while (performance.now() < endMs) {
    for (const one of all) use(one);
    await pause();
  }
}

/** As many queue pairs as possible, in new contexts. */
async function collectQps() {
  for (let i = 0; i < Number(CONTEXTS); i++) {
    const one = open();
    try {
      for (let k = 0; k < 16; k++) one.qps.push(createQp(one));
    } catch (error) {
      if (error.code !== 'ISO_ERR_NO_RESOURCES') throw error;
    }
    qps += one.qps.length;
    await pause();
  }
  await new Promise((done) => setTimeout(done, Number(LINGER_MS)));
}

/** Asks for a queue pair until there is one. */
async function insist() {
  const one = open();
  for (let tries = 1; qps === 0; tries++) {
    try {
      one.qps.push(createQp(one));
      qps = 1;
    } catch (error) {
      if (error.code !== 'ISO_ERR_NO_RESOURCES') throw error;
      if (tries === 1) console.error(error.message);
      await delay(50);
    }
  }
}

/** A context that is closed, and another one after a line from standard input. */
async function later() {
  const first = open();
  first.qps.push(createQp(first));
  close(first);
  console.log('stop');
  await new Promise((go) => process.stdin.once('data', go));
  [waitedMs, beganMs, endMs] = [0, performance.now(), performance.now() + 1000 * Number(SECONDS)];
  await hold();
}

if (TRICK === 'hold') await hold();
else if (TRICK === 'later') await later();
else if (TRICK === 'qps') await collectQps();
else if (TRICK === 'insist') await insist();
else while (performance.now() < endMs) await reopen();
const seconds = (performance.now() - beganMs) / 1000;
console.log(JSON.stringify({ completions, bytes: completions * bytes, opened, qps, seconds, waitedMs }));
process.exit(0);
