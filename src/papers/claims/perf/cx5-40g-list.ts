import { avgUs, gbps, mmps, unevenness } from '../../../mix/metrics.ts';
import type { Claim, Runs } from '../../engine/claim.ts';
import { compared, factor, type Policies } from '../../engine/compared.ts';
import { atLeast, falls, rises } from '../../engine/expect.ts';

const POLICIES: Policies = { bare: 'none', perf: 'perf' };
const DEVICE = { profile: 'cx5-40g', duration: '12ms', warmup: '2ms' };
const [B, M, D] = ['B:size=1MiB', 'M:size=16', 'D:size=16,think=1us'];
const MANY = `${B},qps=8`;
const [HERE, THERE] = [',op=read', ',host=1,to=0'];

/** Whoever is small in each mixture: D waits less, M has more. */
const MIXES: Readonly<Record<string, readonly string[]>> = {
  'SEND, D': [`${B},op=send`, `${D},op=send`],
  'SEND, M': [`${B},op=send`, `${M},op=send`],
  'READ, D': [`${B},op=read`, `${D},op=read`],
  'READ, M': [`${B},op=read`, `${M},op=read`],
  'M and D': [B, M, D],
  'B of 8 queue pairs, D': [MANY, D],
  'B of 8 queue pairs, M': [MANY, M],
  '8 B, M and D': [`${B},count=8`, M, D],
  '16 B, M and D': [`${B},count=16`, M, D],
  'READs of B, WRITEs of D': [`${B}${HERE}`, `${D}${THERE}`],
  'READs of B, WRITEs of M': [`${B}${HERE}`, `${M}${THERE}`],
  'WRITEs of B, READs of D': [`${B}${THERE}`, `${D}${HERE}`],
  'WRITEs of B, READs of M': [`${B}${THERE}`, `${M}${HERE}`],
};
const having = (kind: string) =>
  Object.keys(MIXES).filter((name) => MIXES[name].some((app) => app[0] === kind));
const SIZES = ['256KiB', '1MiB', '4MiB', '16MiB', '64MiB'].map(
  (size, i) => `B:name=B.${i},size=${size},depth=1`,
);

export default {
  part: 8,
  title: 'The other mixtures on a ConnectX-5 of 40 Gbps, in direction',
  source: 'A bound of our own; the paper has no numbers of that device',
  note: 'M_App of 8 queue pairs takes no more from B there than of one, bare: there is nothing to give back.',
  mixes: {
    ...Object.assign(
      {},
      ...Object.entries(MIXES).map(([name, apps]) => compared(POLICIES, name, apps, DEVICE)),
    ),
    ...compared(POLICIES, 'M of 8', [B, `${M},qps=8`], DEVICE),
    ...compared(POLICIES, 'sizes', SIZES, { ...DEVICE, duration: '40ms' }),
  },
  checks: [
    ...having('D').map((name) => ({
      what: 'average of D to bare',
      at: name,
      unit: 'x',
      measure: (runs: Runs) => factor(runs, name, avgUs, 'D'),
      expect: falls(),
    })),
    ...having('M').map((name) => ({
      what: 'rate of M to bare',
      at: name,
      unit: 'x',
      measure: (runs: Runs) => factor(runs, name, mmps, 'M'),
      expect: rises(),
    })),
    {
      what: 'bandwidth of B beside M of 8 queue pairs to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'M of 8', gbps, 'B'),
      expect: atLeast(1),
    },
    {
      what: 'bandwidth of one of five sizes at depth 1, farthest from the mean, to bare',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'sizes', unevenness, 'B'),
      expect: falls(),
    },
  ],
} satisfies Claim;
