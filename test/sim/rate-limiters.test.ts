/**
 * Hardware rate limiters: their number, accuracy and delay. Expected values were written down before the
 * first run.
 */
import { describe, expect, test } from 'vitest';
import { Limiters } from '../../src/sim/egress/rate-limiters.ts';
import { RandomStream } from '../../src/sim/kernel/random.ts';
import { override } from '../../src/sim/profile/overrides.ts';
import { PROFILES } from '../../src/sim/profile/profiles.ts';
import * as V from '../../src/verbs/index.ts';
import { pathTo, toRts } from '../support/to-rts.ts';
import { B, Lab } from './apps.ts';
import { drain, type End, makeEnd, modify, pair, post, SIGNALED } from './helpers.ts';

const code = (name: string, errno: number) => expect.objectContaining({ code: `ISO_ERR_${name}`, errno });
/** Payload share of a rate, which counts headers. */
const PAYLOAD = 4096 / (4096 + 78);

describe('accuracy', () => {
  const take = (count: number, seed: number, rateError = 0.1) => {
    const params = override(PROFILES.minimal, { rateLimiters: 1000, rateError });
    const limiters = new Limiters(params, new RandomStream(seed, 'limiter', 0));
    return Array.from({ length: count }, () => limiters.take());
  };

  test('the errors of 1,000 limiters are uniform within 10 % and reproducible from the seed', () => {
    const factors = take(1000, 1).map(({ factor }) => factor);
    const sorted = [...factors].sort((x, y) => x - y);
    for (const [i, factor] of sorted.entries()) {
      // Kolmogorov-Smirnov: one seed in a thousand would exceed 1.95 / sqrt(1000).
      expect(Math.abs((factor - 0.9) / 0.2 - i / 1000)).toBeLessThan(0.0617);
    }
    expect(sorted[0]).toBeGreaterThanOrEqual(0.9);
    expect(sorted[999]).toBeLessThanOrEqual(1.1);
    expect(take(1000, 1).map(({ factor }) => factor)).toEqual(factors);
    expect(take(1000, 2).map(({ factor }) => factor)).not.toEqual(factors);
    expect(take(10, 1, 0).every(({ factor }) => factor === 1)).toBe(true);
  });

  test('a queue pair sends at the constant rate of its limiter', () => {
    const params = override(PROFILES.minimal, { rateLimiters: 4, rateError: 0.1 });
    const lab = new Lab({ params });
    for (let i = 0; i < 4; i++) lab.add(B);
    const { sim } = lab;
    const qps = [0, 1, 2, 3].map((i) => ({ from: sim.world.qps[2 * i + 1]!, to: sim.world.qps[2 * i + 2]! }));
    for (const { from } of qps) sim.setRate(from, 1_000_000, 0);
    const factors = qps.map(({ from }) => from.limiter!.factor);
    expect(new Set(factors).size).toBe(4);
    const rates = (durationNs: number) => {
      const before = qps.map(({ to }) => to.deliveredBytes);
      sim.runUntil(sim.nowNs + durationNs);
      return qps.map(({ to }, i) => ((to.deliveredBytes - before[i]) * 8) / durationNs);
    };
    lab.run(0);
    for (const [i, gbps] of rates(20e6).entries()) expect(gbps / (PAYLOAD * factors[i])).toBeCloseTo(1, 2);
    // Another rate has the same error, and the first free limiter is reused.
    for (const { from } of qps) sim.setRate(from, 4_000_000, 0);
    for (const [i, gbps] of rates(20e6).entries())
      expect(gbps / (4 * PAYLOAD * factors[i])).toBeCloseTo(1, 2);
    sim.setRate(qps[2].from, 0, 0);
    expect(qps[2].from.limiter).toBeNull();
    sim.setRate(qps[2].from, 1_000_000, 0);
    expect(qps[2].from.limiter!.factor).toBe(factors[2]);
  });
});

