// Members of multicast groups within a process: what is not delivered, and groups that the kernel refuses.
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import type { SoftNetwork } from '../../src/providers/soft/index.ts';
import { ROW_GID, ROW_WORDS, requireUdp } from '../../src/providers/soft/native.ts';
import { joinMulticast } from '../../src/rdma-cm.ts';
import { encodePacket, RocePacket } from '../../src/roce/codec.ts';
import { ROCE_PORT } from '../../src/roce/icrc.ts';
import * as O from '../../src/roce/opcodes.ts';
import { gidToBytes, RDMA_UDP_QKEY } from '../../src/verbs/index.ts';
import { absent, twoDevices } from './rig.ts';

const NET = 84;
const HERE = `127.${NET}.0.1`;
const GROUP = `239.${NET}.0.1`;
const SENDER = gidToBytes(`::ffff:127.${NET}.0.9`);
const MULTICAST_QPN = 0xffffff;
const GRH_BYTES = 40;

const closers: (() => void)[] = [];
afterEach(() => {
  for (const close of closers.splice(0)) close();
});

/** A socket of the addon at an address that no device has. */
function socketAt(gid: Uint8Array): number {
  const native = requireUdp();
  const fd = native.openUdp(gid, ROCE_PORT, 1 << 16, 0);
  closers.push(() => native.closeFd(fd));
  return fd;
}

/** Sends sealed packets to the group. */
function senderToGroup() {
  const fd = socketAt(SENDER);
  const rows = new Uint32Array(ROW_WORDS);
  new Uint8Array(rows.buffer).set(gidToBytes(`::ffff:${GROUP}`), ROW_GID * 4);
  const slab = new Uint8Array(8192);
  return (change: Partial<RocePacket>) => {
    const payload = new Uint8Array(change.payloadBytes ?? 8).fill(7);
    const packet = Object.assign(new RocePacket(), {
      ...{ opcode: O.UD | O.SEND_ONLY, destQp: MULTICAST_QPN, sourceQp: 5, qkey: RDMA_UDP_QKEY },
      ...{ payload, payloadOffset: 0, payloadBytes: payload.length },
      ...change,
    });
    rows[1] = encodePacket(packet, slab, 0) + 4;
    requireUdp().sendUdp(fd, slab, rows, 1, ROCE_PORT, SENDER);
  };
}

/** A member of the group that has room for some datagrams, and returns how many have arrived. */
async function member({ provider }: SoftNetwork) {
  const end = await joinMulticast(GROUP, {
    ...{ provider, localAddress: HERE },
    prepare({ pd, qp }) {
      const inbox = pd.allocate(GRH_BYTES + 1024);
      for (let i = 0; i < 8; i++) qp.receive({ sgList: [{ mr: inbox }] });
    },
  });
  closers.push(() => end.close());
  const batch = end.context.wcBatch({ capacity: 8 });
  return () => end.cq.poll(batch);
}

describe.skipIf(absent !== null)('a multicast group', () => {
  test('delivers datagrams to it, and nothing else that is sent to its address', async () => {
    const network = twoDevices(NET);
    const arrived = await member(network);
    const send = senderToGroup();
    const received = async (count: number) => {
      while ((network.counters('soft0')?.received ?? 0) < count) await delay(2);
      return arrived();
    };
    send({});
    expect(await received(1)).toBe(1);
    send({ destQp: 1 });
    send({ destQp: 1, qkey: 0x80010000, payloadBytes: 256 });
    send({ opcode: O.RC | O.ACKNOWLEDGE, syndrome: 0xff, payloadBytes: 0 });
    send({ opcode: O.RC | O.SEND_ONLY });
    send({ destQp: MULTICAST_QPN - 1 });
    // This one reaches the queue pair, which ignores it.
    send({ qkey: 1 });
    expect(await received(7)).toBe(0);
    expect(network.counters('soft0')).toMatchObject({ malformed: 2, refused: 3 });
    send({});
    expect(await received(8)).toBe(1);
  });

  test('that the kernel refuses is named, and nothing stays open', async () => {
    const network = twoDevices(NET);
    socketAt(gidToBytes(`::ffff:${GROUP}`));
    await expect(member(network)).rejects.toThrow(new RegExp(`attachMcast: ${HERE} cannot join ${GROUP}`));
    expect(network.counters('soft0')).toBeUndefined();
  });
});
