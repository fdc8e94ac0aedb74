// @ts-nocheck
// An extended completion queue stamps each completion with the device's clock. This shows how long requests take,
// without the time until the program polls.
//   node examples/cq-timestamps.mjs [--device NAME]
import { openEnds } from './ends.mjs';

const [client, server] = openEnds();
const { completionTimestampMask, hcaCoreClockKhz } = client.context.queryDeviceEx();
if (completionTimestampMask === 0n) {
  console.log('this device does not stamp completions');
  process.exit(); // nothing is outstanding
}

const cq = client.context.createCq({ timestamps: true });
const qp = client.pd.createQp({ sendCq: cq });
const peer = server.pd.createQp({ sendCq: server.cq });
qp.connectTo(peer.endpoint());
peer.connectTo(qp.endpoint());

const remote = { addr: server.mr.addr, rkey: server.mr.rkey };
const sgList = [{ mr: client.mr, length: 4096 }];
for (let i = 0; i < 4; i++) qp.post({ opcode: 'RDMA_WRITE', wrId: i, sgList, remote });

let before = null;
for (const { wrId, ticks } of await cq.drain(4)) {
  // The clock wraps at its mask.
  const passed = before === null ? 0n : (ticks - before) & completionTimestampMask;
  console.log(
    `write ${wrId}: ${Math.round((Number(passed) / hcaCoreClockKhz) * 1e6)} ns after the one before`,
  );
  before = ticks;
}

client.context.close();
server.context.close();
