// Address handles (counterpart of rdma-core's test_addr.py).
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature } from './ground.ts';
import { addressHandle, closeEnd, openEnd } from './rig.ts';

feature('Address handles', { group: 'addr', others: 'every InfiniBand and RoCE device' }, (it) => {
  it('are created and destroyed', (ground) => {
    const end = openEnd(ground, 0);
    const ah = addressHandle(end, end);
    expect(Number.isInteger(ah) && ah > 0).toBe(true);
    end.p.destroyAh(ah);
    closeEnd(end);
  });

  it('are many, to the same place too, each with a handle of its own', (ground) => {
    const end = openEnd(ground, 0);
    const ahs = Array.from({ length: 50 }, () => addressHandle(end, end));
    expect(new Set(ahs).size).toBe(50);
    for (const ah of ahs) end.p.destroyAh(ah);
    closeEnd(end);
  });

  it('take every field of a global route', (ground) => {
    const end = openEnd(ground, 0);
    const ah = addressHandle(end, end, { trafficClass: 8, flowLabel: 3, hopLimit: 1, sl: 1 });
    end.p.destroyAh(ah);
    closeEnd(end);
  });

  it('destroyed twice: a typed error', (ground) => {
    const end = openEnd(ground, 0);
    const ah = addressHandle(end, end);
    end.p.destroyAh(ah);
    expect(() => end.p.destroyAh(ah)).toThrow(V.InvalidHandleError);
    for (const wrong of [0, -1, end.pd, end.cq, Number.NaN]) {
      expect(() => end.p.destroyAh(wrong)).toThrow(V.InvalidHandleError);
    }
    closeEnd(end);
  });

  it('keep their protection domain', (ground) => {
    const end = openEnd(ground, 0);
    const pd = end.p.allocPd(end.context);
    const ah = addressHandle({ ...end, pd }, end);
    expect(() => end.p.deallocPd(pd)).toThrow(V.BusyError);
    end.p.destroyAh(ah);
    end.p.deallocPd(pd);
    closeEnd(end);
  });

  it('refuse what is no address', (ground) => {
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
