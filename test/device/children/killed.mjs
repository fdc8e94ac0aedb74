// @ts-nocheck
// The process that kill.test.ts kills in the middle of a transfer.
//   killed.mjs target        exchanges addresses with the test and is the target of its WRITEs
//   killed.mjs sender PORT   connects to a listener and sends endlessly
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { connect, expectSuccess, openDevice } from 'isoverbs';

const [role, port] = process.argv.slice(2);
const context = openDevice(process.env.ISOVERBS_DEVICE);
const pd = context.allocPd();
const sendCq = context.createCq();
const mr = pd.allocate(1 << 16, { access: { remoteWrite: true } });
const say = (what) => console.log(JSON.stringify(what));

if (role === 'target') {
  const qp = pd.createQp({ sendCq });
  say({ endpoint: qp.endpoint(), addr: mr.addr, rkey: mr.rkey });
  const [line] = await once(createInterface(process.stdin), 'line');
  qp.connectTo(JSON.parse(line));
  say('connected');
} else {
  const { qp } = await connect(context, { host: '127.0.0.1', port: Number(port), pd, sendCq });
  for (;;) {
    qp.post({ opcode: 'SEND', sgList: [{ mr, length: 1024 }] });
    expectSuccess(await sendCq.next());
  }
}
setInterval(() => {}, 1000);
