/**
 * Exact times of windows, rates, moderation, draining and re-registration, which only a simulator can show.
 */
import { describe, expect, test } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import {
  ALL_ACCESS,
  drain,
  type End,
  fill,
  modify,
  pair,
  post,
  postRecv,
  SIGNALED,
  take,
} from './helpers.ts';

const write = (a: End, b: End, id: number, bytes: number) =>
  a.send.write(id, SIGNALED, a.mr.addr, bytes, a.mr.lkey, b.mr.addr, b.mr.rkey);

describe('rate limits', () => {
  test('a queue pair sends at its rate, headers included; bursts may exceed it; others are not slowed', () => {
    for (const [kbps, maxBurstBytes] of [
      [1_000_000, 0],
      [10_000_000, 0],
      [1_000_000, 30_000],
    ]) {
      const [a, b, fabric] = pair();
      a.v.modifyQpRateLimit(a.qp, { rateLimitKbps: kbps, maxBurstBytes });
      for (let i = 0; i < 20; i++) write(a, b, i, 40_000);
      const began = fabric.nowNs;
      post(a);
      expect(drain(fabric, a).map((wc) => wc.status)).toEqual(new Array(20).fill('SUCCESS'));
      const wireBytes = 20 * (40_000 + 10 * 78);
      const expectedNs = (8e6 / kbps) * (wireBytes - maxBurstBytes);
      expect((fabric.nowNs - began) / expectedNs).toBeGreaterThan(0.98);
      expect((fabric.nowNs - began) / expectedNs).toBeLessThan(1.02);
      expect(fabric.brokenInvariants()).toEqual([]);
    }
  });

  test('a rate at which a packet takes longer than the timeout costs only time, even with loss', () => {
    const [a, b, fabric] = pair({ loss: 0.05, seed: 3 }, { timeout: 4 });
    a.v.modifyQpRateLimit(a.qp, { rateLimitKbps: 10_000 });
    fill(a.bytes, 0, 30_000);
    write(a, b, 1, 30_000);
    post(a);
    expect(drain(fabric, a)).toMatchObject([{ wrId: 1, status: 'SUCCESS' }]);
    expect(b.bytes.subarray(0, 30_000)).toEqual(a.bytes.subarray(0, 30_000));
  });

  test('removing the limit in the middle of a message sends the rest at once, also by modifyQp', () => {
    const [a, b, fabric] = pair();
    modify(a, { qpState: V.IBV_QPS_RTS, rateLimitKbps: 1000 });
    expect(a.v.queryQp(a.qp).attr.rateLimitKbps).toBe(1000);
    write(a, b, 1, 60_000);
    post(a);
    fabric.simulation.runUntil(50_000_000);
    expect(take(a)).toEqual([]);
    a.v.modifyQpRateLimit(a.qp, { rateLimitKbps: 0 });
    fabric.simulation.runUntil(50_100_000);
    expect(take(a)).toMatchObject([{ status: 'SUCCESS' }]);
  });
});

describe('event moderation', () => {
  test('the period begins with the first completion, and an event ends it', () => {
    const [a, b, fabric] = pair({}, { event: true });
    const at: number[] = [];
    a.v.modifyCq(a.sendCq, 3, 10);
    a.v.watchCompChannel(a.channel, () => at.push(fabric.nowNs));
    a.v.reqNotifyCq(a.sendCq, false);
    write(a, b, 1, 8);
    post(a);
    return fabric.run().then(async () => {
      expect(at).toHaveLength(1);
      const first = at[0];
      expect(first).toBeGreaterThan(10_000);
      a.v.reqNotifyCq(a.sendCq, false);
      for (let i = 0; i < 3; i++) write(a, b, i, 8);
      post(a);
      await fabric.run();
      expect(at).toHaveLength(2);
      expect(at[1] - first).toBeLessThan(3000);
    });
  });

  test('completions waiting for an event raise it when moderation changes', async () => {
    const [a, b, fabric] = pair({}, { event: true });
    let events = 0;
    a.v.modifyCq(a.sendCq, 100, 0);
    a.v.watchCompChannel(a.channel, () => events++);
    a.v.reqNotifyCq(a.sendCq, false);
    write(a, b, 1, 8);
    post(a);
    await fabric.run();
    expect(events).toBe(0);
    a.v.modifyCq(a.sendCq, 0, 0);
    await fabric.run();
    expect(events).toBe(1);
  });
});

