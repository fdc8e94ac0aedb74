/** B, M and D together: if M's headers were not counted, the FIFO would fill up on a slow link. */
import { expect, test } from 'vitest';
import { parseApp } from '../../src/mix/parse.ts';
import { runMix } from '../../src/mix/run.ts';
import { DEFAULTS } from '../../src/mix/spec.ts';

const APPS = ['B:size=1MiB', 'M:size=16', 'D:size=16,think=1us'].map(parseApp);

async function run(profile: string, policy: string) {
  const result = await runMix({
    ...DEFAULTS,
    profile,
    policy,
    payload: false,
    apps: APPS,
    durationNs: 4e6,
    warmupNs: 1e6,
  });
  const [b, m, d] = result.apps;
  return { gbps: b.throughputGbps, mmps: m.messageRateMmps, us: d.latencyUs?.avg ?? Number.NaN };
}

test.each([
  ['cx6-100g', 85, 12, 0.4],
  ['cx5-40g', 28, 9.5, 0.83],
])(
  '%s: B gets %d Gbit/s, M %d M/s, and D at most %d of its bare latency',
  async (profile, gbps, mmps, part) => {
    const [bare, perf] = [await run(profile, 'none'), await run(profile, 'perf')];
    expect(perf.gbps).toBeGreaterThan(gbps);
    expect(perf.mmps).toBeGreaterThan(mmps);
    expect(perf.us / bare.us).toBeLessThan(part);
  },
);
