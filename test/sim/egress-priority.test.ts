/** Requests that block lower classes under strict priority, and those that must not; classes of datagrams. */
import { describe, expect, test } from 'vitest';
import { createFabric, type FabricOptions } from '../../src/providers/sim/index.ts';
import { RandomStream } from '../../src/sim/kernel/random.ts';
import { override } from '../../src/sim/profile/overrides.ts';
import { PROFILES } from '../../src/sim/profile/profiles.ts';
import * as V from '../../src/verbs/index.ts';
import { toRts } from '../support/to-rts.ts';
import { B, Lab } from './apps.ts';
import { connect, drain, type End, fill, makeEnd, post, SIGNALED, take } from './helpers.ts';

const profileOf = (name: string, scheduler: string) =>
  override(PROFILES[name], { scheduler }) as FabricOptions['profile'];

/** Two connections between the same hosts: one of class 0, one of class 1. */
function classes(name = 'minimal') {
  const fabric = createFabric({ autoAdvance: false, profile: profileOf(name, 'sp') });
  const ends = [0, 1].map((sl) => {
    const two: [End, End] = [makeEnd(fabric, 0, { sl }), makeEnd(fabric, 1, { sl })];
    connect(...two);
    return two;
  });
  return { fabric, high: ends[0], low: ends[1] };
}

function write([from, to]: [End, End], id: number, bytes: number): void {
  from.send.write(id, SIGNALED, from.mr.addr, bytes, from.mr.lkey, to.mr.addr, to.mr.rkey);
}

describe.each(['minimal', 'cx6-100g'])(
  'strict priority on %s: a higher class does not block a lower one',
  (name) => {
    test('at a WAIT for a lower one', () => {
      const { fabric, high, low } = classes(name);
      high[0].send.wait(1, 0, low[0].sendCq, 1);
      write(high, 2, 40_000);
      post(high[0]);
      fabric.simulation.runUntil(5_000);
      write(low, 3, 40_000);
      post(low[0]);
      expect(drain(fabric, low[0])).toMatchObject([{ wrId: 3, status: 'SUCCESS' }]);
      expect(take(high[0])).toMatchObject([{ wrId: 2, status: 'SUCCESS' }]);
      expect(fabric.brokenInvariants()).toEqual([]);
    });

    test('while it waits for a receive that is not posted', () => {
      const { fabric, high, low } = classes(name);
      high[0].send.send(1, SIGNALED, high[0].mr.addr, 100, high[0].mr.lkey);
      post(high[0]);
      fabric.simulation.runUntil(3_000);
      write(low, 2, 40_000);
      post(low[0]);
      // RNR timer 1 is 10 us: the lower class finishes before that.
      fabric.simulation.runUntil(10_000);
      expect(take(low[0])).toMatchObject([{ wrId: 2, status: 'SUCCESS' }]);
      expect(take(high[0])).toEqual([]);
    });

    test('while its READ is in flight and the next request waits at a fence', () => {
      const { fabric, high, low } = classes(name);
      const [a, b] = high;
      a.send.read(1, SIGNALED, a.mr.addr, 60_000, a.mr.lkey, b.mr.addr, b.mr.rkey);
      a.send.write(2, SIGNALED | V.IBV_SEND_FENCE, a.mr.addr, 100, a.mr.lkey, b.mr.addr, b.mr.rkey);
      post(a);
      fill(low[0].bytes, 0, 4_000);
      write(low, 3, 4_000);
      post(low[0]);
      // 60,000 bytes take 4.9 us on the wire back; the lower class has been sent in the meantime. Its acknowledgement,
      // where that is a packet, is of the lower class at the other host, and waits for the READ's data there.
      fabric.simulation.runUntil(4_000);
      expect(low[1].bytes.subarray(0, 4_000)).toEqual(low[0].bytes.subarray(0, 4_000));
      expect(take(a)).toEqual([]);
      expect(drain(fabric, a).map((wc) => wc.wrId)).toEqual([1, 2]);
      expect(take(low[0])).toMatchObject([{ wrId: 3, status: 'SUCCESS' }]);
      expect(fabric.brokenInvariants()).toEqual([]);
    });
  },
);

