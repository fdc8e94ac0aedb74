/**
 * Tassel as the rate limiter of the simulated NIC. Expected values were written down before the first run: those of the
 * cycle model where the profile (`minimal`) has no host or PCIe latency of its own.
 */
import { describe, expect, test } from 'vitest';
import { createFabric } from '../../../src/providers/sim/index.ts';
import { DepartureLog } from '../../../src/sim/egress/departure-log.ts';
import { cableStats } from '../../../src/sim/network/switch-checks.ts';
import type { SwitchNetwork } from '../../../src/sim/network/switches.ts';
import { override } from '../../../src/sim/profile/overrides.ts';
import { PROFILES } from '../../../src/sim/profile/profiles.ts';
import type { Qp } from '../../../src/sim/transport/qp.ts';
import { eachShort } from '../../support/variants.ts';
import { B, Lab } from '../apps.ts';
import { connect, drain, makeEnd, modify, pair, post, SIGNALED } from '../helpers.ts';

const TASSEL = { rateLimiter: 'tassel' } as const;
const PACKET = 4096 + 82;

/** Applications with these limits in Gbit/s (0: none); all packets of the senders are recorded. */
function limited(gbps: number[], more: Record<string, unknown> = {}, size = B.size) {
  const lab = new Lab({ params: override(PROFILES.minimal, { ...TASSEL, ...more }) });
  const apps = gbps.map(() => lab.add({ ...B, size }));
  const { sim } = lab;
  const qps = gbps.map((_, i) => sim.world.qps[2 * i + 1] as Qp);
  const logs = qps.map((qp, i) => {
    if (gbps[i] > 0) sim.setRate(qp, gbps[i] * 1e6, 0);
    const log = new DepartureLog();
    qp.departures = log;
    return log;
  });
  /** Times and wire bytes of the packets that left from one time to another. */
  const packets = (i: number, fromNs = 0, toNs = Number.POSITIVE_INFINITY) =>
    logs[i].list().filter(({ leftNs }) => leftNs >= fromNs && leftNs <= toNs);
  const rate = (i: number, fromNs = 0, toNs = Number.POSITIVE_INFINITY) => {
    const all = packets(i, fromNs, toNs);
    const bytes = all.slice(1).reduce((sum, { wireBytes }) => sum + wireBytes, 0);
    return (bytes * 8) / (all[all.length - 1].leftNs - all[0].leftNs);
  };
  return { lab, sim, qps, apps, packets, rate };
}

describe('rates', () => {
  eachShort(2, [100e-6, 333e-6, 7.77e-3, 1.23, 99.9])(
    '%d Gbit/s: mean within 0.1 %, gaps within a tick',
    (gbps) => {
      const gapNs = (PACKET * 8) / gbps;
      const { lab, packets, rate } = limited([gbps]);
      lab.run(1010 * gapNs);
      const all = packets(0).slice(1);
      expect(all.length).toBeGreaterThan(1000);
      expect(Math.abs(rate(0) / gbps - 1)).toBeLessThan(0.001);
      for (const [i, { leftNs, wireBytes }] of all.entries()) {
        // The size of a packet decides when the next one starts; leftNs is its end.
        if (i === 0 || wireBytes !== all[i - 1].wireBytes) continue;
        expect(Math.abs(leftNs - all[i - 1].leftNs - (wireBytes * 8) / gbps)).toBeLessThanOrEqual(4.001);
      }
    },
  );

  test('1,500 limited queue pairs: each has a limiter and is within 0.5 %', {
    tags: ['long'],
    timeout: 120_000,
  }, () => {
    const gbps = Array.from({ length: 1500 }, (_, i) => [0.01, 0.025, 0.05][i % 3]);
    const { lab, rate } = limited(gbps, { rateLimiters: 3, rateError: 0.1, rateChangeNs: 2e6 });
    lab.run(150e6);
    for (const [i, each] of gbps.entries()) expect(Math.abs(rate(i) / each - 1)).toBeLessThan(0.005);
  });

  test.each([
    [2, [90, 60, 30, 20]],
    [5, [99, 98, 97, 96, 60, 30, 20]],
  ])('Phi %d: each at r / Phi within 1 %', (phi, gbps) => {
    const { lab, rate } = limited(gbps);
    lab.run(10e6);
    for (const [i, each] of gbps.entries())
      expect(Math.abs(rate(i, 1e6) / (each / phi) - 1)).toBeLessThan(0.01);
  });

  test('an unlimited queue pair takes the rest, and the limited ones keep their rates', () => {
    const { lab, rate } = limited([10, 30, 0]);
    lab.run(10e6);
    expect(Math.abs(rate(0, 1e6) / 10 - 1)).toBeLessThan(0.005);
    expect(Math.abs(rate(1, 1e6) / 30 - 1)).toBeLessThan(0.005);
    expect(rate(2, 1e6)).toBeGreaterThan(59.4);
  });

  test('limits above the fair shares do not starve unlimited queue pairs', () => {
    const { lab, rate } = limited([95, 0]);
    lab.run(10e6);
    expect(rate(1, 1e6)).toBeGreaterThan(49);
    expect(rate(0, 1e6)).toBeGreaterThan(49);
  });

  eachShort(1, ['sp', 'ets', 'greedy'])('scheduler %s: the rate is exact', (scheduler) => {
    const { lab, rate } = limited([7, 0, 20], { scheduler, puHoldBytes: 65536 });
    lab.run(10e6);
    expect(Math.abs(rate(0, 1e6) / 7 - 1)).toBeLessThan(0.005);
    expect(Math.abs(rate(2, 1e6) / 20 - 1)).toBeLessThan(0.005);
  });
});