describe('a change takes effect after a delay', () => {
  const rateChangeNs = 2e6;
  const start = () => {
    const lab = new Lab({ params: override(PROFILES.minimal, { rateLimiters: 4, rateChangeNs }) });
    lab.add(B);
    lab.run(0);
    const { sim } = lab;
    const [qp, peer] = [sim.world.qps[1]!, sim.world.qps[2]!];
    /** Payload rate between two times. */
    const gbps = (fromNs: number, toNs: number) => {
      sim.runUntil(fromNs);
      const before = peer.deliveredBytes;
      sim.runUntil(toNs);
      return ((peer.deliveredBytes - before) * 8) / (toNs - fromNs);
    };
    return { sim, qp, gbps };
  };

  test('the queue pair sends at the old rate until then; the same holds for removing the limit', () => {
    const { sim, qp, gbps } = start();
    const t = sim.nowNs;
    sim.setRate(qp, 10_000_000, 0);
    expect(gbps(t, t + 1.99e6)).toBeGreaterThan(97);
    // Packets in the port at 2 ms are still sent: 48 KB in 4 us.
    expect(gbps(t + 2.01e6, t + 4e6) / (10 * PAYLOAD)).toBeCloseTo(1, 2);
    sim.setRate(qp, 0, 0);
    expect(gbps(t + 4e6, t + 5.99e6) / (10 * PAYLOAD)).toBeCloseTo(1, 2);
    expect(gbps(t + 6.01e6, t + 7e6)).toBeGreaterThan(97);
    expect(qp.limiter).toBeNull();
  });

  test('of several pending changes, the last one counts', () => {
    const { sim, qp, gbps } = start();
    const t = sim.nowNs;
    sim.setRate(qp, 10_000_000, 0);
    sim.runUntil(t + 1e6);
    sim.setRate(qp, 20_000_000, 0);
    expect(gbps(t + 1e6, t + 2.99e6)).toBeGreaterThan(97);
    expect(gbps(t + 3.01e6, t + 5e6) / (20 * PAYLOAD)).toBeCloseTo(1, 2);
    // Removed and set again before the removal took effect: the limiter was never released.
    sim.setRate(qp, 0, 0);
    sim.setRate(qp, 5_000_000, 0);
    expect(gbps(t + 5e6, t + 6.99e6) / (20 * PAYLOAD)).toBeCloseTo(1, 2);
    expect(gbps(t + 7.01e6, t + 9e6) / (5 * PAYLOAD)).toBeCloseTo(1, 2);
    expect(qp.limiter).not.toBeNull();
  });
});

describe('the number of limiters is fixed', () => {
  const limit = (end: End, rateLimitKbps: number) => end.v.modifyQpRateLimit(end.qp, { rateLimitKbps });

  const grounds = (rateLimiters: number) => {
    const profile = override(PROFILES.minimal, { rateLimiters });
    const [a, b, fabric] = pair({ profile });
    return { a, b, fabric };
  };

  test('each NIC has its own limiters, and a limited queue pair may change its rate', () => {
    const { a, b } = grounds(1);
    limit(b, 1000);
    for (const kbps of [1000, 2000, 0, 3000]) limit(a, kbps);
    expect(a.v.queryQp(a.qp).attr.rateLimitKbps).toBe(3000);
  });

  test('both verbs reject one limit too many without any change; reset and destroyed queue pairs return theirs', () => {
    const { a, b, fabric } = grounds(1);
    const other = makeEnd(fabric, 0);
    toRts(other.v, other.qp, { destQpNum: b.qpNum, ah: pathTo(b.v.queryGid(b.context, 1, 0).gid) });
    limit(a, 1000);
    const refused = code('NO_RESOURCES', V.ENOMEM);
    expect(() => limit(other, 1000)).toThrow(refused);
    expect(() => modify(other, { qpState: V.IBV_QPS_RTS, rateLimitKbps: 1000 })).toThrow(refused);
    expect(other.v.queryQp(other.qp).attr.rateLimitKbps ?? 0).toBe(0);
    expect(() => limit(other, 0)).not.toThrow();
    modify(a, { qpState: V.IBV_QPS_RESET });
    limit(other, 1000);
    expect(other.v.queryQp(other.qp).attr.rateLimitKbps).toBe(1000);
    other.v.destroyQp(other.qp);
    expect(fabric.simulation.world.hosts[0].limiters.hasFree).toBe(true);
  });

  test('a device without limiters rejects limits', () => {
    const { a, b, fabric } = grounds(0);
    expect(a.v.queryDeviceEx(a.context).packetPacing).toEqual({
      minKbps: 0,
      maxKbps: 0,
      supportedQpTypes: 0,
    });
    expect(() => limit(a, 1000)).toThrow(code('UNSUPPORTED', V.EOPNOTSUPP));
    a.send.write(1, SIGNALED, a.mr.addr, 100, a.mr.lkey, b.mr.addr, b.mr.rkey);
    post(a);
    expect(drain(fabric, a)).toMatchObject([{ status: 'SUCCESS' }]);
  });
});
