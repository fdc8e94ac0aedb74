// @ts-nocheck
// A shared receive queue: many connections share one pool of receives. An event reports when it runs low.
//   node examples/srq-server.mjs [--device NAME]
import { expectSuccess } from 'isoverbs';
import { openEnds, put, text } from './ends.mjs';

const CLIENTS = 4;
const RECEIVES = 8;
const MESSAGE_BYTES = 64;

const [clients, server] = openEnds();
const srq = server.pd.createSrq({ maxWr: 64, maxSge: 1 });
const receive = (i) =>
  srq.receive({ wrId: i, sgList: [{ mr: server.mr, offset: i * MESSAGE_BYTES, length: MESSAGE_BYTES }] });
for (let i = 0; i < RECEIVES; i++) receive(i);

// Request one event when fewer than 6 are left.
srq.arm(6);
const low = srq.nextEvent('srqLimitReached');

// Every client has its own queue pair at the server; all of them take receives from the pool.
const qps = Array.from({ length: CLIENTS }, () => {
  const qp = clients.pd.createQp({ sendCq: clients.cq });
  const peer = server.pd.createQp({ sendCq: server.cq, srq });
  qp.connectTo(peer.endpoint());
  peer.connectTo(qp.endpoint());
  return qp;
});

for (const [i, qp] of qps.entries()) {
  await qp.execute({ opcode: 'SEND', sgList: [put(clients.mr, `client ${i} says hello`)] });
}

await low;
console.log(`fewer than 6 of ${RECEIVES} receives are left`);
for (const { wrId, byteLen } of (await server.cq.drain(CLIENTS)).map(expectSuccess)) {
  console.log(text(server.mr, Number(wrId) * MESSAGE_BYTES, byteLen));
  receive(Number(wrId)); // back into the pool
}

clients.context.close();
server.context.close();