describe('dynamics', () => {
  test('a queue pair that joins at Phi 2 with 60 Gbps gets its first packet within 2.5 us', () => {
    for (const others of [
      [80, 60, 60],
      [20, 20, 20, 20, 20, 20, 20, 20, 20, 20],
    ]) {
      const { sim, apps, packets } = limited([...others, 60]);
      for (const app of apps.slice(0, -1)) app.start();
      sim.runUntil(1e6);
      apps.at(-1)!.start();
      sim.runUntil(1.2e6);
      const [first] = packets(others.length);
      expect(first.leftNs - (first.wireBytes * 8) / 100 - 1e6).toBeLessThanOrEqual(2500);
    }
  });

  /** Joins with a lower rate wait at most for their packet time. */
  test.each([1, 10, 30])('with %d Gbps, within l / r x Phi', (gbps) => {
    const { sim, apps, packets } = limited([80, 60, 60, gbps]);
    for (const app of apps.slice(0, -1)) app.start();
    sim.runUntil(1e6);
    apps.at(-1)!.start();
    sim.runUntil(1.2e6);
    expect(packets(3)[0].leftNs - 1e6).toBeLessThanOrEqual(((PACKET * 8) / gbps) * (2 + gbps / 100));
  });

  test('after the end of an oversubscription, 20 Gbps stay within 20 Gbps plus one packet, in any 10 us', () => {
    const { sim, qps, apps, packets } = limited([20, 90, 90, 80]);
    for (const app of apps) app.start();
    sim.runUntil(1e6);
    for (const qp of qps.slice(1)) sim.destroyQp(qp);
    sim.runUntil(3e6);
    // The port has two packets, and one of each queue pair may be on its way.
    const all = packets(0, 1e6 + 3 * 334);
    expect(all.length).toBeGreaterThan(1000);
    for (const [i, { leftNs }] of all.entries()) {
      const within = all.slice(i).filter((each) => each.leftNs < leftNs + 10e3);
      const bytes = within.slice(1).reduce((sum, { wireBytes }) => sum + wireBytes, 0);
      expect(bytes).toBeLessThanOrEqual(25_000);
    }
  });

  test('100 Kbps to 99 Gbps acts within 10 us, and back within 2 us', () => {
    const { sim, qps, apps, packets } = limited([100e-6]);
    apps[0].start();
    sim.runUntil(1e6);
    expect(packets(0).length).toBe(1);
    sim.setRate(qps[0], 99e6, 0);
    sim.runUntil(2e6);
    expect(packets(0)[1].leftNs).toBeLessThanOrEqual(1e6 + 10e3);
    expect(packets(0).length).toBeGreaterThan(2900);
    const before = packets(0).length;
    sim.setRate(qps[0], 100, 0);
    sim.runUntil(12e6);
    expect(packets(0, 2e6 + 2e3)).toHaveLength(0);
    expect(packets(0).length - before).toBeLessThanOrEqual(5);
    // What is held back at 100 Kbps goes at once when the limit is removed.
    sim.setRate(qps[0], 0, 0);
    sim.runUntil(13e6);
    expect(packets(0, 12e6)[0].leftNs).toBeLessThanOrEqual(12e6 + 10e3);
    expect(packets(0, 12e6).length).toBeGreaterThan(2900);
  });

  test('10^5 changes a second: the rate is their mean', () => {
    const { sim, qps, apps, rate } = limited([1, 30]);
    for (const app of apps) app.start();
    const rates = [1, 5, 0.2, 3, 0.8];
    for (let i = 0; i < 2000; i++) {
      sim.setRate(qps[0], rates[i % 5] * 1e6, 0);
      sim.runUntil(sim.nowNs + 10e3);
    }
    expect(Math.abs(rate(0) / 2 - 1)).toBeLessThan(0.01);
    expect(Math.abs(rate(1) / 30 - 1)).toBeLessThan(0.005);
  });
});

