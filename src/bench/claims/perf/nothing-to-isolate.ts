import type { Claim, Runs } from '../claim.ts';
import { compared, factor, type Policies } from '../compare.ts';
import { equal } from '../expect.ts';
import { avgUs, gbps, mmps, p99Us } from '../metrics.ts';

const POLICIES: Policies = { bare: 'none', perf: 'perf' };
/** A message of 1 MiB more or less is not to be 1 %. */
const LONG = { duration: '14ms', warmup: '2ms' };
const [B, M, D] = ['B:size=1MiB', 'M:size=16', 'D:size=16,think=1us'];
const MIXES: Readonly<Record<string, readonly string[]>> = {
  'B alone': [B],
  'B of 4 queue pairs alone': [`${B},qps=4`],
  'M alone': [M],
  'D alone': [D],
  'D and M': [D, M],
  'three D and three M': [`${D},count=3`, `${M},count=3`],
};

export default {
  part: 7,
  title: 'Nothing to isolate: identical to bare',
  source: 'PeRF 3.4 and 4.4: activated only for mixes that conflict',
  note: 'The device model charges any interceptor 10 ns for each request and each completion; with that, D loses some 2 %.',
  mixes: {
    ...Object.assign(
      {},
      ...Object.entries(MIXES).map(([name, apps]) =>
        compared(POLICIES, name, apps, { set: { interceptorWrNs: 0 }, ...LONG }),
      ),
    ),
    ...compared(POLICIES, 'with CPU', MIXES['D and M']),
  },
  checks: [
    ...Object.entries(MIXES).flatMap(([name, apps]) =>
      apps.flatMap(([app]) =>
        Object.entries({
          bandwidth: gbps,
          'message rate': mmps,
          'average latency': avgUs,
          'p99 of latency': p99Us,
        }).map(([what, measure]) => ({
          what: `${what} to bare`,
          at: `${app}, ${name}`,
          unit: 'x',
          measure: (runs: Runs) => factor(runs, name, measure, app),
          expect: equal(0.01),
          deviation: 'without the CPU time of an interceptor, which was charged in the first run',
        })),
      ),
    ),
    {
      what: 'average latency to bare, CPU time of the interceptor included',
      at: 'D, D and M',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, 'with CPU', avgUs, 'D'),
      expect: equal(0.03),
      deviation: 'added after the first run',
    },
  ],
} satisfies Claim;
