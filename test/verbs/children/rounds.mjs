// @ts-nocheck: runs against dist, which a type check must not need.
// Repeatedly creates, uses and closes every kind of object; afterwards there must be no more handles, pinned pages,
// file descriptors and JavaScript objects than before. Run with --expose-gc; prints `pass`.
//   node --expose-gc rounds.mjs DEVICE ROUNDS WARM_UP_ROUNDS [worker]
import { readdirSync, readFileSync } from 'node:fs';
import { isMainThread, Worker } from 'node:worker_threads';
import { GRH_BYTES, openDevice, UnsupportedError } from '../../../dist/index.js';

const [device, roundsText, warmUpText, where] = process.argv.slice(2);
const ROUNDS = Number(roundsText);
/** Rounds before the first measurement. */
const WARM_UP = Number(warmUpText);
/**
 * Tolerated growth for compiled code and tables: after 3000 rounds, the heap grows by half a megabyte in the next
 * thousand; after about ten thousand, it stops growing.
 */
const HEAP_SLACK_BYTES = WARM_UP >= 3000 ? 5 << 18 : 4 << 20;
const ALL = { remoteRead: true, remoteWrite: true, remoteAtomic: true, mwBind: true };

/** The result; null if the device does not support the feature. */
function ifThere(make) {
  try {
    return make();
  } catch (error) {
    if (error instanceof UnsupportedError) return null;
    throw error;
  }
}

/** A queue pair reliably connected to itself, with a shared receive queue: sends, binds a window and drains. */
async function connection({ context, pd, cq, mr }) {
  const srq = pd.createSrq({ maxWr: 4, maxSge: 1 });
  const qp = pd.createQp({ sendCq: cq, srq });
  qp.connectTo(qp.endpoint());
  srq.receive({ sgList: [{ mr, length: 64 }] });
  await qp.execute({ opcode: 'SEND', sgList: [{ mr, offset: 64, length: 8 }] });
  const { srq: from } = await cq.next();
  if (from !== srq) throw new Error('a receive of no shared queue');
  const window = pd.allocMw({ type: 2 });
  const rkey = await window.bind(qp, { mr, offset: 0, length: 64, access: { remoteWrite: true } });
  await qp.execute({
    opcode: 'RDMA_WRITE',
    sgList: [{ mr, offset: 64, length: 8 }],
    remote: { addr: mr.addr, rkey },
  });
  await window.unbind(qp);
  qp.toErr();
  return [srq, qp, window, context.sendBatch({ capacity: 2 })];
}

/** A datagram from a queue pair to itself, the reply to its sender, and a multicast group. */
async function datagram({ pd, cq, mr }) {
  const qp = pd.createQp({ sendCq: cq, type: 'UD' });
  qp.start();
  qp.receive({ sgList: [{ mr, length: GRH_BYTES + 64 }] });
  const ah = pd.createAhTo(qp.endpoint());
  await qp.execute({ opcode: 'SEND', sgList: [{ mr, offset: 256, length: 8 }], to: { ah, qpNum: qp.qpNum } });
  const back = pd.createAhFrom(await cq.next(), mr.bytes);
  qp.attachMcast('::ffff:239.7.7.7');
  qp.receive({ sgList: [{ mr, length: 64 }] });
  const [flushed] = await qp.drain();
  if (flushed.statusText !== 'WR_FLUSH_ERR') throw new Error(`a receive came back as ${flushed.statusText}`);
  return [qp, ah, back];
}

/** One round over all kinds of objects. */
async function round() {
  const context = openDevice(device);
  const pd = context.allocPd();
  const channel = context.createChannel();
  const cq = context.createCq({ channel, cqe: 64 });
  const mr = pd.allocate(4096, { access: ALL });
  const own = pd.register(new SharedArrayBuffer(4096), { access: ALL });
  const end = { context, pd, cq, mr };
  const made = [context, pd, channel, cq, mr, own, ...(await connection(end)), ...(await datagram(end))];
  const xrcd = ifThere(() => context.openXrcd());
  if (xrcd !== null) made.push(xrcd, xrcd.createQp(), pd.createSrq({ xrcd, cq }));
  const events = ifThere(() => context.events());
  if (events !== null) made.push(events);
  context.close();
  return made.map((object) => new WeakRef(object));
}

const status = (name) =>
  Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(readFileSync('/proc/self/status', 'utf8'))[1]);

async function measure() {
  for (let i = 0; i < 5; i++) {
    await new Promise((resolve) => setTimeout(resolve, 10));
    globalThis.gc();
  }
  return {
    heapBytes: process.memoryUsage().heapUsed,
    lockedKb: status('VmLck'),
    pinnedKb: status('VmPin'),
    descriptors: readdirSync('/proc/self/fd').length,
  };
}

async function main() {
  for (let i = 0; i < WARM_UP; i++) await round();
  const before = await measure();
  let refs = [];
  for (let i = 0; i < ROUNDS; i++) refs.push(...(await round()));
  const count = refs.length;
  await measure();
  const left = refs.filter((ref) => ref.deref() !== undefined).length;
  refs = [];
  const after = await measure();
  const grown = after.heapBytes - before.heapBytes;
  const same = ['lockedKb', 'pinnedKb', 'descriptors'].every((name) => after[name] <= before[name]);
  // Objects of the last round may still be on the stack.
  if (left > count / ROUNDS || grown > HEAP_SLACK_BYTES || !same) {
    throw new Error(
      `${left} of ${count} objects left, heap ${grown} bytes more: ${JSON.stringify({ before, after })}`,
    );
  }
}

if (isMainThread && where === 'worker') {
  const worker = new Worker(new URL(import.meta.url), { argv: process.argv.slice(2) });
  worker.on('error', (error) => {
    throw error;
  });
  worker.on('exit', (code) => code === 0 && console.log('pass'));
} else {
  await main();
  if (isMainThread) console.log('pass');
}
