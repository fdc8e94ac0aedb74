import type { Claim, Runs } from '../claim.ts';
import { compared, PERF } from '../compare.ts';
import { atLeast, equal, range, reported } from '../expect.ts';
import { gbps } from '../metrics.ts';

const SIZES = ['256KiB', '1MiB', '4MiB', '16MiB', '64MiB'];
const LONG = { duration: '22ms', warmup: '2ms' };
/** The first message of 1 GB is posted before anybody knows that it is to be cut, and takes this long. */
const AFTER_FIRST = { duration: '160ms', warmup: '130ms' };
const five = SIZES.map((size) => `B:name=${size},size=${size},depth=1`);
const mean = (runs: Runs, word: string) =>
  SIZES.reduce((sum, size) => sum + gbps(runs[`five ${word}`], size), 0) / SIZES.length;

export default {
  part: 7,
  title: 'B_Apps of different message size share evenly at queue depth 1',
  source: 'PeRF appendix B, fig. 18(b): 1 MB against 1 GB; five of them: a bound of our own',
  mixes: {
    ...compared(PERF, 'five', five, LONG),
    ...compared(PERF, 'two', ['B:name=small,size=1MB,depth=1', 'B:name=large,size=1GB,depth=1'], AFTER_FIRST),
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
    {
      what: 'bandwidth of 1 MB messages to that of 1 GB messages',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs['two perf'], 'small') / gbps(runs['two perf'], 'large'),
      expect: equal(0.05),
      deviation:
        'after the first message of 1 GB; at depth 5, of which there was a line, four more go as the first does',
    },
    {
      what: 'bandwidth of 1 MB messages to that of 1 GB messages, bare',
      unit: 'x',
      measure: (runs: Runs) => gbps(runs['two bare'], 'small') / gbps(runs['two bare'], 'large'),
      expect: reported('-'),
    },
    ...['bare', 'paper'].map((word) => ({
      what: `bandwidth of 256 KiB messages to the mean of five, ${word}`,
      unit: 'x',
      measure: (runs: Runs) => gbps(runs[`five ${word}`], '256KiB') / mean(runs, word),
      expect: reported('-'),
    })),
  ],
} satisfies Claim;
