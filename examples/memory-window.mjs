// @ts-nocheck
// A memory window opens part of a region to a peer and closes it again, at a much lower cost than registering memory.
// Here the peer itself invalidates the key, with its last message (SEND_WITH_INV).
//   node examples/memory-window.mjs [--device NAME]
import { connectedEnds, put, text } from './ends.mjs';

const [client, server] = connectedEnds();
server.qp.receive({ sgList: [{ mr: server.mr, offset: 2048, length: 64 }] });

// 64 bytes in the middle of the region, for writing only. The peer never gets the region's own key.
const window = server.pd.allocMw({ type: 2 });
const rkey = await window.bind(server.qp, {
  mr: server.mr,
  offset: 512,
  length: 64,
  access: { remoteWrite: true },
});
console.log('the window is open');

const remote = { addr: server.mr.addr + 512, rkey };
await client.qp.execute({ opcode: 'RDMA_WRITE', sgList: [put(client.mr, 'through the window')], remote });
console.log(`the server finds: ${text(server.mr, 512, 18)}`);

// The client says that it is done. From then on the key is invalid.
await client.qp.execute({ opcode: 'SEND_WITH_INV', sgList: [put(client.mr, 'done')], invalidate: rkey });
const { invalidatedRkey } = await server.cq.next();
console.log(`the client gave the key back: ${invalidatedRkey === rkey}`);

const late = client.qp.execute({ opcode: 'RDMA_WRITE', sgList: [put(client.mr, 'too late')], remote });
console.log(`a write after that: ${(await late.catch((error) => error)).code}`);

client.context.close();
server.context.close();