describe('SQD', () => {
  test('draining: queryQp reports it, attributes stay, new requests wait, and the event is raised once', async () => {
    const [a, b, fabric] = pair();
    const events: number[] = [];
    a.v.watchAsyncEvents(a.context, (event) => events.push(event));
    for (let i = 0; i < 3; i++) write(a, b, i, 60_000);
    post(a);
    fabric.simulation.runUntil(1000);
    modify(a, { qpState: V.IBV_QPS_SQD, enSqdAsyncNotify: 1 });
    expect(a.v.queryQp(a.qp).attr.sqDraining).toBe(true);
    expect(() => modify(a, { qpState: V.IBV_QPS_SQD, timeout: 9 })).toThrow(/not drained/);
    write(a, b, 3, 8);
    post(a);
    await fabric.run();
    expect(take(a).map((wc) => wc.wrId)).toEqual([0]);
    expect(events).toEqual([V.IBV_EVENT_SQ_DRAINED]);
    expect(a.v.queryQp(a.qp).attr.sqDraining).toBe(false);
    modify(a, { qpState: V.IBV_QPS_SQD, timeout: 9, retryCnt: 1, maxDestRdAtomic: 2 });
    modify(a, { qpState: V.IBV_QPS_RTS });
    await fabric.run();
    expect(take(a).map((wc) => wc.wrId)).toEqual([1, 2, 3]);
    expect(events).toHaveLength(1);
    expect(fabric.brokenInvariants()).toEqual([]);
  });

  test('reducing responder resources loses no pending responses', () => {
    const [a, b, fabric] = pair();
    fill(b.bytes, 0, 60_000);
    for (let i = 0; i < 8; i++)
      a.send.read(i, SIGNALED, a.mr.addr, 7000, a.mr.lkey, b.mr.addr + 7000 * i, b.mr.rkey);
    post(a);
    fabric.simulation.runUntil(2000);
    modify(b, { qpState: V.IBV_QPS_SQD });
    modify(b, { qpState: V.IBV_QPS_SQD, maxDestRdAtomic: 16 });
    expect(drain(fabric, a).map((wc) => wc.status)).toEqual(new Array(8).fill('SUCCESS'));
    expect(a.bytes.subarray(0, 7000)).toEqual(b.bytes.subarray(49_000, 56_000));
    expect(fabric.brokenInvariants()).toEqual([]);
  });
});

