// Address handles (counterpart of rdma-core's test_addr.py).
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature } from './ground.ts';
import {
  addressHandle,
  closeEnd,
  closePair,
  connectedPair,
  openEnd,
  polled,
  postRecv,
  postSend,
  QKEY,
} from './rig.ts';

feature('Address handles', { group: 'addr', others: 'every InfiniBand and RoCE device' }, (it) => {
  it('are created and destroyed', (ground) => {
    const end = openEnd(ground, 0);
    const ah = addressHandle(end, end);
    expect(Number.isInteger(ah) && ah > 0).toBe(true);
    end.p.destroyAh(ah);
    closeEnd(end);
  });

  it('may lead to the same GID, each with its own handle', (ground) => {
    const end = openEnd(ground, 0);
    const ahs = Array.from({ length: 50 }, () => addressHandle(end, end));
    expect(new Set(ahs).size).toBe(50);
    for (const ah of ahs) end.p.destroyAh(ah);
    closeEnd(end);
  });

  it('put the traffic class and the hop limit of a global route into every UD message', async (ground) => {
    const pair = connectedPair(ground, { qpType: V.IBV_QPT_UD });
    const { a, b, qpA, qpB } = pair;
    const routes = [{ trafficClass: 8, flowLabel: 3, hopLimit: 5, sl: 1 }, { trafficClass: 16 }];
    for (const [i, route] of routes.entries()) {
      const ah = addressHandle(a, b, route);
      postRecv(b, qpB.handle, i, 1024 * i, 1024);
      postSend(a, qpA.handle, (batch) =>
        batch.send(i, V.IBV_SEND_SIGNALED, a.mr.addr, 8, a.mr.lkey).datagramTo(0, ah, qpB.qpNum, QKEY),
      );
      await polled(a, 1);
      await polled(b, 1);
      a.p.destroyAh(ah);
    }
    // The IPv4 header is in the last 20 of the 40 bytes before the payload. Linux replaces the hop limit with that of
    // the route.
    const headers = routes.map((_, i) => b.bytes.subarray(1024 * i + 20, 1024 * i + 40));
    expect(headers.map((header) => header[1])).toEqual([8, 16]);
    expect(headers.map((header) => header[8])).toEqual(ground.name === 'rxe' ? [64, 64] : [5, 64]);
    closePair(pair);
  });

  it('cannot be destroyed twice: a typed error', (ground) => {
    const end = openEnd(ground, 0);
    const ah = addressHandle(end, end);
    end.p.destroyAh(ah);
    expect(() => end.p.destroyAh(ah)).toThrow(V.InvalidHandleError);
    for (const wrong of [0, -1, end.pd, end.cq, Number.NaN]) {
      expect(() => end.p.destroyAh(wrong)).toThrow(V.InvalidHandleError);
    }
    closeEnd(end);
  });

  it('keep their protection domain busy', (ground) => {
    const end = openEnd(ground, 0);
    const pd = end.p.allocPd(end.context);
    const ah = addressHandle({ ...end, pd }, end);
    expect(() => end.p.deallocPd(pd)).toThrow(V.BusyError);
    end.p.destroyAh(ah);
    end.p.deallocPd(pd);
    closeEnd(end);
  });

  it('reject an invalid address', (ground) => {
    const end = openEnd(ground, 0);
    const create = (attr: unknown) => () => end.p.createAh(end.pd, attr as V.AhAttr);
    const { gidIndex: sgidIndex } = ground;
    for (const wrong of [
      undefined,
      null,
      7,
      { dgid: 5 },
      { dgid: 'somewhere', sgidIndex, portNum: 1 },
      { dgid: end.gid, sgidIndex, portNum: 9 },
      { dgid: end.gid, sgidIndex: 4096, portNum: 1 },
      { dgid: end.gid, sgidIndex: -1, portNum: 1 },
      { dgid: end.gid, sgidIndex, portNum: 1, hopLimit: 256 },
      { dgid: end.gid, sgidIndex, portNum: 1, trafficClass: -1 },
      { dgid: end.gid, sgidIndex, portNum: 1, flowLabel: 1 << 20 },
      { dgid: end.gid, sgidIndex, portNum: 1, sl: 16 },
    ]) {
      expect(create(wrong)).toThrow(V.InvalidArgumentError);
    }
    expect(() => end.p.createAh(end.cq, { dgid: end.gid })).toThrow(V.InvalidHandleError);
    closeEnd(end);
  });
});
