// Completion queues: sizes, resizing, overflow (counterpart of rdma-core's test_cq.py).
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature, until } from './ground.ts';
import {
  closeEnd,
  closePair,
  connect,
  connectedPair,
  createQp,
  eventsOf,
  openEnd,
  pass,
  polled,
  postSend,
} from './rig.ts';

const { IBV_SEND_SIGNALED: SIGNALED } = V;
const code = (name: string) => expect.objectContaining({ code: `ISO_ERR_${name}` });

feature('completion queues', { group: 'cq', others: 'every device' }, (it) => {
  it('have at least the requested entries, on every completion vector', (ground) => {
    const end = openEnd(ground, 0);
    for (const cqe of [1, 7, 100]) {
      const cq = end.p.createCq(end.context, cqe, 0, { compVector: 0 });
      expect(cq.cqe).toBeGreaterThanOrEqual(cqe);
      end.p.destroyCq(cq.handle);
    }
    closeEnd(end);
  });

  it('invalid sizes and vectors are rejected', (ground) => {
    const end = openEnd(ground, 0);
    for (const cqe of [0, -1, 1.5, 2 ** 32]) {
      expect(() => end.p.createCq(end.context, cqe, 0)).toThrow(code('ARGUMENT'));
    }
    const { maxCqe } = end.p.queryDevice(end.context);
    expect(() => end.p.createCq(end.context, maxCqe + 1, 0)).toThrow(/createCq/);
    for (const compVector of [-1, 100_000]) {
      expect(() => end.p.createCq(end.context, 16, 0, { compVector })).toThrow(code('ARGUMENT'));
    }
    closeEnd(end);
  });

  it('are not destroyed while a queue pair uses them', (ground) => {
    const pair = connectedPair(ground);
    expect(() => pair.a.p.destroyCq(pair.a.cq)).toThrow(code('BUSY'));
    closePair(pair);
  });
});

feature('resizing a completion queue', { group: 'cq', others: 'devices with ibv_resize_cq' }, (it) => {
  it('grows and shrinks with unpolled completions, and loses none', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b, qpA } = pair;
    for (const cqe of [16, 300, 2000, 20]) {
      postSend(a, qpA.handle, (batch) => {
        for (let i = 0; i < 10; i++) {
          batch.write(i, SIGNALED, a.mr.addr, 64, a.mr.lkey, b.mr.addr, b.mr.rkey);
        }
      });
      const first = await polled(a, 1);
      expect(a.p.resizeCq(a.cq, cqe)).toBeGreaterThanOrEqual(cqe);
      const rest = await polled(a, 9);
      expect([...first, ...rest].map((wc) => wc.wrId)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }
    closePair(pair);
  });

  it('does not shrink below the number of unpolled completions', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b, qpA } = pair;
    postSend(a, qpA.handle, (batch) => {
      for (let i = 0; i < 20; i++) {
        batch.write(i, SIGNALED, a.mr.addr, 64, a.mr.lkey, b.mr.addr, b.mr.rkey);
      }
    });
    await polled(a, 1);
    // The other completions have arrived or are in flight; the test can only wait.
    let turns = 0;
    await until(ground, 'the other completions', () => turns++ > 20);
    expect(() => a.p.resizeCq(a.cq, 3)).toThrow(code('BUSY'));
    expect((await polled(a, 19)).map((wc) => wc.wrId)).toEqual(Array.from({ length: 19 }, (_, i) => i + 1));
    closePair(pair);
  });

  it('to zero entries, or to more than the device supports, is refused', (ground) => {
    const end = openEnd(ground, 0);
    const { maxCqe } = end.p.queryDevice(end.context);
    expect(() => end.p.resizeCq(end.cq, 0)).toThrow(code('ARGUMENT'));
    expect(() => end.p.resizeCq(end.cq, maxCqe + 1)).toThrow(/resizeCq/);
    expect(() => end.p.resizeCq(end.pd, 16)).toThrow(code('HANDLE'));
    closeEnd(end);
  });
});

