/** The exchange of ucmatose(1), udaddy(1) and mckey(1): `count` messages of a fixed size and arbitrary content. */
import { expect } from 'vitest';
import * as V from '../../../src/verbs/index.ts';
import type { Side } from '../../verbs/cm-rig.ts';
import { polled, postRecv, postSend, type Wc } from '../../verbs/rig.ts';

export const COUNT = 10;
export const MESSAGE_BYTES = 100;
/** Bytes of the GRH, which precedes each datagram in its receive. */
export const GRH_BYTES = 40;
const SLOT_BYTES = 256;
const RECV_AT = 8192;

/** Waits for `count` successful completions. */
export function succeeded(count: number, byteLen: number): unknown[] {
  return Array(count).fill(expect.objectContaining({ status: 'SUCCESS', byteLen }));
}

/** Posts all receives. */
export function expectMessages({ end, qp }: Side): void {
  for (let i = 0; i < COUNT; i++) {
    postRecv(end, qp.handle, i, RECV_AT + i * SLOT_BYTES, GRH_BYTES + MESSAGE_BYTES);
  }
}

export async function sendMessages({ end, qp }: Side): Promise<Wc[]> {
  postSend(end, qp.handle, (batch) => {
    for (let i = 0; i < COUNT; i++) {
      batch.send(100 + i, V.IBV_SEND_SIGNALED, end.mr.addr, MESSAGE_BYTES, end.mr.lkey);
    }
  });
  return polled(end, COUNT);
}

/** The destination of datagrams. */
export interface Destination {
  ah: V.AhAttr;
  qpNum: number;
  qkey: number;
}

/** Sends datagrams with the sender's queue pair number as immediate, to which udaddy answers. */
export async function sendDatagrams({ end, qp }: Side, to: Destination): Promise<Wc[]> {
  const ah = end.p.createAh(end.pd, to.ah);
  postSend(end, qp.handle, (batch) => {
    for (let i = 0; i < COUNT; i++) {
      batch.sendImm(100 + i, V.IBV_SEND_SIGNALED, end.mr.addr, MESSAGE_BYTES, end.mr.lkey, qp.qpNum);
      batch.datagramTo(i, ah, to.qpNum, to.qkey);
    }
  });
  const wcs = await polled(end, COUNT);
  end.p.destroyAh(ah);
  return wcs;
}

/** How to answer the datagram in the first receive: the IPv4 header is in the second half of the 40 GRH bytes. */
export function senderOf({ end }: Side, wc: Wc): Destination {
  const source = end.bytes.subarray(RECV_AT + 32, RECV_AT + 36);
  return {
    ah: { dgid: `::ffff:${source.join('.')}`, sgidIndex: end.ground.gidIndex, hopLimit: 64, portNum: 1 },
    qpNum: wc.imm,
    qkey: V.RDMA_UDP_QKEY,
  };
}