test('a rate-limited higher class leaves the rest of the wire to the lower one', () => {
  const lab = new Lab({ params: override(PROFILES.minimal, { scheduler: 'sp' }) });
  lab.add(B);
  lab.add({ ...B, sl: 1 });
  const { sim } = lab;
  sim.setRate(sim.world.qps[1]!, 10_000_000, 0);
  lab.run(0);
  const delivered = () => [2, 4].map((qpn) => sim.world.qps[qpn]!.deliveredBytes);
  const before = delivered();
  sim.runUntil(sim.nowNs + 10e6);
  const gbps = delivered().map((bytes, i) => ((bytes - before[i]) * 8) / 10e6);
  const share = 4096 / (4096 + 78);
  expect(gbps[0] / (10 * share)).toBeCloseTo(1, 2);
  expect(gbps[1] / (90 * share)).toBeCloseTo(1, 2);
});

describe('datagrams', () => {
  const QKEY = 11;
  const CAP = { maxSendWr: 64, maxRecvWr: 64, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };

  /** UD queue pairs on two hosts, and address handles from the first to the second by service level. */
  function datagrams(name: string, scheduler: string) {
    const fabric = createFabric({ autoAdvance: false, profile: profileOf(name, scheduler) });
    const { provider: v } = fabric;
    const nodes = [0, 1].map((host) => {
      const context = v.openDevice(`sim${host}`);
      const pd = v.allocPd(context);
      const mr = v.allocMr(pd, 1 << 16, V.IBV_ACCESS_LOCAL_WRITE);
      const cq = v.createCq(context, 256, 0).handle;
      const qp = v.createQp(pd, { qpType: V.IBV_QPT_UD, sendCq: cq, recvCq: cq, cap: CAP, sqSigAll: true });
      toRts(v, qp.handle, { qpType: V.IBV_QPT_UD, qkey: QKEY });
      return { pd, mr, cq, qp, gid: v.queryGid(context, 1, 0).gid, wc: new V.WcBatch(v, { capacity: 256 }) };
    });
    const [from, to] = nodes;
    const ahs = [0, 1, 2].map((sl) => v.createAh(from.pd, { dgid: to.gid, portNum: 1, sgidIndex: 0, sl }));
    const send = (levels: number[]) => {
      const batch = new V.SendBatch(v, { capacity: 64 });
      for (const [id, sl] of levels.entries()) {
        batch.send(id, 0, from.mr.addr, 1000, from.mr.lkey);
        batch.datagramTo(id, ahs[sl], to.qp.qpNum, QKEY);
      }
      expect(v.postSend(from.qp.handle, batch.ring, 0, levels.length)).toBe(levels.length);
    };
    const recv = (count: number) => {
      const batch = new V.RecvBatch(v, { capacity: 64 });
      for (let id = 0; id < count; id++) batch.recv(id, to.mr.addr + id * 1040, 1040, to.mr.lkey);
      expect(v.postRecv(to.qp.handle, batch.ring, 0, count)).toBe(count);
    };
    const polled = ({ cq, wc }: (typeof nodes)[0]) => v.pollCq(cq, wc.ring, 0, 256);
    return { fabric, from, to, send, recv, polled };
  }

  test('are classified by the service level of their address handle', () => {
    const { fabric, from, to, send, recv, polled } = datagrams('minimal', 'ets');
    const { simulation } = fabric;
    recv(6);
    simulation.setPaused(0, true, 0);
    send([0, 1, 2, 1, 0, 2]);
    simulation.run();
    expect(polled(to)).toBe(4);
    // Completions keep their order, and the first datagram has not been sent yet.
    expect(polled(from)).toBe(0);
    simulation.setPaused(0, false, 0);
    simulation.run();
    expect([polled(to), polled(from)]).toEqual([2, 6]);
    expect(fabric.brokenInvariants()).toEqual([]);
  });

  test.each(['minimal', 'cx6-100g'])(
    'of one queue pair in all classes never block each other forever (%s)',
    (name) => {
      const seed = 5;
      const random = new RandomStream(seed, 'datagram classes');
      for (let round = 0; round < 20; round++) {
        const { fabric, from, to, send, recv, polled } = datagrams(name, 'sp');
        recv(40);
        send(Array.from({ length: 40 }, () => random.u32() % 3));
        fabric.simulation.run();
        expect([polled(to), polled(from)], `seed ${seed}, round ${round}`).toEqual([40, 40]);
        expect(fabric.brokenInvariants()).toEqual([]);
      }
    },
  );
});
