/** WAIT and ENABLE: mlx5's cross-channel requests, in virtual time. */
import { describe, expect, test } from 'vitest';
import { createFabric } from '../../src/providers/sim/index.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, drain, type End, makeEnd, modify, pair, post, SIGNALED, take } from './helpers.ts';

const STEP_NS = 80.6;

/** `count` ends on host 0, each connected to a separate one on host 1. */
function several(count: number, options = {}) {
  const fabric = createFabric({ autoAdvance: false });
  const ends = Array.from({ length: count }, () => {
    const end = makeEnd(fabric, 0, options);
    connect(end, makeEnd(fabric, 1));
    return end;
  });
  return { fabric, ends };
}

function write(end: End, id: number, flags = SIGNALED): void {
  // The WRITE has no data, so it requires no key.
  end.send.write(id, flags, 0, 0, 0, 0, 0);
}

describe('WAIT', () => {
  test('0_WAIT lets other queue pairs send: one step each, repeated within one slot', () => {
    const times = [0, 1, 16].map((repeat) => {
      const [a, , fabric] = pair();
      if (repeat > 0) a.send.wait(7, 0, a.sendCq, 0, repeat);
      write(a, 1);
      expect(post(a)).toBe(repeat > 0 ? 2 : 1);
      expect(drain(fabric, a).map((wc) => wc.wrId)).toEqual([1]);
      return fabric.nowNs;
    });
    expect(times[1] - times[0]).toBeCloseTo(STEP_NS, 6);
    expect(times[2] - times[0]).toBeCloseTo(16 * STEP_NS, 6);
  });

  test('blocks its send queue until a CQ has that many more completions', () => {
    const { fabric, ends } = several(2);
    const [a, b] = ends;
    a.send.wait(1, 0, b.sendCq, 2);
    write(a, 2);
    post(a);
    expect(drain(fabric, a)).toEqual([]);
    write(b, 1);
    post(b);
    expect(drain(fabric, a)).toEqual([]);
    write(b, 2);
    post(b);
    expect(drain(fabric, a).map((wc) => wc.wrId)).toEqual([2]);
  });

  test('counts from the last WAIT on that CQ, on any queue pair; polling has no effect', () => {
    const { fabric, ends } = several(3);
    const [a, b, c] = ends;
    for (const [i, end] of [a, b].entries()) {
      end.send.wait(0, 0, c.sendCq, 1);
      write(end, i);
      post(end);
    }
    write(c, 1);
    post(c);
    expect(drain(fabric, a)).toHaveLength(1);
    expect(take(b)).toEqual([]);
    expect(take(c)).toHaveLength(1);
    write(c, 2);
    post(c);
    expect(drain(fabric, b)).toHaveLength(1);
  });

  test('completes only when signaled, with IBV_WC_DRIVER2, in order', () => {
    const [a, , fabric] = pair();
    a.send.wait(1, 0, a.sendCq, 0).wait(2, SIGNALED, a.sendCq, 0);
    write(a, 3);
    a.send.wait(4, SIGNALED, a.sendCq, 0);
    post(a);
    expect(drain(fabric, a).map((wc) => [wc.wrId, wc.opcode])).toEqual([
      [2, 'DRIVER2'],
      [3, 'RDMA_WRITE'],
      [4, 'DRIVER2'],
    ]);
  });

  test('is flushed in ERR', () => {
    const [a, , fabric] = pair();
    a.send.wait(1, 0, a.recvCq, 5);
    write(a, 2, 0);
    post(a);
    fabric.simulation.run();
    modify(a, { qpState: V.IBV_QPS_ERR });
    expect(drain(fabric, a).map((wc) => wc.status)).toEqual(['WR_FLUSH_ERR', 'WR_FLUSH_ERR']);
    expect(fabric.brokenInvariants()).toEqual([]);
  });

  test('is not executed again when the queue pair retransmits after a loss', () => {
    const [a, b, fabric] = pair({}, { timeout: 8 });
    a.send.write(1, SIGNALED, a.mr.addr, 30000, a.mr.lkey, b.mr.addr, b.mr.rkey);
    a.send.wait(2, SIGNALED, a.sendCq, 0, 1000);
    a.send.write(3, SIGNALED, a.mr.addr, 30000, a.mr.lkey, b.mr.addr, b.mr.rkey);
    post(a);
    fabric.fault({ linkDown: 0 });
    fabric.simulation.runUntil(500_000);
    fabric.fault({ linkUp: 0 });
    expect(drain(fabric, a).map((wc) => [wc.wrId, wc.status])).toEqual(
      [1, 2, 3].map((id) => [id, 'SUCCESS']),
    );
    // One timeout of 1.05 ms, then both WRITEs at once, without another 80 us of waiting.
    expect(fabric.nowNs).toBeLessThan(4096 * 256 + 30_000);
  });

  test('leaves no state behind after a reset', () => {
    const [a, b, fabric] = pair({}, { cap: { maxSendWr: 4 } });
    fabric.fault({ linkDown: 0 });
    write(a, 1);
    a.send.wait(2, 0, a.sendCq, 0);
    post(a);
    fabric.simulation.runUntil(5000);
    fabric.fault({ linkUp: 0 });
    for (const end of [a, b]) modify(end, { qpState: V.IBV_QPS_RESET });
    connect(a, b);
    for (let i = 10; i < 14; i++) write(a, i);
    expect(post(a)).toBe(4);
    expect(drain(fabric, a).map((wc) => wc.wrId)).toEqual([10, 11, 12, 13]);
  });

  test('names a CQ of this device', () => {
    const [a, b] = pair();
    for (const target of [0, 12345, b.sendCq, a.qp]) {
      a.send.wait(1, 0, target, 1);
      expect(post(a)).toBe(0);
      expect([a.send.errno, a.send.reason]).toEqual([V.EINVAL, V.REASON_TARGET]);
    }
  });

  test('fails when its CQ is destroyed', () => {
    const [a, , fabric] = pair();
    const other = a.v.createCq(a.context, 4, 0).handle;
    a.send.wait(1, 0, other, 1);
    post(a);
    fabric.simulation.run();
    a.v.destroyCq(other);
    expect(drain(fabric, a).map((wc) => wc.status)).toEqual(['LOC_QP_OP_ERR']);
  });
});

