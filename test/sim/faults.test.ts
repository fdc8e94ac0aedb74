/** Links that lose, reorder and duplicate packets. A failing run prints its seed. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createFabric, type Fabric, type FabricOptions } from '../../src/providers/sim/index.ts';
import * as V from '../../src/verbs/index.ts';
import { toRts } from '../support/to-rts.ts';
import { connect, drain, makeEnd, pair, post, SIGNALED, take } from './helpers.ts';
import { runProgram, steps } from './programs.ts';

const share = fc.constantFrom(0, 0.01, 0.1);

describe('random programs', () => {
  test('with loss, reordering and duplication of up to 10 % each', { tags: ['long'] }, () => {
    fc.assert(
      fc.property(
        steps,
        fc.integer({ min: 0, max: 1e9 }),
        fc.record({ loss: share, reorder: share, duplicate: share }),
        fc.constantFrom(300, 2000, 50_000),
        fc.constantFrom(V.IBV_MTU_256, V.IBV_MTU_1024, V.IBV_MTU_4096),
        fc.constantFrom(1, 2, 16),
        (program, seed, faults, reorderDelayNs, pathMtu, maxRdAtomic) =>
          runProgram(program, { seed, reorderDelayNs, ...faults }, pathMtu, maxRdAtomic),
      ),
      { numRuns: 300 },
    );
  });

  test('with every packet and acknowledgement duplicated', () => {
    fc.assert(
      fc.property(steps, fc.constantFrom(1, 16), (program, maxRdAtomic) =>
        runProgram(program, { seed: 1, duplicate: 1 }, V.IBV_MTU_1024, maxRdAtomic),
      ),
      { numRuns: 50 },
    );
  });
});

describe('datagrams show what a link did', () => {
  const DATAGRAMS = 400;

  /** Numbers of the datagrams in order of arrival. */
  function arrivals(options: FabricOptions, prepare: (fabric: Fabric) => void = () => {}): number[] {
    const fabric = createFabric({ autoAdvance: false, ...options });
    prepare(fabric);
    const v = fabric.provider;
    const ends = ['sim0', 'sim1'].map((name) => {
      const context = v.openDevice(name);
      const pd = v.allocPd(context);
      const cq = v.createCq(context, 4 * DATAGRAMS, 0).handle;
      const mr = v.allocMr(pd, 4096, V.IBV_ACCESS_LOCAL_WRITE);
      const cap = {
        maxSendWr: DATAGRAMS,
        maxRecvWr: 2 * DATAGRAMS,
        maxSendSge: 1,
        maxRecvSge: 1,
        maxInlineData: 0,
      };
      const qp = v.createQp(pd, { qpType: V.IBV_QPT_UD, sendCq: cq, recvCq: cq, cap, sqSigAll: false });
      toRts(v, qp.handle, { qpType: V.IBV_QPT_UD, qkey: 7 });
      return { context, pd, cq, mr, ...qp };
    });
    const [a, b] = ends;
    const dgid = v.queryGid(b.context, 1, 0).gid;
    const ah = v.createAh(a.pd, { dgid, portNum: 1, sgidIndex: 0 });
    const send = new V.SendBatch(v, { capacity: DATAGRAMS });
    const recv = new V.RecvBatch(v, { capacity: 2 * DATAGRAMS });
    for (let i = 0; i < 2 * DATAGRAMS; i++) recv.recv(i, b.mr.addr, 128, b.mr.lkey);
    v.postRecv(b.handle, recv.ring, 0, 2 * DATAGRAMS);
    for (let i = 0; i < DATAGRAMS; i++) {
      send.sendImm(i, 0, a.mr.addr, 64, a.mr.lkey, i).datagramTo(i, ah, b.qpNum, 7);
    }
    expect(v.postSend(a.handle, send.ring, 0, DATAGRAMS)).toBe(DATAGRAMS);
    fabric.simulation.run();
    expect(fabric.brokenInvariants()).toEqual([]);
    const wc = new V.WcBatch(v, { capacity: 2 * DATAGRAMS });
    const n = v.pollCq(b.cq, wc.ring, 0, 2 * DATAGRAMS);
    return Array.from({ length: n }, (_, i) => wc.imm(i));
  }

  const inOrder = (numbers: number[]) => [...numbers].sort((a, b) => a - b);
  const all = Array.from({ length: DATAGRAMS }, (_, i) => i);

  test('late datagrams are overtaken, and all arrive', () => {
    const numbers = arrivals({ seed: 5, reorder: 0.05, reorderDelayNs: 1000 });
    expect(numbers).not.toEqual(all);
    expect(inOrder(numbers)).toEqual(all);
    // One step is 80.6 ns: a delay of 1000 ns is 12 positions, and two links make it 24.
    const places = numbers.map((number, place) => place - number);
    expect(Math.max(...places)).toBeGreaterThanOrEqual(12);
    expect(Math.max(...places)).toBeLessThanOrEqual(25);
  });

  test('each packet has at most one duplicate, which arrives with it', () => {
    const numbers = arrivals({ seed: 5, duplicate: 0.05 });
    expect([...new Set(numbers)]).toEqual(all);
    // Of 400, 9.75 % are duplicated; the bound is five standard deviations.
    expect(numbers.length - DATAGRAMS).toBeGreaterThan(39 - 30);
    expect(numbers.length - DATAGRAMS).toBeLessThan(39 + 30);
  });

  test('a fault does not change the random numbers of another', () => {
    const lost = (numbers: number[]) => all.filter((i) => !numbers.includes(i));
    const lossAlone = lost(arrivals({ seed: 9, loss: 0.1 }));
    expect(lossAlone.length).toBeGreaterThan(20);
    expect(lost(arrivals({ seed: 9, loss: 0.1, reorder: 0.2, duplicate: 0.2 }))).toEqual(lossAlone);
    // A packet is late when it arrives after a later one; duplicates are on time.
    const late = (numbers: number[]) => {
      let last = -1;
      return numbers.filter((number) => {
        last = Math.max(last, number);
        return number < last;
      });
    };
    const lateAlone = late(arrivals({ seed: 9, reorder: 0.1 }));
    expect(lateAlone.length).toBeGreaterThan(20);
    expect(late(arrivals({ seed: 9, reorder: 0.1, duplicate: 0.2 }))).toEqual(lateAlone);
  });

  test('the same seed gives the same faults, another seed others', () => {
    const run = (seed: number) => arrivals({ seed, reorder: 0.1, duplicate: 0.1 });
    expect(run(1)).toEqual(run(1));
    expect(run(1)).not.toEqual(run(2));
  });

  test('fault() enables and disables them on one link or on all', () => {
    expect(arrivals({ duplicate: 1 }, (fabric) => fabric.fault({ duplicate: 0 }))).toEqual(all);
    const twice = arrivals({}, (fabric) => fabric.fault({ duplicate: 1, host: 'sim1' }));
    expect(twice).toEqual(all.flatMap((i) => [i, i]));
    const late = arrivals({}, (fabric) => fabric.fault({ reorder: 0.5, delayNs: 100, host: 0 }));
    expect(late).not.toEqual(all);
    expect(inOrder(late)).toEqual(all);
  });
});

