// @ts-nocheck
// Inline messages are copied into the request when it is posted. They need no registered memory, and the bytes may
// change right away. Small inline messages are also faster.
//   node examples/inline.mjs [--device NAME]
import { expectSuccess, IBV_SEND_SIGNALED, IBV_WR_SEND } from 'isoverbs';
import { connectedEnds, text } from './ends.mjs';

const [client, server] = connectedEnds({ maxInlineData: 64 });
console.log(`up to ${Math.min(client.qp.cap.maxInlineData, 64)} bytes`);
for (let i = 0; i < 3; i++)
  server.qp.receive({ wrId: i, sgList: [{ mr: server.mr, offset: 64 * i, length: 64 }] });

const bytes = new TextEncoder().encode('one');
client.qp.post({ opcode: 'SEND', inlineData: bytes });
bytes.fill(0); // the request has its own copy

// The same as a batch: many requests in one call, without allocation.
const batch = client.context.sendBatch({ capacity: 2, inlineBytes: 64 });
for (const [i, word] of ['two', 'three'].entries()) {
  batch.inline(i, IBV_WR_SEND, IBV_SEND_SIGNALED, new TextEncoder().encode(word));
}
client.qp.postSend(batch);

// If one failed, the server would wait forever.
for (const sent of await client.cq.drain(3)) expectSuccess(sent);
for (const { wrId, byteLen } of (await server.cq.drain(3)).map(expectSuccess)) {
  console.log(`message ${wrId}: ${text(server.mr, 64 * Number(wrId), byteLen)}`);
}

client.context.close();
server.context.close();
