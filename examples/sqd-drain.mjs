// @ts-nocheck
// Pausing and emptying a queue pair. SQD: what was begun is finished, the rest waits, and goes on later. drain(): all that
// is posted comes back, so that its memory can be given away.
//   node examples/sqd-drain.mjs [--device NAME]
import { connectedEnds } from './ends.mjs';

const [client, server] = connectedEnds();
const remote = { addr: server.mr.addr, rkey: server.mr.rkey };
const write = (wrId) =>
  client.qp.post({ opcode: 'RDMA_WRITE', wrId, sgList: [{ mr: client.mr, length: 8 }], remote });

write(1);
await client.qp.toSqd();
console.log(`paused: ${client.qp.state}`);

write(2); // taken, not begun: attributes may be changed meanwhile
client.qp.resume();
write(3);
const done = await client.cq.drain(3);
console.log(`resumed: ${done.map(({ wrId, statusText }) => `${wrId} ${statusText}`).join(', ')}`);

// Receives that nobody will ever fill, and sends that nobody waits for.
for (let i = 4; i < 7; i++) client.qp.receive({ wrId: i, sgList: [{ mr: client.mr, length: 8 }] });
const left = await client.qp.drain();
console.log(`drained: ${left.map(({ wrId, statusText }) => `${wrId} ${statusText}`).join(', ')}`);
console.log(`then: ${client.qp.state}`);

client.context.close();
server.context.close();
