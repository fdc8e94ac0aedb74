/**
 * The rate that DCQCN gives one queue pair, against its formulas; and mixtures that meet at a switch. Expected
 * values were written down before the first run: closed forms for one queue pair; Jain's index for shares, in a
 * window that begins when the first cuts (about 1 ms) and the recovery from them (fast recovery takes five periods
 * of 300 us) are over.
 */
import { describe, expect, test } from 'vitest';
import { runMix } from '../../src/mix/run.ts';
import type { AppSpec, MixSpec } from '../../src/mix/spec.ts';
import { Dcqcn } from '../../src/sim/network/dcqcn.ts';
import { PROFILES } from '../../src/sim/profile/profiles.ts';
import { eachShort } from '../support/variants.ts';

const PARAMS = PROFILES['cx6-100g'];

/** A queue pair at 100 Gbit/s, and its clock. */
function flow(changes: Partial<typeof PARAMS> = {}) {
  const clock = new Float64Array(1);
  const due = new Float64Array(1);
  const dcqcn = new Dcqcn({ ...PARAMS, ...changes });
  return {
    dcqcn,
    due,
    clock,
    notifyAt(timeNs: number) {
      clock[0] = timeNs;
      dcqcn.notified(clock);
    },
    rateAt(timeNs: number): number {
      clock[0] = timeNs;
      dcqcn.catchUp(clock);
      return dcqcn.rateGbps;
    },
  };
}

describe('the rate of one queue pair', () => {
  test('the first notification halves it; alpha then decays, and so do the cuts', () => {
    const { dcqcn, notifyAt, rateAt } = flow();
    expect(dcqcn.rateGbps).toBe(Number.POSITIVE_INFINITY);
    notifyAt(1000);
    expect(rateAt(1000)).toBe(50);
    // 50 periods of 1 us, the first of them with a notification: alpha = (255/256)^49.
    notifyAt(51_000);
    const alpha = (255 / 256) ** 49;
    expect(dcqcn.alpha).toBeCloseTo(alpha, 12);
    expect(rateAt(51_000)).toBeCloseTo(50 * (1 - alpha / 2), 9);
  });

  test('it recovers half of the distance per period, then grows in small steps, then in larger ones', () => {
    const { notifyAt, rateAt } = flow();
    notifyAt(0);
    notifyAt(50_000);
    const cut = rateAt(50_000);
    for (let period = 1; period <= 5; period++)
      expect(rateAt(50_000 + period * 300_000)).toBeCloseTo(50 - (50 - cut) / 2 ** period, 9);
    const recovered = rateAt(1_550_000);
    expect(rateAt(1_850_000)).toBeCloseTo((recovered + 50.02) / 2, 9);
    expect(rateAt(2_150_000)).toBeCloseTo(((recovered + 50.02) / 2 + 50.22) / 2, 9);
  });

  test('catching up late equals running timers, and line rate is the upper bound', () => {
    const [late, early] = [flow(), flow()];
    for (const { notifyAt } of [late, early]) {
      notifyAt(0);
      notifyAt(50_000);
    }
    for (let timeNs = 50_000; timeNs < 20e6; timeNs += 7777) early.rateAt(timeNs);
    expect(late.rateAt(20e6)).toBe(early.rateAt(20e6));
    expect(late.rateAt(1e9)).toBe(Number.POSITIVE_INFINITY);
    late.notifyAt(1e9 + 1);
    expect(late.rateAt(1e9 + 1)).toBe(50);
  });

  test('two notifications in less than the decrease timer: the second cut waits for the timer', () => {
    const { notifyAt, rateAt } = flow();
    notifyAt(0);
    notifyAt(1500);
    expect(rateAt(3999)).toBe(50);
    // At 4 us alpha is 255/256 to the third: the notification at 1.5 us counts in the period that ends at 2 us.
    const g = 1 / 256;
    const atOne = 1;
    const atTwo = atOne * (1 - g) + g;
    expect(rateAt(4000)).toBeCloseTo(50 * (1 - (atTwo * (1 - g) ** 2) / 2), 9);
  });

  test('it never falls below the minimum rate', () => {
    const { notifyAt, rateAt } = flow({ dcqcnMinMbps: 700 });
    for (let i = 0; i < 1000; i++) notifyAt(i * 4000);
    expect(rateAt(4e6)).toBeCloseTo(0.7, 12);
  });

  test('packets are spaced by the rate', () => {
    const { dcqcn, clock, due, notifyAt } = flow();
    notifyAt(0);
    expect(dcqcn.allows(clock, due)).toBe(true);
    dcqcn.count(4178, clock);
    expect(dcqcn.allows(clock, due)).toBe(false);
    expect(due[0]).toBeCloseTo((4178 * 8) / 50, 9);
    clock[0] = due[0];
    expect(dcqcn.allows(clock, due)).toBe(true);
  });
});

