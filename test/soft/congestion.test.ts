// Congestion marks of the IP header, and the traffic classes of user-space RoCE devices, seen by a socket of their peer.
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, describe, expect, test } from 'vitest';
import { createSoftNetwork } from '../../src/providers/soft/index.ts';
import {
  DATAGRAM_BYTES,
  DATAGRAM_PACKETS,
  ROW_GID,
  ROW_WORDS,
  requireUdp,
} from '../../src/providers/soft/native.ts';
import { DECODED, decodePacket, encodePacket, RocePacket } from '../../src/roce/codec.ts';
import { ROCE_PORT } from '../../src/roce/icrc.ts';
import * as O from '../../src/roce/opcodes.ts';
import { gidToBytes } from '../../src/verbs/index.ts';
import { absent, openEnd } from './rig.ts';

const DEVICE = '127.76.0.1';
const PEER = '127.76.0.2';
const PEER_QPN = 77;
const PEER_PSN = 100;
const EXPEDITED = 46 << 2;
const CONGESTED = 3;
const STRIDE_BYTES = 256;
const gidOf = (address: string) => gidToBytes(`::ffff:${address}`);

/** A peer that is only a socket. */
class SocketPeer {
  private readonly native = requireUdp();
  private readonly fd = this.native.openUdp(gidOf(PEER), ROCE_PORT, 1 << 20, 0);
  private readonly slab = new Uint8Array(8 * DATAGRAM_BYTES);
  private readonly rows = new Uint32Array(8 * DATAGRAM_PACKETS * ROW_WORDS);
  private readonly packet = new RocePacket();
  private psn = PEER_PSN;

  /** Sends packets with this opcode and traffic class. */
  send(opcode: number, destQp: number, trafficClass: number, count: number): void {
    for (let i = 0; i < count; i++) {
      Object.assign(this.packet, { opcode, destQp, psn: this.psn, ackRequest: true, payloadBytes: 0 });
      if (opcode !== O.CNP) this.psn++;
      const bytes = encodePacket(this.packet, this.slab, i * STRIDE_BYTES);
      this.rows.set([i * STRIDE_BYTES, bytes + 4, trafficClass, 0], i * ROW_WORDS);
      new Uint8Array(this.rows.buffer).set(gidOf(DEVICE), (i * ROW_WORDS + ROW_GID) * 4);
    }
    this.native.sendUdp(this.fd, this.slab, this.rows, count, ROCE_PORT, gidOf(PEER));
  }

  /** What has arrived since the last call. */
  async received() {
    await delay(50);
    const count = this.native.receiveUdp(this.fd, this.slab, this.rows, gidOf(PEER));
    return Array.from({ length: count }, (_, i) => {
      const [at, length, flags] = this.rows.subarray(i * ROW_WORDS);
      expect([decodePacket(this.slab, at, length, this.packet), flags >>> 16]).toEqual([DECODED, 0]);
      const { opcode, destQp, becn } = this.packet;
      return { opcode, destQp, becn, trafficClass: flags & 0xff };
    });
  }

  close(): void {
    this.native.closeFd(this.fd);
  }
}

describe.skipIf(absent !== null)('congestion', () => {
  const network = absent === null ? createSoftNetwork({ addresses: [DEVICE] }) : null!;
  const peer = absent === null ? new SocketPeer() : null!;
  const { context, qp } = absent === null ? openEnd(network, 'soft0') : (null as never);
  afterAll(() => {
    context?.close();
    peer?.close();
  });

  test('marked packets are answered by one notification at a time, and acknowledged in the class of the path', async () => {
    const endpoint = { ...qp.endpoint(), gid: `::ffff:${PEER}`, qpNum: PEER_QPN, psn: PEER_PSN };
    qp.connectTo(endpoint, { trafficClass: EXPEDITED });
    peer.send(O.WRITE_ONLY, qp.qpNum, 0, 1);
    const ack = { opcode: O.ACKNOWLEDGE, destQp: PEER_QPN, becn: false, trafficClass: EXPEDITED };
    expect(await peer.received()).toEqual([ack]);
    const notification = { opcode: O.CNP, destQp: PEER_QPN, becn: true, trafficClass: 48 << 2 };
    for (let round = 1; round <= 2; round++) {
      peer.send(O.WRITE_ONLY, qp.qpNum, CONGESTED, 4);
      const got = await peer.received();
      expect(got.filter(({ opcode }) => opcode === O.CNP)).toEqual([notification]);
      expect(got.length).toBe(5);
      expect(network.counters('soft0')).toMatchObject({ notificationsSent: round, refused: 0 });
    }
  });

  test('received notifications are counted', async () => {
    peer.send(O.CNP, qp.qpNum, 0, 3);
    expect(await peer.received()).toEqual([]);
    expect(network.counters('soft0')).toMatchObject({ notificationsReceived: 3, malformed: 0, refused: 0 });
  });
});
