// @ts-nocheck
// Multicast: every queue pair that is attached to a group receives each datagram sent to it.
//   node examples/multicast.mjs [--device NAME]
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { expectSuccess, GRH_BYTES } from 'isoverbs';
import { openEnds, put, text } from './ends.mjs';

// On RoCE the group 239.7.7.7 has this GID. (On InfiniBand the subnet manager must know the group, so join by rdma_cm.)
const GROUP = '::ffff:239.7.7.7';
const QKEY = 0x1234;
const TO_ALL = 0xffffff; // the queue pair number of a group

const [sender, receiver] = openEnds();

// On a real RoCE port the host's IP stack must join the group as well, or the datagrams are dropped.
// (isoverbs/rdma-cm does both.)
const socket = createSocket('udp4');
if (receiver.context.provider.name !== 'sim') {
  await once(socket.bind(), 'listening');
  const [group, address] = [GROUP, receiver.context.chooseGid().gid].map((gid) => gid.replace('::ffff:', ''));
  socket.addMembership(group, address);
}

function member(name, offset) {
  const qp = receiver.pd.createQp({ sendCq: receiver.cq, type: 'UD' });
  qp.start({ qkey: QKEY });
  qp.attachMcast(GROUP);
  qp.receive({ sgList: [{ mr: receiver.mr, offset, length: GRH_BYTES + 64 }] });
  return { name, qp, offset };
}
const members = [member('first', 0), member('second', 1024)];

const qp = sender.pd.createQp({ sendCq: sender.cq, type: 'UD' });
qp.start({ qkey: QKEY });
const to = { ah: sender.pd.createAh({ dgid: GROUP }), qpNum: TO_ALL };
await qp.execute({ opcode: 'SEND', sgList: [put(sender.mr, 'to whom it may concern')], to });

const received = (await receiver.cq.drain(2)).map(expectSuccess);
for (const { name, qp, offset } of members) {
  const { byteLen } = received.find((completion) => completion.qp === qp);
  console.log(`${name}: ${text(receiver.mr, offset + GRH_BYTES, byteLen - GRH_BYTES)}`);
}

members[0].qp.detachMcast(GROUP); // closing the queue pair would also detach it
socket.close();
sender.context.close();
receiver.context.close();