/** `senders` bandwidth applications, each on its own host, which send to one more host. */
function incast(senders: number, set: Record<string, unknown>, more: Partial<MixSpec> = {}): MixSpec {
  const apps = Array.from({ length: senders }, (_, i): AppSpec => ({ kind: 'B', host: i, to: senders }));
  return {
    profile: 'cx6-100g',
    set,
    policy: 'none',
    durationNs: 20e6,
    warmupNs: 10e6,
    seed: 1,
    hosts: senders + 1,
    payload: false,
    apps,
    ...more,
  };
}

const DCQCN = { congestionControl: 'dcqcn' };
const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);
const jain = (rates: number[]) => sum(rates) ** 2 / (rates.length * sum(rates.map((rate) => rate * rate)));
/** Payload that 100 Gbit/s carry in full packets; the first of 1 MiB has 16 bytes more. */
const LINE_GBPS = 98.03;

describe('many senders, one receiver', () => {
  eachShort(1, [
    [2, 20e6, 10e6],
    [32, 60e6, 30e6],
  ])('%i with DCQCN: fair shares, and nothing is lost', async (senders, durationNs, warmupNs) => {
    const run = await runMix(incast(senders, DCQCN, { durationNs, warmupNs }));
    const rates = run.apps.map((app) => app.throughputGbps);
    expect(run.invariants).toEqual([]);
    expect(jain(rates)).toBeGreaterThanOrEqual(0.95);
    // Per direction, the link is neither idle most of the time nor used beyond its rate.
    expect(sum(rates)).toBeGreaterThan(50);
    expect(sum(rates)).toBeLessThanOrEqual(LINE_GBPS * 1.001);
    // Marks fall early: links count them in the window, so here it begins with the run.
    const first = await runMix(incast(senders, DCQCN, { durationNs: 1e6, warmupNs: 1000 }));
    expect(first.links.find(({ to }) => to === `host${senders}`)?.marks).toBeGreaterThan(0);
    expect(sum(run.links.map(({ drops }) => drops))).toBe(0);
  });

  test.each([2, 32])(
    '%i with PFC only: nothing is lost, the link is saturated, shares are equal',
    async (senders) => {
      const run = await runMix(incast(senders, {}, { durationNs: 8e6, warmupNs: 2e6 }));
      const rates = run.apps.map((app) => app.throughputGbps);
      expect(run.invariants).toEqual([]);
      expect(jain(rates)).toBeGreaterThanOrEqual(0.99);
      expect(Math.abs(sum(rates) / LINE_GBPS - 1)).toBeLessThan(0.01);
      expect(sum(run.links.map(({ drops }) => drops))).toBe(0);
      const paused = run.links.filter(({ from, pauses }) => from.startsWith('host') && pauses > 0);
      expect(paused.length).toBe(senders);
    },
  );

  test.each(['write' as const, 'read' as const])(
    '%s: senders slow down before the switch has to pause them',
    async (op) => {
      const apps = [1, 2].map(
        (host): AppSpec => (op === 'read' ? { kind: 'B', op, to: host } : { kind: 'B', op, host, to: 0 }),
      );
      const pauses = async (set: Record<string, unknown>) => {
        // Room for 3 MB before a pause.
        const changes = { pfcXoffBytes: 1.5e6, pfcXonBytes: 1.4e6, ...set };
        const run = await runMix(incast(2, changes, { apps, durationNs: 8e6, warmupNs: 2e6 }));
        expect(run.invariants).toEqual([]);
        return sum(run.links.map((link) => link.pauses));
      };
      expect(await pauses(DCQCN)).toBe(0);
      expect(await pauses({})).toBeGreaterThan(0);
    },
  );

  test('with a rate limit as well, the lower rate applies', async () => {
    const apps: AppSpec[] = [
      { kind: 'B', host: 0, to: 2, rateGbps: 10 },
      { kind: 'B', host: 1, to: 2 },
    ];
    const [limited, free] = (await runMix(incast(2, { ...DCQCN, rateError: 0, rateChangeNs: 0 }, { apps })))
      .apps;
    expect(limited.throughputGbps).toBeLessThanOrEqual(10 * 0.9803 * 1.001);
    expect(free.throughputGbps).toBeGreaterThan(limited.throughputGbps);
  });

  test('the same seed gives the same trace with and without payload; another seed gives another', async () => {
    const trace = async (more: Partial<MixSpec>) =>
      (await runMix(incast(4, DCQCN, { durationNs: 1e6, warmupNs: 0.2e6, ...more }))).traceHash;
    const first = await trace({});
    expect(await trace({})).toBe(first);
    expect(await trace({ payload: true })).toBe(first);
    expect(await trace({ seed: 2 })).not.toBe(first);
  });
});