describe('queue pairs that come, go, and are held up', () => {
  /** Connected ends on a fabric, each with a limit in Gbit/s (0: none) and this many messages of 64 KiB. */
  function fabricOf(
    flows: { from: number; to: number; gbps: number; messages: number }[],
    more: object = {},
  ) {
    const fabric = createFabric({
      hosts: 3,
      profile: override(PROFILES.ideal, { ...TASSEL, ...more }),
      topology: 'star',
      payload: false,
      autoAdvance: false,
    });
    const logs = flows.map(({ from, to, gbps, messages }) => {
      const cap = { maxSendWr: 256 };
      const [a, b] = [makeEnd(fabric, from, { cap }), makeEnd(fabric, to, { cap })];
      connect(a, b);
      if (gbps > 0) a.v.modifyQpRateLimit(a.qp, { rateLimitKbps: gbps * 1e6 });
      const qp = fabric.simulation.world.qps[a.qpNum] as Qp;
      const log = new DepartureLog();
      qp.departures = log;
      for (let i = 0; i < messages; i++)
        a.send.write(i, SIGNALED, a.mr.addr, 65_536, a.mr.lkey, b.mr.addr, b.mr.rkey);
      expect(post(a)).toBe(messages);
      return { a, qp, log };
    });
    return { fabric, flows: logs };
  }

  /** The most that leaves within 10 us after a time, less a packet, in Gbit/s. */
  const mostGbps = (log: DepartureLog, fromNs: number) => {
    const all = log.list().filter(({ leftNs }) => leftNs >= fromNs);
    expect(all.length).toBeGreaterThan(100);
    const bytes = all.map(({ leftNs }, i) =>
      all
        .slice(i + 1)
        .filter((each) => each.leftNs < leftNs + 10e3)
        .reduce((sum, { wireBytes }) => sum + wireBytes, 0),
    );
    return (Math.max(...bytes) * 8) / 10e3;
  };

  test('those that run out of messages do not count in Phi any more', () => {
    const { fabric, flows } = fabricOf([
      { from: 0, to: 1, gbps: 20, messages: 80 },
      { from: 0, to: 1, gbps: 90, messages: 50 },
      { from: 0, to: 2, gbps: 90, messages: 50 },
    ]);
    fabric.simulation.runUntil(2e6);
    const ends = flows.slice(1).map(({ log }) => log.list().at(-1)!.leftNs);
    const { leftNs } = flows[0].log.list().at(-1)!;
    expect(leftNs).toBeGreaterThan(Math.max(...ends) + 500e3);
    const after = flows[0].log.list().filter((each) => each.leftNs > Math.max(...ends) + 1000);
    const bytes = after.slice(1).reduce((sum, { wireBytes }) => sum + wireBytes, 0);
    expect(Math.abs((bytes * 8) / (after.at(-1)!.leftNs - after[0].leftNs) / 20 - 1)).toBeLessThan(0.01);
  });

  test('one that the network held up does not make up for it with a burst', () => {
    // Together they exceed the link of host 2, whose switch pauses both senders.
    const { fabric, flows } = fabricOf(
      [
        { from: 0, to: 2, gbps: 60, messages: 250 },
        { from: 1, to: 2, gbps: 0, messages: 120 },
      ],
      { pfcXoffBytes: 20_000, pfcXonBytes: 16_000 },
    );
    fabric.simulation.runUntil(5e6);
    const end = flows[1].log.list().at(-1)!.leftNs;
    const held = flows[0].log.list().filter(({ leftNs }) => leftNs < end);
    // It lost more than 10 us.
    expect((held.length * PACKET * 8) / 60).toBeLessThan(end - 10e3);
    // More than 60 Gbps x 10 us: two packets that a pause kept in the FIFO, and what limitLag() leaves, which is one
    // packet and 1 us at its rate.
    expect(mostGbps(flows[0].log, end)).toBeLessThanOrEqual(60 + (3 * PACKET * 8 + 60e3) / 10e3);
    expect(mostGbps(flows[0].log, end + 20e3)).toBeLessThanOrEqual(60);
  });

  test('the smallest finish time goes first: a fast queue pair does not wait for many slow ones', () => {
    const { sim, apps, packets } = limited([60, ...Array.from({ length: 60 }, () => 1)]);
    for (const app of apps) app.start();
    sim.runUntil(2e6);
    const times = packets(0, 0.5e6).map(({ leftNs }) => leftNs);
    expect(times.length).toBeGreaterThan(2000);
    // Its packet time, times Phi, and what is in the FIFO.
    const most = ((PACKET * 8) / 60) * 1.2 + 3 * ((PACKET * 8) / 100);
    expect(Math.max(...times.slice(1).map((time, i) => time - times[i]))).toBeLessThanOrEqual(most);
  });

  test('new queue pairs take the places of destroyed ones, and have their own shares', () => {
    const { lab, sim, qps, apps } = limited([60, ...Array.from({ length: 40 }, () => 30)]);
    for (const app of apps) app.start();
    for (let round = 0; round < 5; round++) {
      // At first, when all 41 have an eligible packet.
      sim.runUntil(sim.nowNs + (round === 0 ? 2e3 : 100e3 + 77 * round));
      for (const qp of qps.splice(1)) sim.destroyQp(qp);
      for (const gbps of [90, 80, 70, 60, 40]) {
        const number = sim.world.qps.length;
        const app = lab.add(B);
        const qp = sim.world.qps[number] as Qp;
        sim.setRate(qp, gbps * 1e6, 0);
        qps.push(qp);
        app.start();
      }
    }
    const logs = qps.map((qp) => {
      const log = new DepartureLog();
      qp.departures = log;
      return log;
    });
    const from = sim.nowNs + 500e3;
    sim.runUntil(from + 5e6);
    for (const [i, gbps] of [60, 90, 80, 70, 60, 40].entries()) {
      const all = logs[i].list().filter(({ leftNs }) => leftNs >= from);
      const bytes = all.slice(1).reduce((sum, { wireBytes }) => sum + wireBytes, 0);
      expect(Math.abs((bytes * 8) / (all.at(-1)!.leftNs - all[0].leftNs) / (gbps / 4) - 1)).toBeLessThan(
        0.01,
      );
    }
  });
});

