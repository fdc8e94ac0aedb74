// Protection domains (counterpart of rdma-core's test_pd.py).
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature } from './ground.ts';
import {
  ACCESS,
  CAP,
  closeEnd,
  closePair,
  connectedPair,
  createQp,
  openEnd,
  polled,
  postSend,
} from './rig.ts';

const { IBV_SEND_SIGNALED: SIGNALED } = V;
const code = (name: string) => expect.objectContaining({ code: `ISO_ERR_${name}` });

feature('protection domains', { group: 'pd', others: 'every device' }, (it) => {
  it('are allocated and deallocated', (ground) => {
    const end = openEnd(ground, 0);
    const pd = end.p.allocPd(end.context);
    expect(Number.isInteger(pd) && pd > 0 && pd !== end.pd).toBe(true);
    end.p.deallocPd(pd);
    closeEnd(end);
  });

  it('deallocating twice is a typed error and does not affect a newer domain', (ground) => {
    const end = openEnd(ground, 0);
    const first = end.p.allocPd(end.context);
    end.p.deallocPd(first);
    const second = end.p.allocPd(end.context);
    expect(() => end.p.deallocPd(first)).toThrow(code('HANDLE'));
    end.p.deregMr(end.p.allocMr(second, 4096, 0).handle);
    end.p.deallocPd(second);
    closeEnd(end);
  });

  it('two hundred are allocated one after another', (ground) => {
    const end = openEnd(ground, 0);
    for (let i = 0; i < 200; i++) end.p.deallocPd(end.p.allocPd(end.context));
    closeEnd(end);
  });

  it('many open domains have distinct handles and may be closed in any order', (ground) => {
    const end = openEnd(ground, 0);
    const pds = Array.from({ length: 64 }, () => end.p.allocPd(end.context));
    expect(new Set(pds).size).toBe(64);
    const outward = [...pds.filter((_, i) => i % 2 === 1), ...pds.filter((_, i) => i % 2 === 0)];
    for (const pd of outward) end.p.deallocPd(pd);
    closeEnd(end);
  });

  it('are kept open by each kind of object that is made in them', (ground) => {
    const end = openEnd(ground, 0);
    const { p, cq } = end;
    const pd = p.allocPd(end.context);
    const own = { ...end, pd };
    const kept = (close: () => void) => {
      expect(() => p.deallocPd(pd)).toThrow(
        expect.objectContaining({ code: 'ISO_ERR_BUSY', verb: 'deallocPd' }),
      );
      close();
    };
    const mr = p.allocMr(pd, 4096, ACCESS);
    kept(() => p.deregMr(mr.handle));
    const mw = p.allocMw(pd, V.IBV_MW_TYPE_2);
    kept(() => p.deallocMw(mw.handle));
    const srq = p.createSrq(pd, { maxWr: 4, maxSge: 1 });
    kept(() => p.destroySrq(srq.handle));
    const qp = p.createQp(pd, { qpType: V.IBV_QPT_RC, sendCq: cq, recvCq: cq, cap: CAP, sqSigAll: false });
    kept(() => p.destroyQp(qp.handle));
    const ah = p.createAh(own.pd, { dgid: end.gid, sgidIndex: end.ground.gidIndex, portNum: 1 });
    kept(() => p.destroyAh(ah));
    p.deallocPd(pd);
    closeEnd(end);
  });

  it('keep their device open', (ground) => {
    const { provider: p, devices } = ground;
    const context = p.openDevice(devices[0]);
    const pd = p.allocPd(context);
    expect(() => p.closeDevice(context)).toThrow(code('BUSY'));
    p.deallocPd(pd);
    p.closeDevice(context);
    expect(() => p.allocPd(context)).toThrow(code('HANDLE'));
  });

  it('handles of other kinds and invalid handles are rejected', (ground) => {
    const end = openEnd(ground, 0);
    for (const wrong of [
      0,
      -1,
      1.5,
      Number.NaN,
      2 ** 40,
      end.cq,
      end.context,
      end.mr.handle,
      '1',
      null,
      undefined,
    ]) {
      expect(() => end.p.deallocPd(wrong as number)).toThrow(code('HANDLE'));
    }
    for (const wrong of [0, end.pd, end.cq, Number.NaN]) {
      expect(() => end.p.allocPd(wrong)).toThrow(code('HANDLE'));
    }
    closeEnd(end);
  });

  it('keep queue pairs from memory of another domain, at both ends', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b, qpA } = pair;
    const other = b.p.allocPd(b.context);
    const far = b.p.allocMr(other, 4096, ACCESS);
    postSend(a, qpA.handle, (batch) =>
      batch.write(1, SIGNALED, a.mr.addr, 64, a.mr.lkey, far.addr, far.rkey),
    );
    expect(await polled(a, 1)).toMatchObject([{ wrId: 1, status: 'REM_ACCESS_ERR' }]);
    b.p.deregMr(far.handle);
    b.p.deallocPd(other);
    closePair(pair);

    const again = connectedPair(ground);
    const mine = again.a.p.allocPd(again.a.context);
    const near = again.a.p.allocMr(mine, 4096, ACCESS);
    postSend(again.a, again.qpA.handle, (batch) =>
      batch.write(2, SIGNALED, near.addr, 64, near.lkey, again.b.mr.addr, again.b.mr.rkey),
    );
    // soft-RoCE reports LOC_QP_OP_ERR for a local key that does not match.
    const status = ground.name === 'rxe' ? 'LOC_QP_OP_ERR' : 'LOC_PROT_ERR';
    expect(await polled(again.a, 1)).toMatchObject([{ wrId: 2, status }]);
    again.a.p.deregMr(near.handle);
    again.a.p.deallocPd(mine);
    closePair(again);
  });

  it('are refused with objects of another context', (ground) => {
    const [a, b] = [openEnd(ground, 0), openEnd(ground, 0)];
    expect(() => createQp({ ...a, pd: b.pd })).toThrow(V.IsoverbsError);
    closeEnd(a);
    closeEnd(b);
  });
});
