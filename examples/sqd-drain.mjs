// @ts-nocheck
// Pausing and draining a queue pair. In SQD, requests that have started finish, and the others wait until resume().
// drain() returns all posted requests, so that their memory can be reused.
//   node examples/sqd-drain.mjs [--device NAME]
import { connectedEnds } from './ends.mjs';

const [client, server] = connectedEnds();
const remote = { addr: server.mr.addr, rkey: server.mr.rkey };
const write = (wrId) =>
  client.qp.post({ opcode: 'RDMA_WRITE', wrId, sgList: [{ mr: client.mr, length: 8 }], remote });

write(1);
await client.qp.toSqd();
console.log(`paused: ${client.qp.state}`);

write(2); // posted but not started; attributes may be changed in the meantime
client.qp.resume();
write(3);
const done = await client.cq.drain(3);
console.log(`resumed: ${done.map(({ wrId, statusText }) => `${wrId} ${statusText}`).join(', ')}`);

// These receives will never be filled.
for (let i = 4; i < 7; i++) client.qp.receive({ wrId: i, sgList: [{ mr: client.mr, length: 8 }] });
const left = await client.qp.drain();
console.log(`drained: ${left.map(({ wrId, statusText }) => `${wrId} ${statusText}`).join(', ')}`);
console.log(`then: ${client.qp.state}`);

client.context.close();
server.context.close();
