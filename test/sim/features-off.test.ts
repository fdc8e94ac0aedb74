/**
 * A rich profile with its features disabled one by one equals the minimal NIC: rates and latencies within 1
 * %, fixed before the first run. (The minimal profile itself keeps its exact traces: golden.test.ts.)
 */
import { describe, expect } from 'vitest';
import { override } from '../../src/sim/profile/overrides.ts';
import { MINIMAL_NIC, PROFILES } from '../../src/sim/profile/profiles.ts';
import { eachShort } from '../support/variants.ts';
import { type AppOptions, B, D, Lab, M } from './apps.ts';

const TOLERANCE = 0.01;
const DURATION_NS = 5e6;
const NEVER = Number.POSITIVE_INFINITY;

/** On the wire, an acknowledgement takes 86 B plus the cable; in the minimal NIC it takes ackReturnNs. */
const ACK_NS = (86 * 8) / 100;

/** The remaining differences are units, acknowledgement packets and their coalescing. */
const OFF = {
  mmioNs: 350,
  cqeWriteNs: 150 - ACK_NS,
  dmaReadNs: 0,
  dmaWriteNs: 0,
  pcieJitter: 0,
  pcieGbps: NEVER,
  qpcEntries: NEVER,
  mptEntries: NEVER,
  mttEntries: NEVER,
  rxGapNs: 0,
  propagationNs: 200,
  rxNs: 0,
  headerBytes: 78,
  rethBytes: 0,
};

/** PCIe is enabled, with batches, limits and read-ahead, but too fast to matter. */
const FAST_PCIE = { ...OFF, dmaReadNs: 0.5, dmaWriteNs: 0.5, pcieGbps: 1e6 };

const times = (count: number, app: AppOptions) => Array<AppOptions>(count).fill(app);
const MIXES: Record<string, AppOptions[]> = {
  B: [B],
  M: [M],
  D: [D],
  'B + M': [B, M],
  'B + D': [B, D],
  'B + M + D': [B, M, D],
  '4 B + 4 M + D': [...times(4, B), ...times(4, M), D],
};

function figures(apps: AppOptions[], params: typeof MINIMAL_NIC): [name: string, value: number][] {
  const lab = new Lab({ params });
  const running = apps.map((app) => lab.add(app));
  lab.run(DURATION_NS);
  return running.flatMap(({ mmps, meanLatencyNs }, i) => {
    const rate: [string, number] = [`rate of app ${i}`, mmps];
    return apps[i].depth === 1 ? [rate, [`latency of app ${i}`, meanLatencyNs]] : [rate];
  });
}

describe.each([
  ['cx6-100g', 'off', OFF],
  ['cx6-100g', 'PCIe too fast to matter', FAST_PCIE],
  ['ideal', 'off', OFF],
] as const)('%s, %s', (profile, _, changes) => {
  eachShort(3, Object.entries(MIXES).toReversed())('%s', (_, apps) => {
    const rich = figures(apps, override(PROFILES[profile], { ...changes, wqeGapNs: 80.6 }));
    const minimal = figures(apps, MINIMAL_NIC);
    const wrong = rich
      .map(([name, value], i) => ({ name, value, expected: minimal[i][1] }))
      .filter(({ value, expected }) => !(Math.abs(value / expected - 1) <= TOLERANCE));
    expect(wrong).toEqual([]);
  });
});
