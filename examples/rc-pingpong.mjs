// @ts-nocheck
// A pingpong over a reliable connection with the handshake of rdma-core's ibv_rc_pingpong: the other end may be the C
// program. Without HOST this end is the server. With --type UC, the connection is an unreliable one (ibv_uc_pingpong).
//
//   node examples/rc-pingpong.mjs -d rxe0 -g 1 [-e] [--type UC] [-p 18515] [-s 4096] [-n 1000] [-m 1024] [HOST]
import { parseArgs } from 'node:util';
import {
  ConfigError,
  expectSuccess,
  IBV_SEND_SIGNALED,
  IBV_WC_SUCCESS,
  mtuBytes,
  openDevice,
  wcStatusName,
} from 'isoverbs';
import { fail } from './cli.mjs';
import { exchange } from './pingpong-handshake.mjs';

const RX_DEPTH = 500;

process.once('uncaughtException', fail);

function show(which, { lid, qpNum, psn, gid }) {
  const hex = (number, digits) => `0x${number.toString(16).padStart(digits, '0')}`;
  console.log(
    `  ${which} address:  LID ${hex(lid, 4)}, QPN ${hex(qpNum, 6)}, PSN ${hex(psn, 6)}, GID ${gid || '::'}`,
  );
}

/** Yields completions one by one: awaited with -e, otherwise polled as in the C program. */
async function* completions(context, cq, useEvents) {
  const wc = context.wcBatch({ capacity: 2 });
  for (;;) {
    if (useEvents) yield expectSuccess(await cq.next()).isRecv;
    else {
      for (let i = 0, n = cq.poll(wc); i < n; i++) {
        if (wc.status(i) !== IBV_WC_SUCCESS) throw new Error(`failed: ${wcStatusName(wc.status(i))}`);
        yield wc.isRecv(i);
      }
    }
  }
}

const text = (short) => ({ type: 'string', short });
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    device: text('d'),
    port: text('p'),
    size: text('s'),
    iters: text('n'),
    gidIndex: text('g'),
    mtu: text('m'),
    events: { type: 'boolean', short: 'e' },
    type: { type: 'string', default: 'RC' },
  },
});
const [host] = positionals;
const size = Number(values.size ?? 4096);
const iters = Number(values.iters ?? 1000);
const gidIndex = values.gidIndex === undefined ? undefined : Number(values.gidIndex);
const mtu = [1, 2, 3, 4, 5].find((code) => mtuBytes(code) === Number(values.mtu ?? 1024));

const context = openDevice(values.device);
if (context.provider.name === 'sim') {
  throw new ConfigError(
    'simulated devices connect within one process only: name a real device or soft0 (RoCE over UDP) with -d',
  );
}
const pd = context.allocPd();
const mr = pd.allocate(size);
const cq = context.createCq({ cqe: RX_DEPTH + 1 });
const qp = pd.createQp({
  type: values.type,
  sendCq: cq,
  cap: { maxSendWr: 1, maxRecvWr: RX_DEPTH, maxSendSge: 1, maxRecvSge: 1 },
});
qp.toInit();

const receives = context.recvBatch({ capacity: RX_DEPTH });
for (let i = 0; i < RX_DEPTH; i++) receives.recv(1, mr.addr, size, mr.lkey);
const send = context.sendBatch({ capacity: 1 }).send(2, IBV_SEND_SIGNALED, mr.addr, size, mr.lkey);
let posted = qp.postRecv(receives);

const mine = qp.endpoint({ gidIndex });
show('local', mine);
const path = { gidIndex, mtu, maxRdAtomic: 1, maxDestRdAtomic: 1, retryCnt: 7 };
const [remote] = await exchange({
  host,
  port: Number(values.port ?? 18515),
  mine: [mine],
  connectQps: ([peer]) => qp.connectTo(peer, path),
  listening: (port) =>
    console.log(
      `waiting on TCP port ${port}: start the other end with the same options, followed by the name of this host (on the same host: 127.0.0.1)`,
    ),
});
show('remote', remote);

const beganNs = context.nowNs();
let sent = 0;
let received = 0;
let pending = 1; // each round is one receive and one send
if (host !== undefined) {
  qp.postSend(send);
  pending++;
}
for await (const isRecv of completions(context, cq, values.events)) {
  if (isRecv) received++;
  else sent++;
  if (isRecv && --posted <= 1) posted += qp.postRecv(receives, 0, RX_DEPTH - posted);
  if (--pending === 0 && sent < iters) {
    qp.postSend(send);
    pending = 2;
  }
  if (sent >= iters && received >= iters) break;
}
const seconds = (context.nowNs() - beganNs) / 1e9;
const bytes = size * iters * 2;
console.log(
  `${bytes} bytes in ${seconds.toFixed(2)} seconds = ${((bytes * 8) / 1e6 / seconds).toFixed(2)} Mbit/sec`,
);
console.log(
  `${iters} iters in ${seconds.toFixed(2)} seconds = ${((seconds * 1e6) / iters).toFixed(2)} usec/iter`,
);
context.close();