describe('memory windows', () => {
  const access = ALL_ACCESS | V.IBV_ACCESS_MW_BIND;

  function bindTo(
    end: End,
    mw: V.MwInfo,
    lengthBytes: number,
    key = (mw.rkey & ~0xff) | ((mw.rkey + 1) & 0xff),
  ): number {
    end.send.bindMw(
      90,
      SIGNALED,
      mw.handle,
      end.mr.handle,
      end.mr.addr,
      lengthBytes,
      V.IBV_ACCESS_REMOTE_WRITE,
      key,
    );
    return key;
  }

  test('closing a window in the middle of a WRITE stops the WRITE', () => {
    const [a, b, fabric] = pair({}, { access });
    const mw = b.v.allocMw(b.pd, V.IBV_MW_TYPE_2);
    const key = bindTo(b, mw, 65_536);
    post(b);
    fabric.simulation.run();
    a.bytes.fill(1);
    a.send.write(1, SIGNALED, a.mr.addr, 65_536, a.mr.lkey, b.mr.addr, key);
    post(a);
    fabric.simulation.runUntil(fabric.nowNs + 1500);
    b.send.localInv(91, SIGNALED, key);
    post(b);
    expect(drain(fabric, a)).toMatchObject([{ wrId: 1, status: 'REM_ACCESS_ERR' }]);
    expect([b.bytes[0], b.bytes[65_535]]).toEqual([1, 0]);
    b.v.deallocMw(mw.handle);
    b.v.deregMr(b.mr.handle);
    expect(fabric.brokenInvariants()).toEqual([]);
  });

  test('a flushed bind keeps the key of its window; a bind of a deallocated window fails', () => {
    const [a, b, fabric] = pair({}, { access });
    const mw = b.v.allocMw(b.pd, V.IBV_MW_TYPE_1);
    bindTo(b, mw, 64);
    post(b);
    expect(b.v.queryMw(mw.handle).rkey).not.toBe(mw.rkey);
    modify(b, { qpState: V.IBV_QPS_ERR });
    expect(drain(fabric, b)).toMatchObject([{ wrId: 90, status: 'WR_FLUSH_ERR' }]);
    expect(b.v.queryMw(mw.handle).rkey).toBe(mw.rkey);
    const other = a.v.allocMw(a.pd, V.IBV_MW_TYPE_1);
    bindTo(a, other, 64);
    post(a);
    a.v.deallocMw(other.handle);
    expect(drain(fabric, a)).toMatchObject([{ wrId: 90, status: 'MW_BIND_ERR' }]);
  });

  test('binds, invalidations and their SENDs are executed once despite losses', () => {
    for (let seed = 1; seed <= 40; seed++) {
      const [a, b, fabric] = pair({ loss: 0.1, seed }, { access, timeout: 4 });
      const mw = b.v.allocMw(b.pd, V.IBV_MW_TYPE_2);
      let key = mw.rkey;
      for (let round = 0; round < 5; round++) {
        a.recv.recv(round, a.mr.addr, 64, a.mr.lkey);
        postRecv(a);
        b.recv.recv(round, b.mr.addr + 60_000, 64, b.mr.lkey);
        postRecv(b);
        key = bindTo(b, { ...mw, rkey: key }, 30_000);
        b.send.send(100, 0, b.mr.addr, 8, b.mr.lkey);
        post(b);
        fabric.simulation.run();
        a.send.write(1, 0, a.mr.addr, 30_000, a.mr.lkey, b.mr.addr, key);
        a.send.sendInv(2, SIGNALED, a.mr.addr, 8, a.mr.lkey, key);
        post(a);
        expect(drain(fabric, a), `seed ${seed}`).toMatchObject([{ wrId: 2, status: 'SUCCESS' }]);
        expect(take(b)).toMatchObject([{ wrId: 90, status: 'SUCCESS', opcode: 'BIND_MW' }]);
        expect(take(b, b.recvCq)).toMatchObject([{ status: 'SUCCESS' }]);
        take(a, a.recvCq);
      }
      b.v.deregMr(b.mr.handle);
      expect(fabric.brokenInvariants()).toEqual([]);
    }
  });

  test("SEND_WITH_INV of a key that is not a window's: REM_ACCESS_ERR; the receive fails with REM_INV_REQ_ERR", () => {
    const [a, b, fabric] = pair({}, { access });
    b.recv.recv(5, b.mr.addr, 64, b.mr.lkey);
    postRecv(b);
    a.send.sendInv(2, SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.rkey);
    post(a);
    expect(drain(fabric, a)).toMatchObject([{ wrId: 2, status: 'REM_ACCESS_ERR' }]);
    expect(take(b, b.recvCq)).toMatchObject([{ wrId: 5, status: 'REM_INV_REQ_ERR' }]);
  });
});

test('re-registering a region invalidates the old keys for requests in flight', () => {
  const [a, b, fabric] = pair();
  a.send.write(1, SIGNALED, a.mr.addr, 60_000, a.mr.lkey, b.mr.addr, b.mr.rkey);
  post(a);
  fabric.simulation.runUntil(1500);
  const changed = b.v.reregMr(b.mr.handle, { access: ALL_ACCESS });
  expect([changed.lkey, changed.rkey]).not.toEqual([b.mr.lkey, b.mr.rkey]);
  expect(drain(fabric, a)).toMatchObject([{ wrId: 1, status: 'REM_ACCESS_ERR' }]);
});

test('timestamps are virtual time; other extended flags are rejected', () => {
  const [a, b, fabric] = pair();
  const flags = V.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | V.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  const cq = a.v.createCq(a.context, 16, 0, { wcFlags: flags }).handle;
  expect(() => a.v.createCq(a.context, 16, 0, { wcFlags: 1 << 30 })).toThrow(/wcFlags/);
  a.v.destroyCq(cq);
  write(a, b, 1, 8);
  post(a);
  fabric.simulation.run();
  expect(a.v.queryRtValues(a.context).ticks).toBe(BigInt(Math.floor(fabric.nowNs)));
});
