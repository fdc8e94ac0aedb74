/** PeRF isolates READs from WRITEs that leave through the same port. */

import { avgUs, gbps, mmps, p50Us, p99Us } from '../../mix/metrics.ts';
import type { Claim, Runs } from '../engine/claim.ts';
import { compared, factor, PERF } from '../engine/compared.ts';
import { atLeast, atMost, equal } from '../engine/expect.ts';
import { mix } from '../engine/mix.ts';

/** Two kinds of traffic leave host 1: responses to the READs of host 0, and its own WRITEs. */
const READ = 'op=read';

const WRITE = 'op=write,host=1,to=0';

const LONG = { duration: '10ms', warmup: '2ms' };

/** The operations of B_App_single and of the other application. */
const WAYS = { 'B reads': [READ, WRITE], 'B writes': [WRITE, READ] };

const [READS, WRITES] = Object.keys(WAYS);

/** Queue pairs of B_App_multi; the paper has 15. */
const QPS = [2, 8, 15];

/** Both READ; the responses leave host 1 in either case. */
const BOTH_READ = 'both read';

/** Outstanding READs per queue pair, at most, and the highest message rate of a queue pair in millions per second. */
const RD_ATOMIC = 16;

const QP_MMPS = 12.4;

const multi = (way: string, qps: number) => `${way}, ${qps} queue pairs`;

const beside = (name: string, b: string, other: string, qps: number) =>
  compared(PERF, name, [`B:size=1MiB,${b}`, `B:name=multi,size=1MiB,qps=${qps},${other}`], LONG);

const bandwidth = (way: string, other: string, least: number) => ({
  what: `bandwidth of B alongside ${other}, relative to bare`,
  at: way,
  unit: 'x',
  measure: (runs: Runs) => factor(runs, `${way} ${other}`, gbps, 'B'),
  expect: atLeast(least),
});

const readAgainstWrite: Claim = {
  id: 'read-against-write',
  system: 'perf',
  part: 3,
  title: 'Inbound READ against outbound WRITE, with large messages on either side',
  source:
    'PeRF appendix C, fig. 19: the latency of D_App falls by at least 65 %, M_App gets 3 to 50 times its rate, B_App_single loses 5 %',
  shows: [],
  note: "Bounds are those of one direction. Where M reads, outstanding READs bound its rate; the round trip is that of a D_App in the same run. With the paper's rule, READs of several queue pairs do not take turns, because a turn ends when the READs are requested.",
  mixes: Object.assign(
    {},
    ...Object.entries(WAYS).flatMap(([way, [b, other]]) => [
      compared(PERF, `${way} D`, [`B:size=1MiB,${b}`, `D:size=16,think=5us,${other}`], LONG),
      compared(PERF, `${way} M`, [`B:size=1MiB,${b}`, `M:size=16,${other}`], LONG),
      ...QPS.map((qps) => beside(multi(way, qps), b, other, qps)),
    ]),
    ...QPS.map((qps) => beside(multi(BOTH_READ, qps), READ, READ, qps)),
    {
      'round trip': mix(
        'cx6-100g',
        [`B:size=1MiB,${WRITE}`, `M:size=16,${READ}`, `D:size=16,think=5us,${READ}`],
        { ...LONG, policy: 'perf' },
      ),
    },
  ),
  checks: [
    ...Object.keys(WAYS).flatMap((way) => [bandwidth(way, 'D', 0.92), bandwidth(way, 'M', 0.9)]),
    ...[...Object.keys(WAYS), BOTH_READ].flatMap((way) =>
      QPS.map((qps) => ({
        what: 'bandwidth of B_App_multi to that of B_App_single',
        at: multi(way, qps),
        unit: 'x',
        measure: (runs: Runs) => {
          const run = runs[`${multi(way, qps)} perf`];
          return gbps(run, 'multi') / gbps(run, 'B');
        },
        expect: equal(0.05),
      })),
    ),
    {
      what: 'READ rate of M, relative to its bound (12.4 Mmps, or 16 per round trip), B writes',
      unit: 'x',
      measure: (runs: Runs) => {
        const run = runs['round trip'];
        return mmps(run, 'M') / Math.min(QP_MMPS, RD_ATOMIC / p50Us(run, 'D'));
      },
      expect: atLeast(0.9),
    },
    {
      what: 'p99 latency of D, relative to bare, B reads',
      unit: 'x',
      measure: (runs: Runs) => factor(runs, `${READS} D`, p99Us, 'D'),
      expect: atMost(0.52),
    },
    ...[
      { way: READS, latency: 0.4, rate: 2.7 },
      { way: WRITES, latency: 0.52, rate: 2 },
    ].flatMap(({ way, latency, rate }) => [
      {
        what: `average latency of D, relative to bare, ${way}`,
        unit: 'x',
        measure: (runs: Runs) => factor(runs, `${way} D`, avgUs, 'D'),
        expect: atMost(latency),
      },
      {
        what: `rate of M, relative to bare, ${way}`,
        unit: 'x',
        measure: (runs: Runs) => factor(runs, `${way} M`, mmps, 'M'),
        expect: atLeast(rate),
      },
    ]),
  ],
};

export const CLAIMS: readonly Claim[] = [readAgainstWrite];
