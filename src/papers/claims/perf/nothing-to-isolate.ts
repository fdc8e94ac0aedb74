import { avgUs, gbps, mmps, p99Us } from '../../../mix/metrics.ts';
import type { Claim, Runs } from '../../engine/claim.ts';
import { compared, factor, type Policies } from '../../engine/compared.ts';
import { equal } from '../../engine/expect.ts';

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

/** Nothing of what the policy costs a core. */
const FREE = { set: { interceptorWrNs: 0 } };
const LOOKS = Object.entries({
  bandwidth: gbps,
  'message rate': mmps,
  'average latency': avgUs,
  'p99 of latency': p99Us,
});

/** What each application gets, in mixes whose names end so. */
const identical = (suffix: string, deviation?: string) =>
  Object.entries(MIXES).flatMap(([name, apps]) =>
    apps.flatMap(([app]) =>
      LOOKS.map(([what, measure]) => ({
        what: `${what} to bare${suffix}`,
        at: `${app}, ${name}`,
        unit: 'x',
        measure: (runs: Runs) => factor(runs, `${name}${suffix}`, measure, app),
        expect: equal(0.01),
        deviation,
      })),
    ),
  );

export default {
  part: 7,
  title: 'Nothing to isolate: identical to bare',
  source: 'PeRF 3.4 and 4.4: activated only for mixes that conflict',
  note: 'The device model charges any interceptor 10 ns for each request and as much for each completion: 20 ns of the microsecond that D waits are 2 %, whatever the policy does. In the device nothing is different.',
  mixes: Object.assign(
    {},
    ...Object.entries(MIXES).flatMap(([name, apps]) => [
      compared(POLICIES, name, apps, LONG),
      compared(POLICIES, `${name}, core time aside`, apps, { ...LONG, ...FREE }),
    ]),
  ),
  checks: [...identical(''), ...identical(', core time aside', 'added after the first run')],
} satisfies Claim;
