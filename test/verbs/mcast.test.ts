// Multicast (counterpart of the multicast cases of rdma-core's test_qp.py and test_rdmacm.py).
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature, type Ground } from './ground.ts';
import {
  addressHandle,
  closeEnd,
  closePair,
  connect,
  connectedPair,
  createQp,
  type End,
  openEnd,
  pass,
  polled,
  postRecv,
  postSend,
  QKEY,
} from './rig.ts';

const { IBV_SEND_SIGNALED: SIGNALED } = V;
const NOTES = { group: 'mcast', others: 'devices with max_mcast_grp above 0' };
const GROUP = '::ffff:239.1.2.3';
const MCAST_QPN = 0xffffff;
const UD = { qpType: V.IBV_QPT_UD };

function datagrams(ground: Ground) {
  return connectedPair(ground, UD);
}

function sendTo(end: End, qp: number, ah: number, wrId: number, bytes: number): void {
  postSend(end, qp, (batch) =>
    batch.send(wrId, SIGNALED, end.mr.addr, bytes, end.mr.lkey).datagramTo(0, ah, MCAST_QPN, QKEY),
  );
}

/**
 * Makes the hosts of both ends members of the groups. On soft-RoCE, attachMcast does not, and the IP layer of the host
 * drops packets for other groups. (rdma_join_multicast does both.) Returns a function that leaves the groups.
 */
async function joinHosts({ a, b }: { a: End; b: End }, groups: string[]): Promise<() => void> {
  if (a.ground.name !== 'rxe') return () => {};
  const socket = createSocket({ type: 'udp4', reuseAddr: true });
  socket.bind(0);
  await once(socket, 'listening');
  const ipv4 = (gid: string) => gid.replace('::ffff:', '');
  for (const gid of new Set([a.gid, b.gid])) {
    for (const group of groups) socket.addMembership(ipv4(group), ipv4(gid));
  }
  return () => socket.close();
}

feature('Multicast groups', NOTES, (it) => {
  it('are attached to and detached from', (ground) => {
    const pair = datagrams(ground);
    const { a, qpA } = pair;
    a.p.attachMcast(qpA.handle, GROUP, 0);
    a.p.detachMcast(qpA.handle, GROUP, 0);
    expect(() => a.p.detachMcast(qpA.handle, GROUP, 0)).toThrow(V.InvalidArgumentError);
    closePair(pair);
  });

  it('attaching a queue pair twice has the effect of once', (ground) => {
    const pair = datagrams(ground);
    const { a, qpA } = pair;
    a.p.attachMcast(qpA.handle, GROUP, 0);
    a.p.attachMcast(qpA.handle, GROUP, 0);
    a.p.detachMcast(qpA.handle, GROUP, 0);
    closePair(pair);
  });

  it('keep their queue pairs busy', (ground) => {
    const pair = datagrams(ground);
    const { a, qpA } = pair;
    a.p.attachMcast(qpA.handle, GROUP, 0);
    expect(() => a.p.destroyQp(qpA.handle)).toThrow(V.BusyError);
    a.p.detachMcast(qpA.handle, GROUP, 0);
    closePair(pair);
  });

  it('accept only datagram queue pairs and group addresses', (ground) => {
    const pair = datagrams(ground);
    const { a, qpA } = pair;
    const rc = createQp(a);
    a.p.attachMcast(qpA.handle, GROUP, 0);
    a.p.detachMcast(qpA.handle, GROUP, 0);
    expect(() => a.p.attachMcast(rc.handle, GROUP, 0)).toThrow(V.InvalidArgumentError);
    for (const gid of [a.gid, 'fe80::1', 'nonsense', '']) {
      expect(() => a.p.attachMcast(qpA.handle, gid, 0)).toThrow(V.InvalidArgumentError);
    }
    expect(() => a.p.attachMcast(qpA.handle, 5 as unknown as string, 0)).toThrow(V.InvalidArgumentError);
    expect(() => a.p.attachMcast(a.cq, GROUP, 0)).toThrow(V.InvalidHandleError);
    expect(() => a.p.detachMcast(0, GROUP, 0)).toThrow(V.InvalidHandleError);
    a.p.destroyQp(rc.handle);
    closePair(pair);
  });
});