feature('completion queues that are too small', { group: 'cq', others: 'every device' }, (it) => {
  it('raise CQ_ERR and fail their queue pairs (soft-RoCE: completions are lost)', async (ground) => {
    const end = openEnd(ground, 0);
    const small = end.p.createCq(end.context, 1, 0);
    const qp = createQp(end, { sendCq: small.handle });
    connect(end, qp.handle, end, qp.qpNum);
    const events = eventsOf(end);
    const count = 2 * small.cqe + 8;
    const writes = () =>
      postSend(end, qp.handle, (batch) => {
        const { addr, lkey, rkey } = end.mr;
        for (let i = 0; i < count; i++) batch.write(i, SIGNALED, addr, 8, lkey, addr + 64, rkey);
      });
    writes();
    await until(ground, 'CQ_ERR', () => events.length > 0);
    await pass(ground);
    expect(events[0]).toEqual({ event: V.IBV_EVENT_CQ_ERR, element: small.handle });
    const wcs = new V.WcBatch(end.p, { capacity: count });
    const there = end.p.pollCq(small.handle, wcs.ring, 0, count);
    wcs.close();
    const { qpState } = end.p.queryQp(qp.handle).attr;
    if (ground.name === 'rxe') {
      expect(there).toBeGreaterThanOrEqual(small.cqe);
      expect(there).toBeLessThan(count);
      expect(qpState).toBe(V.IBV_QPS_RTS);
    } else {
      expect(events).toContainEqual({ event: V.IBV_EVENT_QP_FATAL, element: qp.handle });
      expect(qpState).toBe(V.IBV_QPS_ERR);
    }
    end.p.destroyQp(qp.handle);
    end.p.destroyCq(small.handle);
    closeEnd(end);
  });

  it('another queue of the same device still works', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b } = pair;
    const small = a.p.createCq(a.context, 1, 0);
    const qp = createQp(a, { sendCq: small.handle });
    connect(a, qp.handle, a, qp.qpNum);
    const events = eventsOf(a);
    postSend(a, qp.handle, (batch) => {
      for (let i = 0; i < 16; i++) {
        batch.write(i, SIGNALED, a.mr.addr, 8, a.mr.lkey, a.mr.addr + 64, a.mr.rkey);
      }
    });
    await until(ground, 'CQ_ERR', () => events.length > 0);
    postSend(a, pair.qpA.handle, (w) => w.write(9, SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey));
    expect(await polled(a, 1)).toMatchObject([{ wrId: 9, status: 'SUCCESS' }]);
    a.p.destroyQp(qp.handle);
    a.p.destroyCq(small.handle);
    closePair(pair);
  });
});

feature('completion queues and their handles', { group: 'cq', others: 'every device' }, (it) => {
  it('keep their completion channel busy', (ground) => {
    const end = openEnd(ground, 0);
    const channel = end.p.createCompChannel(end.context);
    for (const cqe of [1, 1000]) {
      const cq = end.p.createCq(end.context, cqe, channel);
      expect(() => end.p.destroyCompChannel(channel)).toThrow(code('BUSY'));
      end.p.destroyCq(cq.handle);
    }
    end.p.destroyCompChannel(channel);
    expect(() => end.p.createCq(end.context, 16, channel)).toThrow(code('HANDLE'));
    closeEnd(end);
  });

  it('may be as large as the device allows', (ground) => {
    const end = openEnd(ground, 0);
    const { maxCqe } = end.p.queryDevice(end.context);
    const cqe = Math.min(maxCqe, 1 << 15);
    const cq = end.p.createCq(end.context, cqe, 0);
    expect(cq.cqe).toBeGreaterThanOrEqual(cqe);
    end.p.destroyCq(cq.handle);
    closeEnd(end);
  });

  it('destroying a queue twice, or another object, is a typed error', (ground) => {
    const end = openEnd(ground, 0);
    const { handle } = end.p.createCq(end.context, 4, 0);
    end.p.destroyCq(handle);
    const wcs = new V.WcBatch(end.p, { capacity: 1 });
    for (const wrong of [handle, 0, -1, Number.NaN, end.pd, end.mr.handle, wcs.ring]) {
      expect(() => end.p.destroyCq(wrong)).toThrow(code('HANDLE'));
      expect(() => end.p.pollCq(wrong, wcs.ring, 0, 1)).toThrow(code('HANDLE'));
      expect(() => end.p.reqNotifyCq(wrong, false)).toThrow(code('HANDLE'));
      expect(() => end.p.resizeCq(wrong, 8)).toThrow(code('HANDLE'));
    }
    wcs.close();
    closeEnd(end);
  });

  it('are polled when empty, for no completions, and in part', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b, qpA } = pair;
    const wcs = new V.WcBatch(a.p, { capacity: 8 });
    expect(a.p.pollCq(a.cq, wcs.ring, 0, 8)).toBe(0);
    postSend(a, qpA.handle, (batch) => {
      for (let i = 0; i < 3; i++) batch.write(i, SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
    });
    expect(a.p.pollCq(a.cq, wcs.ring, 0, 0)).toBe(0);
    for (let i = 0; i < 3; i++) expect((await polled(a, 1))[0].wrId).toBe(i);
    expect(a.p.pollCq(a.cq, wcs.ring, 0, 8)).toBe(0);
    for (const [start, max] of [
      [0, 9],
      [8, 1],
      [-1, 1],
      [0, -1],
    ]) {
      expect(() => a.p.pollCq(a.cq, wcs.ring, start, max), `${start} ${max}`).toThrow(V.IsoverbsError);
    }
    wcs.close();
    closePair(pair);
  });
});
