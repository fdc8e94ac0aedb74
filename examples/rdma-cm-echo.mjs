// @ts-nocheck
// An echo server and its client over rdma_cm.
//
//   node examples/rdma-cm-echo.mjs                       both ends in this process, simulated without ISOVERBS_PROVIDER
//   node examples/rdma-cm-echo.mjs --listen 7471         the server, on every RDMA device
//   node examples/rdma-cm-echo.mjs --connect HOST:7471   the client; HOST is an address of an RDMA device
import { once } from 'node:events';
import { parseArgs } from 'node:util';
import { expectSuccess } from 'isoverbs';
import { connect, createServer } from 'isoverbs/rdma-cm';
import { fail } from './cli.mjs';

/** Runs before the peer can send: allocates memory and posts a receive. */
function prepare(connection) {
  connection.inbox = connection.pd.allocate(4096);
  connection.qp.receive({ sgList: [{ mr: connection.inbox }] });
}

/** Sends back each message until the peer disconnects, which flushes the posted receive. */
async function echo(connection) {
  const { cq, qp, inbox } = connection;
  for await (const { status, isRecv, byteLen } of cq) {
    if (status !== 0) break;
    if (isRecv) qp.post({ opcode: 'SEND', sgList: [{ mr: inbox, length: byteLen }] });
    else qp.receive({ sgList: [{ mr: inbox }] });
  }
  connection.close();
}

/** Sends a text and returns the echo. */
async function send(connection, text) {
  const { cq, qp, pd, inbox } = connection;
  const outbox = pd.allocate(4096);
  const { written } = new TextEncoder().encodeInto(text, outbox.bytes);
  qp.post({ opcode: 'SEND', sgList: [{ mr: outbox, length: written }] });
  const { byteLen } = (await cq.drain(2)).map(expectSuccess).find(({ isRecv }) => isRecv);
  return Buffer.from(inbox.bytes.subarray(0, byteLen)).toString();
}

const { values } = parseArgs({ options: { listen: { type: 'string' }, connect: { type: 'string' } } });
const both = values.listen === undefined && values.connect === undefined;
if (!both) process.once('uncaughtException', fail);
const provider = both && !process.env.ISOVERBS_PROVIDER ? 'sim' : undefined;
const server = createServer({ provider, prepare, privateData: 'echo' }, echo);
if (values.connect === undefined) {
  server.listen({ host: both ? 'localhost' : undefined, port: Number(values.listen ?? 0) });
  await once(server, 'listening');
  const { address, port } = server.address();
  console.log(`listening on port ${port}`);
  values.connect = `${address}:${port}`;
}
if (values.listen === undefined) {
  const { hostname, port } = new URL(`rdma://${values.connect}`);
  const connection = await connect({ provider, host: hostname, port: Number(port), prepare });
  console.log(`${connection.privateText}: ${await send(connection, 'hello, world')}`);
  connection.close();
  server.close();
}
