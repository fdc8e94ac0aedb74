// @ts-nocheck
// Asynchronous events: unsolicited reports of the device about queue pairs, queues and ports. Each is emitted on the
// object it concerns ('srqLimitReached' on a shared receive queue), and all of them on the context.
//   node examples/async-events.mjs [--device NAME]
import { openEnds } from './ends.mjs';

const [client, server] = openEnds();
const srq = server.pd.createSrq();
const qp = client.pd.createQp({ sendCq: client.cq });
const peer = server.pd.createQp({ sendCq: server.cq, srq });
qp.connectTo(peer.endpoint());
peer.connectTo(qp.endpoint());

// A listener does not keep the process alive. An event without a listener is not an error.
srq.on('srqLimitReached', ({ type }) => console.log(`at the queue: ${type}`));

// The same as an async iterator: awaiting an event keeps the process alive. The iterator ends when the context is
// closed.
async function first(context, type) {
  for await (const event of context.events()) if (event.type === type) return event;
}
const low = first(server.context, 'SRQ_LIMIT_REACHED');

// Request one event when fewer than two receives are left.
for (let i = 0; i < 2; i++) srq.receive({ sgList: [{ mr: server.mr, offset: 64 * i, length: 64 }] });
srq.arm(2);
await qp.execute({ opcode: 'SEND', sgList: [{ mr: client.mr, length: 5 }] });
console.log(`at the context: ${(await low).type}, about that queue: ${(await low).srq === srq}`);

client.context.close();
server.context.close();
