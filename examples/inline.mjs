// @ts-nocheck
// Inline messages: the bytes are copied into the request as it is posted. They need no registered memory, and may
// change at once; small ones are faster too.
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

// The same in a batch: many requests, one call, nothing allocated.
const batch = client.context.sendBatch({ capacity: 2, inlineBytes: 64 });
for (const [i, word] of ['two', 'three'].entries()) {
  batch.inline(i, IBV_WR_SEND, IBV_SEND_SIGNALED, new TextEncoder().encode(word));
}
client.qp.postSend(batch);

// Should one fail, the server would wait in vain.
for (const sent of await client.cq.drain(3)) expectSuccess(sent);
for (const { wrId, byteLen } of (await server.cq.drain(3)).map(expectSuccess)) {
  console.log(`message ${wrId}: ${text(server.mr, 64 * Number(wrId), byteLen)}`);
}

client.context.close();
server.context.close();
