// @ts-nocheck
// Extended reliable connections: one connection per peer host instead of one per peer process. Each message names its
// shared receive queue. Only mlx5, simulated devices and RoCE over UDP support them.
//   node examples/xrc.mjs [--device NAME]
import { expectSuccess } from 'isoverbs';
import { openEnds, put, text } from './ends.mjs';

const [client, server] = openEnds();

// The server: a domain, a receiving queue pair, and two queues that represent two worker processes.
const xrcd = server.context.openXrcd();
const receiver = xrcd.createQp();
const workers = [0, 1024].map((offset) => {
  const cq = server.context.createCq();
  const srq = server.pd.createSrq({ xrcd, cq });
  srq.receive({ sgList: [{ mr: server.mr, offset, length: 64 }] });
  return { cq, srq, offset };
});

// The client: the sending queue pair.
const sender = client.pd.createQp({ sendCq: client.cq, type: 'XRC_SEND' });
sender.connectTo(receiver.endpoint());
receiver.connectTo(sender.endpoint());

for (const [i, { srq }] of workers.entries()) {
  await sender.execute({ opcode: 'SEND', srqNum: srq.srqNum, sgList: [put(client.mr, `for worker ${i}`)] });
}
for (const { cq, offset } of workers) {
  const { byteLen } = expectSuccess(await cq.next());
  console.log(text(server.mr, offset, byteLen));
}

client.context.close();
server.context.close();
