// @ts-nocheck
// A member of a multicast group over isoverbs/rdma-cm:
//   node multicast.mjs GROUP [--send TEXT] [--address ADDRESS]
// It prints what it receives and ends. With --send, it sends every 50 ms, and does not end.
import { parseArgs } from 'node:util';
import { joinMulticast } from 'isoverbs/rdma-cm';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { send: { type: 'string' }, address: { type: 'string', default: 'localhost' } },
});
let inbox;
const member = await joinMulticast(positionals[0], {
  localAddress: values.address === '' ? undefined : values.address,
  prepare(end) {
    inbox = end.pd.allocate(40 + 64);
    end.qp.receive({ sgList: [{ mr: inbox }] });
  },
});
console.log(`joined at ${member.context.gids()[0].gid}`);
const ah = member.pd.createAh(member.remote.ah);
const outbox = member.pd.allocate(64);
const { written } = new TextEncoder().encodeInto(values.send ?? '', outbox.bytes);
const { qpNum, qkey } = member.remote;
const send = () =>
  member.qp.post({
    opcode: 'SEND',

    sgList: [{ mr: outbox, length: written }],
    to: { ah, qpNum, qkey },
  });
const timer = values.send === undefined ? undefined : setInterval(send, 50);
for await (const completion of member.cq) {
  if (!completion.isRecv) continue;
  console.log(`received ${Buffer.from(inbox.bytes.subarray(40, completion.byteLen)).toString()}`);
  if (timer === undefined) break;
}
clearInterval(timer);
member.close();
