// @ts-nocheck
// A shared receive queue: many connections, one pool of receives. An event tells when it runs low.
//   node examples/srq-server.mjs [--device NAME]
import { expectSuccess } from 'isoverbs';
import { openEnds, put, text } from './ends.mjs';

const CLIENTS = 4;
const RECEIVES = 8;
const SLOT = 64;

const [clients, server] = openEnds();
const srq = server.pd.createSrq({ maxWr: 64, maxSge: 1 });
const receive = (slot) =>
  srq.receive({ wrId: slot, sgList: [{ mr: server.mr, offset: slot * SLOT, length: SLOT }] });
for (let slot = 0; slot < RECEIVES; slot++) receive(slot);

// One event when fewer than 6 are left.
srq.arm(6);
const low = srq.nextEvent('srqLimitReached');

// Every client has a queue pair of its own over there; they all take their receives from the pool.
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
  console.log(text(server.mr, Number(wrId) * SLOT, byteLen));
  receive(Number(wrId)); // back into the pool
}

clients.context.close();
server.context.close();
