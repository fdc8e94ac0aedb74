// @ts-nocheck
// Datagrams: one queue pair communicates with any number of others. Each message names an address handle (of a port),
// a queue pair number and a Q_Key. The completion of a message identifies its sender, which gets the answer.
//   node examples/ud-hello.mjs [--device NAME]
import { expectSuccess, GRH_BYTES } from 'isoverbs';
import { openEnds, put, text } from './ends.mjs';

const [client, server] = openEnds();
for (const end of [client, server]) {
  end.qp = end.pd.createQp({ sendCq: end.cq, type: 'UD' });
  end.qp.start({ qkey: 0x1234 });
  // A global routing header of 40 bytes precedes every datagram: leave room for it.
  end.qp.receive({ sgList: [{ mr: end.mr, length: GRH_BYTES + 256 }] });
}

// The server answers one question.
async function serve() {
  const question = expectSuccess(await server.cq.next());
  const greeting = text(server.mr, GRH_BYTES, question.byteLen - GRH_BYTES);
  const ah = server.pd.createAhFrom(question, server.mr.bytes.subarray(0, GRH_BYTES));
  const to = { ah, qpNum: question.srcQp };
  await server.qp.execute({ opcode: 'SEND', sgList: [put(server.mr, `${greeting}, world`, 1024)], to });
}
const served = serve();

// The client needs the GID of the server's port, its queue pair number and its Q_Key.
const { gid, lid, qpNum, qkey } = server.qp.endpoint();
const to = { ah: client.pd.createAhTo({ gid, lid }), qpNum, qkey };
await client.qp.execute({ opcode: 'SEND', sgList: [put(client.mr, 'hello', 1024)], to });

const answer = expectSuccess(await client.cq.next());
console.log(text(client.mr, GRH_BYTES, answer.byteLen - GRH_BYTES));
console.log(`from the server's queue pair: ${answer.srcQp === qpNum}`);
await served;

client.context.close();
server.context.close();