test('a duplicated atomic is executed once and returns the right value', () => {
  const [a, b, fabric] = pair({ duplicate: 1 });
  for (let i = 0; i < 20; i++)
    a.send.fetchAdd(i, SIGNALED, a.mr.addr + 8 * i, a.mr.lkey, b.mr.addr, b.mr.rkey, 1n);
  post(a);
  expect(drain(fabric, a).map((wc) => wc.status)).toEqual(Array(20).fill('SUCCESS'));
  const values = new BigUint64Array(a.mr.memory as ArrayBuffer, 0, 20);
  expect([...values]).toEqual(Array.from({ length: 20 }, (_, i) => BigInt(i)));
  expect(new BigUint64Array(b.mr.memory as ArrayBuffer, 0, 1)[0]).toBe(20n);
  expect(take(a)).toEqual([]);
});

test('traffic within one host has no link faults', () => {
  const fabric = createFabric({ autoAdvance: false, hosts: 1, reorder: 1, duplicate: 1 });
  const [a, b] = [makeEnd(fabric, 0), makeEnd(fabric, 0)];
  connect(a, b);
  a.send.write(1, SIGNALED, a.mr.addr, 5000, a.mr.lkey, b.mr.addr, b.mr.rkey);
  post(a);
  expect(drain(fabric, a).map((wc) => wc.status)).toEqual(['SUCCESS']);
  expect([...fabric.simulation.world.faults.counts]).toEqual([0, 0]);
});

test('invalid faults are rejected', () => {
  for (const options of [{ reorder: 1.1 }, { duplicate: -1 }, { reorder: 0.1, reorderDelayNs: Number.NaN }]) {
    expect(() => createFabric(options)).toThrow(/must be/);
  }
  const fabric = createFabric();
  expect(() => fabric.fault({ reorder: 2 })).toThrow('fault: reorder must be a probability from 0 to 1');
  expect(() => fabric.fault({ reorder: 0.1, delayNs: -1 })).toThrow('fault: delayNs');
  expect(() => fabric.fault({ duplicate: 0.1, host: 'sim9' })).toThrow("no host 'sim9'");
  expect(() => fabric.fault({} as { duplicate: number })).toThrow('reorder, duplicate must be given');
});
