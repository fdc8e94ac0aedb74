import { gbps } from '../../../mix/metrics.ts';
import type { Claim, Runs } from '../../engine/claim.ts';
import { compared, PERF } from '../../engine/compared.ts';
import { atLeast, equal, range, reported } from '../../engine/expect.ts';

const SIZES = ['256KiB', '1MiB', '4MiB', '16MiB', '64MiB'];
/** A message of 16 KiB takes as long to be answered as a fifth of the link to carry it. */
const SHORT = ['16KiB', '64KiB', '256KiB', '1MiB', '4MiB'];
const DEPTHS = [1, 5];
const LONG = { duration: '22ms', warmup: '2ms' };
const apps = (sizes: readonly string[]) => sizes.map((size) => `B:name=${size},size=${size},depth=1`);
const mean = (runs: Runs, word: string, sizes: readonly string[]) =>
  sizes.reduce((sum, size) => sum + gbps(runs[word], size), 0) / sizes.length;

const five = (word: string, sizes: readonly string[], what: string) => [
  ...sizes.map((size) => ({
    what: `bandwidth of one of five to the mean, ${what}`,
    at: size,
    unit: 'x',
    measure: (runs: Runs) => gbps(runs[word], size) / mean(runs, word, sizes),
    expect: range(0.95, 1.05),
  })),
  {
    what: `bandwidth of all five, ${what}`,
    unit: 'Gbps',
    measure: (runs: Runs) => sizes.length * mean(runs, word, sizes),
    expect: atLeast(85),
  },
];

export default {
  part: 7,
  title: 'B_Apps of different message size share evenly at queue depth 1',
  source: 'PeRF appendix B, fig. 18(b): 1 MB against 1 GB; five of them: a bound of our own',
  note: 'Five sizes of which the least is 4 KiB cannot: alone, each of its messages takes longer than a fifth of the link needs.',
  mixes: {
    ...compared(PERF, 'five', apps(SIZES), LONG),
    ...compared(PERF, 'short', apps(SHORT), LONG),
    ...Object.assign(
      {},
      ...DEPTHS.map((depth) =>
        compared(
          PERF,
          `depth ${depth}`,
          [`B:name=small,size=1MB,depth=${depth}`, `B:name=large,size=1GB,depth=${depth}`],
          LONG,
        ),
      ),
    ),
  },
  checks: [
    ...five('five perf', SIZES, '256 KiB to 64 MiB'),
    ...five('short perf', SHORT, '16 KiB to 4 MiB'),
    ...DEPTHS.map((depth) => ({
      what: 'bandwidth of 1 MB messages to that of 1 GB messages',
      at: `depth ${depth}`,
      unit: 'x',
      measure: (runs: Runs) =>
        gbps(runs[`depth ${depth} perf`], 'small') / gbps(runs[`depth ${depth} perf`], 'large'),
      expect: equal(0.05),
    })),
    {
      what: 'bandwidth of 1 MB messages to that of 1 GB messages, bare',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs['depth 1 bare'], 'small') / gbps(runs['depth 1 bare'], 'large'),
      expect: reported('-'),
    },
    ...['bare', 'paper'].flatMap((word) => [
      {
        what: `bandwidth of 256 KiB messages to the mean of five, ${word}`,
        unit: 'x',
        measure: (runs: Runs) => gbps(runs[`five ${word}`], '256KiB') / mean(runs, `five ${word}`, SIZES),
        expect: reported('-'),
      },
      {
        what: `bandwidth of 16 KiB messages to the mean of five, ${word}`,
        unit: 'x',
        measure: (runs: Runs) => gbps(runs[`short ${word}`], '16KiB') / mean(runs, `short ${word}`, SHORT),
        expect: reported('-'),
      },
    ]),
  ],
} satisfies Claim;