test('a destroyed queue pair whose packet waits for its turn leaves nothing to the one that takes its place', () => {
  const { lab, sim, qps, apps } = limited([99, 99, 99, 1]);
  for (const app of apps) app.start();
  for (let i = 0; i < 50; i++) {
    // The packet with 1 Gbps is eligible, and has the largest finish time for 33 us x Phi.
    sim.runUntil(sim.nowNs + 20e3 + 1001 * (i % 7));
    sim.destroyQp(qps[3]);
    const number = sim.world.qps.length;
    const app = lab.add(B);
    qps[3] = sim.world.qps[number] as Qp;
    sim.setRate(qps[3], 1e6, 0);
    app.start();
  }
  const logs = qps.map((qp) => {
    const log = new DepartureLog();
    qp.departures = log;
    return log;
  });
  sim.runUntil(sim.nowNs + 20e6);
  for (const [i, gbps] of [99, 99, 99, 1].entries()) {
    const all = logs[i].list();
    const bytes = all.slice(1).reduce((sum, { wireBytes }) => sum + wireBytes, 0);
    const rate = (bytes * 8) / (all.at(-1)!.leftNs - all[0].leftNs);
    expect(Math.abs(rate / (gbps / 2.98) - 1)).toBeLessThan(0.01);
  }
});

