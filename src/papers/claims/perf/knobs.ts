import { avgUs, gbps, mmps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { reported } from '../../engine/expect.ts';

const [B, M, D] = ['B:size=1MiB', 'M:size=16', 'D:size=16,think=1us'];
const MANY_B = 'B:name=multi,size=1MiB,qps=8';
/** More than processing units; in time for two rounds of the longest turns. */
const TWELVE_B = `${B},count=12`;
const ROUNDS = { duration: '28ms', warmup: '4ms' };
const LONG = { duration: '10ms', warmup: '2ms' };

interface Knob {
  knob: string;
  values: readonly (number | string)[];
  apps: readonly string[];
  duration?: string;
  warmup?: string;
}

/** What a knob is tried beside, and what is looked at. */
const KNOBS: readonly Knob[] = [
  { knob: 'feedPieces', values: [1, 2, 4, 16], apps: [B, M] },
  { knob: 'utilisation', values: [0.9, 0.95, 0.975, 0.99, 1], apps: [B, M, D] },
  { knob: 'turnBytes', values: [16384, 65536, 262144], apps: [B, MANY_B, D] },
  { knob: 'turnRequests', values: [16, 64, 256], apps: [B, 'M:size=16,qps=8'] },
  { knob: 'qpIsolation', values: ['auto', 'never'], apps: [B, MANY_B, D] },
  { knob: 'rotation', values: ['auto', 'off'], apps: [TWELVE_B, M], ...ROUNDS },
  { knob: 'slotNs', values: [50e3, 200e3, 1e6], apps: [TWELVE_B, M], ...ROUNDS },
  { knob: 'readFifoPart', values: [0.33, 0.67, 1.33], apps: [`${B},op=read`, `${M},op=read`] },
  { knob: 'thMApp', values: [5, 200], apps: [B, M] },
  { knob: 'samplePeriodNs=1e5,windowNs', values: [1e6, 1e9], apps: [B, `${D},stop=3ms`] },
  { knob: 'qNumCapa', values: [3, 9, 16], apps: ['M:name=multi,size=16,qps=16', M] },
  { knob: 'isolation', values: ['auto', 'always', 'never'], apps: [B] },
];

/** The applications by name, with what is looked at: bandwidth, rate or latency. */
function looksOf(app: string) {
  const [kind] = app;
  const name = /name=(\w+)/.exec(app)?.[1] ?? kind;
  if (kind === 'B') return { what: `bandwidth of ${name}`, unit: 'Gbps', name, measure: gbps };
  if (kind === 'M') return { what: `rate of ${name}`, unit: 'Mmps', name, measure: mmps };
  return { what: `average of ${name}`, unit: 'us', name, measure: avgUs };
}

export default {
  part: 4,
  title: 'What the other knobs do',
  source: 'Not in the paper: the table of docs/policies/perf.md',
  mixes: Object.fromEntries(
    KNOBS.flatMap(({ knob, values, apps, ...time }) =>
      values.map((value) => [
        `${knob}=${value}`,
        mix('cx6-100g', apps, { ...LONG, ...time, policy: `perf:${knob}=${value}` }),
      ]),
    ),
  ),
  checks: KNOBS.flatMap(({ knob, values, apps }) =>
    values.flatMap((value) =>
      apps.map(looksOf).map(({ what, unit, name, measure }) => ({
        what: `${knob}=${value}: ${what}`,
        unit,
        measure: (runs: Runs) => measure(runs[`${knob}=${value}`], name),
        expect: reported('-'),
      })),
    ),
  ),
} satisfies Claim;
