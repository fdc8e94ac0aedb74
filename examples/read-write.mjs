// @ts-nocheck
// One-sided operations: WRITE into a peer's memory and READ it back, without the peer's program.
//   node examples/read-write.mjs [--device NAME]
import { openEnds, put, text } from './ends.mjs';

const [client, server] = openEnds();

// One queue pair per end. Programs on two machines exchange their endpoints over a socket (connect() and listen()
// do that); here both are in one process.
for (const end of [client, server]) end.qp = end.pd.createQp({ sendCq: end.cq });
client.qp.connectTo(server.qp.endpoint());
server.qp.connectTo(client.qp.endpoint());

// A peer needs an address and a key to access memory.
const remote = { addr: server.mr.addr, rkey: server.mr.rkey };

await client.qp.execute({ opcode: 'RDMA_WRITE', sgList: [put(client.mr, 'written by the client')], remote });
console.log(`the server finds: ${text(server.mr, 0, 21)}`);

const sgList = [{ mr: client.mr, offset: 1024, length: 7 }];
await client.qp.execute({ opcode: 'RDMA_READ', sgList, remote });
console.log(`the client reads: ${text(client.mr, 1024, 7)}`);

// With an invalid key the request fails, and the queue pair enters the ERR state.
const bad = { ...remote, rkey: remote.rkey ^ 1 };
const error = await client.qp.execute({ opcode: 'RDMA_READ', sgList, remote: bad }).catch((e) => e);
console.log(`a wrong key: ${error.code}, queue pair in ${client.qp.state}`);

client.context.close();
server.context.close();
