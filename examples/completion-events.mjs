// @ts-nocheck
// Sleeping until something completes: on one channel for many queues, and only for messages that the sender marked as
// solicited (urgent).
//   node examples/completion-events.mjs [--device NAME]
import { connectedEnds, put } from './ends.mjs';

const [client, server] = connectedEnds();
for (let i = 0; i < 4; i++)
  server.qp.receive({ wrId: i, sgList: [{ mr: server.mr, offset: 64 * i, length: 64 }] });

// Both queues use the context's only channel; meanwhile the process sleeps.
const other = server.context.createCq();
const idle = new AbortController();
const never = other.next({ signal: idle.signal }).catch((reason) => reason);

async function listen() {
  const received = [];
  // Wakes up for the urgent message, and then yields it and all earlier ones in order.
  for await (const { wrId } of server.cq.completions({ solicitedOnly: true })) {
    received.push(Number(wrId));
    if (received.length === 4) return received;
  }
}
const listening = listen();

const sgList = [put(client.mr, 'news')];
for (let i = 0; i < 3; i++) await client.qp.execute({ opcode: 'SEND', sgList });
console.log('three messages: the server sleeps');
await client.qp.execute({ opcode: 'SEND', sgList, flags: { solicited: true } });
console.log(`an urgent one: the server has ${(await listening).join(', ')}`);

idle.abort('nothing came');
console.log(`the other queue: ${await never}`);

client.context.close();
server.context.close();
