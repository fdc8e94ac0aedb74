import type { Claim, Runs } from '../claim.ts';
import { compared, PERF } from '../compare.ts';
import { atLeast, equal, range, reported } from '../expect.ts';
import { gbps } from '../metrics.ts';

const SIZES = ['256KiB', '1MiB', '4MiB', '16MiB', '64MiB'];
const DEPTHS = [1, 5];
const LONG = { duration: '22ms', warmup: '2ms' };
const five = SIZES.map((size) => `B:name=${size},size=${size},depth=1`);
const mean = (runs: Runs, word: string) =>
  SIZES.reduce((sum, size) => sum + gbps(runs[`five ${word}`], size), 0) / SIZES.length;

export default {
  part: 7,
  title: 'B_Apps of different message size share evenly at queue depth 1',
  source: 'PeRF appendix B, fig. 18(b): 1 MB against 1 GB; five of them: a bound of our own',
  mixes: {
    ...compared(PERF, 'five', five, LONG),
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
    ...SIZES.map((size) => ({
      what: 'bandwidth of one of five to the mean',
      at: size,
      unit: 'x',
      measure: (runs: Runs) => gbps(runs['five perf'], size) / mean(runs, 'perf'),
      expect: range(0.95, 1.05),
    })),
    {
      what: 'bandwidth of all five',
      unit: 'Gbps',
      measure: (runs: Runs) => SIZES.length * mean(runs, 'perf'),
      expect: atLeast(85),
    },
    ...DEPTHS.map((depth) => ({
      what: 'bandwidth of 1 MB messages to that of 1 GB messages',
      at: `depth ${depth}`,
      unit: 'x',
      measure: (runs: Runs) =>
        gbps(runs[`depth ${depth} perf`], 'small') / gbps(runs[`depth ${depth} perf`], 'large'),
      expect: equal(0.05),
    })),
    ...['bare', 'paper'].map((word) => ({
      what: `bandwidth of 256 KiB messages to the mean of five, ${word}`,
      unit: 'x',
      measure: (runs: Runs) => gbps(runs[`five ${word}`], '256KiB') / mean(runs, word),
      expect: reported('-'),
    })),
  ],
} satisfies Claim;