describe('verbs', () => {
  const limit = (end: ReturnType<typeof makeEnd>, rateLimitKbps: number) =>
    end.v.modifyQpRateLimit(end.qp, { rateLimitKbps });

  test('reset and destroyed while a packet is held back: nothing is sent, and the queue pair works again without limit', () => {
    const profile = override(PROFILES.minimal, TASSEL);
    for (const destroy of [false, true]) {
      const [a, b, fabric] = pair({ profile });
      const other = makeEnd(fabric, 0);
      limit(a, 1);
      const writes = (count: number) => {
        for (let i = 0; i < count; i++)
          a.send.write(i, SIGNALED, a.mr.addr, 1000, a.mr.lkey, b.mr.addr, b.mr.rkey);
        post(a);
      };
      writes(3);
      fabric.advance(1e6);
      if (destroy) {
        a.v.destroyQp(a.qp);
        fabric.advance(60e9);
        expect(() => other.v.destroyQp(other.qp)).not.toThrow();
        continue;
      }
      modify(a, { qpState: 0 });
      fabric.advance(60e9);
      expect(drain(fabric, a)).toEqual([]);
      expect(a.v.queryQp(a.qp).attr.rateLimitKbps ?? 0).toBe(0);
    }
  });

  test('a profile that has another scheduler by queue pair is rejected', () => {
    expect(() => override(PROFILES['cx6-100g'], { ...TASSEL, scheduler: 'palos' })).toThrow(
      /exclude each other/,
    );
  });
});

/** 32 hosts write to one more host for 60 ms, with DCQCN. From 30 ms on: their bytes, and the queue in the switch. */
function incast(set: Record<string, unknown>) {
  const senders = 32;
  const fabric = createFabric({
    hosts: senders + 1,
    topology: 'star',
    profile: override(PROFILES['cx6-100g'], { congestionControl: 'dcqcn', ...set }),
    payload: false,
    autoAdvance: false,
  });
  const bytes = 1 << 20;
  const pairs = Array.from({ length: senders }, (_, host) => {
    const ends = [makeEnd(fabric, host, { bytes }), makeEnd(fabric, senders, { bytes })] as const;
    connect(...ends);
    return ends;
  });
  for (const [a, b] of pairs) {
    for (let i = 0; i < 64; i++) a.send.write(i, SIGNALED, a.mr.addr, bytes, a.mr.lkey, b.mr.addr, b.mr.rkey);
    expect(post(a)).toBe(64);
  }
  const { world } = fabric.simulation;
  const network = world.switchNetwork as SwitchNetwork;
  const sent = () => world.ports.filter((_, id) => id % 2 === 0).map((port) => port.bytesOut[0]);
  fabric.simulation.runUntil(30e6);
  const before = sent();
  const queues: number[] = [];
  for (let i = 0; i < 3000; i++) {
    fabric.simulation.runUntil(30e6 + (i + 1) * 10e3);
    queues.push(network.portOfHost(senders).queuedBytes);
  }
  const rates = sent()
    .slice(0, senders)
    .map((each, i) => each - before[i]);
  expect(fabric.brokenInvariants()).toEqual([]);
  const [hot] = cableStats(network).filter(({ to }) => to === `host${senders}`);
  return {
    jain: sum(rates) ** 2 / (senders * sum(rates.map((rate) => rate * rate))),
    gbps: (sum(rates) * 8) / 30e6,
    meanQueueBytes: sum(queues) / queues.length,
    mostQueueBytes: Math.max(...queues),
    everQueueBytes: hot.maxQueueBytes,
    drops: hot.drops,
  };
}

const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);

test('DCQCN, 32 to 1: Jain at least 0.95, and the queue of the switch is no longer than with the bucket', {
  tags: ['long'],
  timeout: 120_000,
}, () => {
  const [bucket, tassel] = [incast({}), incast(TASSEL)];
  expect(tassel.jain).toBeGreaterThanOrEqual(0.95);
  expect(tassel.drops).toBe(0);
  expect(tassel.gbps).toBeGreaterThan(50);
  expect(tassel.everQueueBytes).toBeLessThanOrEqual(bucket.everQueueBytes);
  expect(tassel.mostQueueBytes).toBeLessThanOrEqual(bucket.mostQueueBytes);
  expect(tassel.meanQueueBytes).toBeLessThanOrEqual(bucket.meanQueueBytes);
});