feature('Multicast messages', NOTES, (it) => {
  it('reach every attached UD queue pair, including those on the sender’s device', async (ground) => {
    const pair = datagrams(ground);
    const { a, b, qpA, qpB } = pair;
    const leave = await joinHosts(pair, [GROUP]);
    const here = createQp(a, UD);
    connect(a, here.handle, a, 0, UD);
    const more = createQp(b, UD);
    connect(b, more.handle, a, 0, UD);
    const members = [
      [a, here],
      [b, qpB],
      [b, more],
    ] as const;
    members.forEach(([end, qp], i) => {
      end.p.attachMcast(qp.handle, GROUP, 0);
      postRecv(end, qp.handle, 20 + i, 1024 * (i + 1), 200);
    });
    const ah = addressHandle(a, b, { dgid: GROUP });
    a.bytes.fill(9, 0, 100);
    sendTo(a, qpA.handle, ah, 1, 100);
    const ofA = await polled(a, 2);
    const received = [...ofA.filter((wc) => wc.wrId >= 20), ...(await polled(b, 2))];
    expect(received.map((wc) => [wc.wrId, wc.status, wc.byteLen, wc.srcQp]).sort()).toEqual(
      [20, 21, 22].map((id) => [id, 'SUCCESS', 140, qpA.qpNum]),
    );
    expect(b.bytes.subarray(2048 + 40, 2048 + 140).every((byte) => byte === 9)).toBe(true);
    expect([...b.bytes.subarray(2048 + 36, 2048 + 40)]).toEqual([239, 1, 2, 3]);
    a.p.destroyAh(ah);
    for (const [end, qp] of members) end.p.detachMcast(qp.handle, GROUP, 0);
    a.p.destroyQp(here.handle);
    b.p.destroyQp(more.handle);
    leave();
    closePair(pair);
  });

  it('do not reach a detached UD queue pair or one of another group', async (ground) => {
    const pair = datagrams(ground);
    const { a, b, qpA, qpB } = pair;
    const other = '::ffff:239.1.2.4';
    const leave = await joinHosts(pair, [GROUP, other]);
    b.p.attachMcast(qpB.handle, GROUP, 0);
    b.p.attachMcast(qpB.handle, other, 0);
    b.p.detachMcast(qpB.handle, GROUP, 0);
    postRecv(b, qpB.handle, 5, 0, 200);
    const ahs = [GROUP, other].map((dgid) => addressHandle(a, b, { dgid }));
    sendTo(a, qpA.handle, ahs[0], 1, 10);
    await polled(a, 1);
    await pass(ground);
    sendTo(a, qpA.handle, ahs[1], 2, 20);
    await polled(a, 1);
    expect(await polled(b, 1)).toMatchObject([{ wrId: 5, byteLen: 60 }]);
    for (const ah of ahs) a.p.destroyAh(ah);
    b.p.detachMcast(qpB.handle, other, 0);
    leave();
    closePair(pair);
  });

  it('are dropped if the UD queue pair has another Q_Key', async (ground) => {
    const pair = datagrams(ground);
    const { a, b, qpA, qpB } = pair;
    const leave = await joinHosts(pair, [GROUP]);
    b.p.attachMcast(qpB.handle, GROUP, 0);
    postRecv(b, qpB.handle, 5, 0, 200);
    const ah = addressHandle(a, b, { dgid: GROUP });
    postSend(a, qpA.handle, (batch) =>
      batch.send(1, SIGNALED, a.mr.addr, 10, a.mr.lkey).datagramTo(0, ah, MCAST_QPN, QKEY + 1),
    );
    await polled(a, 1);
    await pass(ground);
    sendTo(a, qpA.handle, ah, 2, 20);
    await polled(a, 1);
    expect(await polled(b, 1)).toMatchObject([{ wrId: 5, byteLen: 60 }]);
    a.p.destroyAh(ah);
    b.p.detachMcast(qpB.handle, GROUP, 0);
    leave();
    closePair(pair);
  });

  it('a host’s groups end with its queue pairs', (ground) => {
    const end = openEnd(ground, 0);
    for (let round = 0; round < 3; round++) {
      const qp = createQp(end, UD);
      connect(end, qp.handle, end, 0, UD);
      end.p.attachMcast(qp.handle, GROUP, 0);
      end.p.detachMcast(qp.handle, GROUP, 0);
      end.p.destroyQp(qp.handle);
    }
    closeEnd(end);
  });
});
