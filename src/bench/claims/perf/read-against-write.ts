import type { Claim, Runs } from '../claim.ts';
import { compared, factor, PERF } from '../compare.ts';
import { atLeast, atMost, equal } from '../expect.ts';
import { avgUs, gbps, mmps } from '../metrics.ts';

/** What leaves host 1: answers to the READs of host 0, and WRITEs of its own. */
const READ = 'op=read';
const WRITE = 'op=write,host=1,to=0';
const LONG = { duration: '10ms', warmup: '2ms' };
/** B_App_single does the first, the other application the second. */
const WAYS = { 'B reads': [READ, WRITE], 'B writes': [WRITE, READ] };
const [READS, WRITES] = Object.keys(WAYS);

const bandwidth = (way: string, other: string, least: number) => ({
  what: `bandwidth of B to bare beside ${other}`,
  at: way,
  unit: 'x',
  measure: (runs: Runs) => factor(runs, `${way} ${other}`, gbps, 'B'),
  expect: atLeast(least),
});

export default {
  part: 3,
  title: 'Inbound READ against outbound WRITE, either of them large',
  source: 'PeRF appendix C, fig. 19: D_App -65 % at least, M_App 3 to 50 times, B_App_single loses 5 %',
  note: 'Bounds are those of one direction. B_App_multi has 15 queue pairs.',
  mixes: Object.assign(
    {},
    ...Object.entries(WAYS).flatMap(([way, [b, other]]) => [
      compared(PERF, `${way} D`, [`B:size=1MiB,${b}`, `D:size=16,think=5us,${other}`], LONG),
      compared(PERF, `${way} M`, [`B:size=1MiB,${b}`, `M:size=16,${other}`], LONG),
      compared(PERF, `${way} multi`, [`B:size=1MiB,${b}`, `B:name=multi,size=1MiB,qps=15,${other}`], LONG),
    ]),
  ),
  checks: [
    ...Object.keys(WAYS).flatMap((way) => [
      bandwidth(way, 'D', 0.92),
      bandwidth(way, 'M', 0.9),
      {
        what: 'bandwidth of B_App_multi to that of B_App_single',
        at: way,
        unit: 'x',
        measure: (runs: Runs) =>
          gbps(runs[`${way} multi perf`], 'multi') / gbps(runs[`${way} multi perf`], 'B'),
        expect: equal(0.05),
      },
    ]),
    ...[
      { way: READS, latency: 0.4, rate: 2.7 },
      { way: WRITES, latency: 0.52, rate: 2 },
    ].flatMap(({ way, latency, rate }) => [
      {
        what: `average of D to bare, ${way}`,
        unit: 'x',
        measure: (runs: Runs) => factor(runs, `${way} D`, avgUs, 'D'),
        expect: atMost(latency),
      },
      {
        what: `rate of M to bare, ${way}`,
        unit: 'x',
        measure: (runs: Runs) => factor(runs, `${way} M`, mmps, 'M'),
        expect: atLeast(rate),
      },
    ]),
  ],
} satisfies Claim;