describe('ENABLE', () => {
  /** An ordinary end, and a managed end on the same host. */
  function managedPair(): { fabric: ReturnType<typeof createFabric>; a: End; m: End } {
    const fabric = createFabric({ autoAdvance: false });
    const a = makeEnd(fabric, 0);
    const m = makeEnd(fabric, 0, { managed: true });
    connect(a, makeEnd(fabric, 1));
    connect(m, m);
    return { fabric, a, m };
  }

  test('a managed queue pair is fetched only as far as it is enabled', () => {
    const { fabric, a, m } = managedPair();
    for (let i = 0; i < 5; i++) write(m, i);
    expect(post(m)).toBe(5);
    expect(drain(fabric, m)).toEqual([]);
    a.send.enable(1, SIGNALED, m.qp, 2);
    post(a);
    expect(drain(fabric, a).map((wc) => wc.opcode)).toEqual(['DRIVER2']);
    expect(take(m).map((wc) => wc.wrId)).toEqual([0, 1]);
    a.send.enable(2, 0, m.qp, 0);
    post(a);
    expect(drain(fabric, m).map((wc) => wc.wrId)).toEqual([2, 3, 4]);
    expect(take(a)).toEqual([]);
  });

  test('beyond the posted requests: EINVAL', () => {
    const { a, m } = managedPair();
    write(m, 1);
    post(m);
    a.send.enable(1, 0, m.qp, 1).enable(2, 0, m.qp, 1);
    expect(post(a)).toBe(1);
    expect([a.send.errno, a.send.reason]).toEqual([V.EINVAL, V.REASON_TARGET]);
  });

  test('of an ordinary queue pair, or of nothing: EINVAL', () => {
    const { a } = managedPair();
    for (const target of [a.qp, 0, a.sendCq]) {
      a.send.enable(1, 0, target, 0);
      expect(post(a)).toBe(0);
      expect(a.send.reason).toBe(V.REASON_TARGET);
    }
  });

  test('PAUSE and RESUME: each ENABLE of the loopback queue releases the longest-waiting queue pair', () => {
    const { fabric, a, m } = managedPair();
    const paused = [0, 1, 2].map(() => {
      const end = makeEnd(fabric, 0);
      connect(end, makeEnd(fabric, 1));
      return end;
    });
    for (let i = 0; i < 3; i++) write(m, i);
    post(m);
    for (const end of paused) {
      end.send.wait(0, 0, m.sendCq, 1);
      write(end, 1);
      post(end);
    }
    fabric.simulation.run();
    for (let released = 1; released <= 3; released++) {
      a.send.enable(1, 0, m.qp, 1);
      post(a);
      fabric.simulation.run();
      expect(paused.map((end) => end.v.pollCq(end.sendCq, end.wc.ring, 0, 1))).toEqual(
        [1, 2, 3].map((n) => (n === released ? 1 : 0)),
      );
    }
  });

  test('a destroyed managed queue pair fails the ENABLE', () => {
    const { fabric, a, m } = managedPair();
    write(m, 1);
    post(m);
    a.send.enable(1, 0, m.qp, 1);
    post(a);
    m.v.destroyQp(m.qp);
    expect(drain(fabric, a).map((wc) => wc.status)).toEqual(['LOC_QP_OP_ERR']);
  });
});

test('a fabric without WAIT rejects both opcodes', () => {
  const [a] = pair({ wait: false });
  expect(a.v.wait).toBe('none');
  a.send.wait(1, 0, a.sendCq, 0);
  expect(a.v.validateSend(a.qp, a.send.ring, 0)).toBe(V.EOPNOTSUPP);
  expect(post(a)).toBe(0);
  expect([a.send.errno, a.send.reason]).toEqual([V.EOPNOTSUPP, V.REASON_OPCODE]);
});
