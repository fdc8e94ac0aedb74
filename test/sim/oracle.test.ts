/**
 * The simulator's minimal NIC against a second model of it (oracle/model.ts), and both against closed forms: within
 * 1 %, fixed before the first run. Think times are the same in both, drawn from the simulator's own streams.
 */
// @module-tag wide
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { RandomStream } from '../../src/sim/kernel/random.ts';
import { override } from '../../src/sim/profile/overrides.ts';
import { MINIMAL_NIC } from '../../src/sim/profile/profiles.ts';
import { type AppOptions, B, D, Lab, M } from './apps.ts';
import { ORACLE_NIC, type OracleApp, type OracleNic, runOracle } from './oracle/model.ts';
import { equalShare, largeShare } from './oracle/shares.ts';

const TOLERANCE = 0.01;
const RUNS = Number(process.env.ISOVERBS_RUNS ?? 12);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_122);

interface Figures {
  mmps: number;
  gbps: number;
  meanLatencyNs: number;
}

function simulate(apps: AppOptions[], seed: number, durationNs: number, nic: OracleNic): Figures[] {
  const params = override(MINIMAL_NIC, { wqeGapNs: nic.stepNs, mtuBytes: nic.mtuBytes });
  const lab = new Lab({ seed, params });
  const running = apps.map((app) => lab.add(app));
  lab.run(durationNs);
  return running.map(({ mmps, gbps, meanLatencyNs }) => ({ mmps, gbps, meanLatencyNs }));
}

function predict(apps: AppOptions[], seed: number, durationNs: number, nic: OracleNic): Figures[] {
  const { warmupNs } = new Lab();
  const models = apps.map(({ size: sizeBytes, batch, depth, thinkNs = 0 }, i): OracleApp => {
    const random = new RandomStream(seed, 'app', i);
    const think = thinkNs === 0 ? undefined : () => random.exponential(thinkNs);
    return { sizeBytes, batch, depth, thinkNs: think };
  });
  return runOracle(models, { warmupNs, endNs: warmupNs + durationNs, nic });
}

function differences(simulated: Figures[], predicted: Figures[]): string[] {
  const wrong: string[] = [];
  for (const [i, figures] of simulated.entries()) {
    for (const [name, value] of Object.entries(figures)) {
      const expected = predicted[i][name as keyof Figures];
      // Only applications of depth 1 have a latency.
      if (name === 'meanLatencyNs' && Number.isNaN(value) && Number.isNaN(expected)) continue;
      if (!(Math.abs(value / expected - 1) <= TOLERANCE))
        wrong.push(`app ${i}: ${name} ${value}, the oracle says ${expected}`);
    }
  }
  return wrong;
}

function compare(apps: AppOptions[], seed: number, durationNs: number, nic = ORACLE_NIC): void {
  const simulated = simulate(apps, seed, durationNs, nic);
  expect(differences(simulated, predict(apps, seed, durationNs, nic))).toEqual([]);
}

const times = (count: number, app: AppOptions) => Array<AppOptions>(count).fill(app);

describe('the applications of the papers', () => {
  const mixes = {
    B: [B],
    M: [M],
    D: [D],
    'B + M': [B, M],
    'B + D': [B, D],
    'B + M + D': [B, M, D],
    '12 M': times(12, M),
    '16 B + D': [...times(16, B), D],
  };
  for (const [name, apps] of Object.entries(mixes)) {
    test(name, () => compare(apps, 1, name === '12 M' ? 1e6 : 10e6), 60_000);
  }
});

const bulk = fc.record({
  size: fc.integer({ min: 8192, max: 1 << 18 }),
  batch: fc.constant(1),
  depth: fc.integer({ min: 2, max: 4 }),
});
const stream = fc
  .record({
    size: fc.oneof(fc.integer({ min: 1, max: 64 }), fc.integer({ min: 1, max: 10_000 })),
    batch: fc.integer({ min: 1, max: 32 }),
    batches: fc.integer({ min: 2, max: 8 }),
  })
  .map(({ size, batch, batches }) => ({ size, batch, depth: batch * batches }));
const pingPong = fc.record({
  size: fc.integer({ min: 1, max: 4096 }),
  batch: fc.constant(1),
  depth: fc.constant(1),
  thinkNs: fc.integer({ min: 100, max: 1000 }),
});
const mix = fc
  .tuple(
    fc.array(bulk, { maxLength: 4 }),
    fc.array(stream, { maxLength: 6 }),
    fc.array(pingPong, { maxLength: 3 }),
  )
  .map(([bulks, streams, pingPongs]): AppOptions[] => [...bulks, ...streams, ...pingPongs])
  .filter((apps) => apps.length > 0);

test(`random mixes (seed ${SEED})`, () => {
  fc.assert(
    fc.property(mix, fc.integer({ min: 1, max: 1e6 }), (apps, seed) => compare(apps, seed, 10e6)),
    { numRuns: RUNS, seed: SEED },
  );
}, 180_000);

describe('closed forms: without a step, each visit sends one packet', () => {
  const small = (size: number): AppOptions => ({ size, batch: 32, depth: 128 });
  const large: AppOptions = { size: 1 << 18, batch: 1, depth: 4 };
  test.each([
    [1, 4096, 1, 64],
    [1, 4096, 16, 512],
    [2, 4096, 8, 4096],
    [4, 1024, 16, 256],
    [1, 2048, 32, 1000],
    [8, 1024, 1, 1024],
  ])('%i large at MTU %i next to %i small of %i B', (larges, mtuBytes, smalls, sizeBytes) => {
    const apps = [...times(larges, large), ...times(smalls, small(sizeBytes))];
    const expected = largeShare(larges, mtuBytes, smalls, sizeBytes);
    const nic = { ...ORACLE_NIC, stepNs: 0, mtuBytes };
    for (const figures of [simulate(apps, 1, 4e6, nic), predict(apps, 1, 4e6, nic)]) {
      const gbps = figures.map((app) => app.gbps);
      const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);
      const share = sum(gbps.slice(0, larges)) / sum(gbps);
      expect(Math.abs(share / expected - 1)).toBeLessThanOrEqual(TOLERANCE);
    }
  });

  test.each([1, 3, 15])('one queue pair next to %i identical ones', (others) => {
    const apps = times(1 + others, large);
    const nic = { ...ORACLE_NIC, stepNs: 0 };
    for (const figures of [simulate(apps, 1, 4e6, nic), predict(apps, 1, 4e6, nic)]) {
      const total = figures.reduce((sum, app) => sum + app.gbps, 0);
      expect(Math.abs(figures[0].gbps / total / equalShare(others) - 1)).toBeLessThanOrEqual(TOLERANCE);
    }
  });
});
