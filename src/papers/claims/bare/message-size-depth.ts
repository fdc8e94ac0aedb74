import { gbps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { below, equal, reported } from '../../engine/expect.ts';

const DEPTHS = [1, 2, 3, 4, 5];
const beside = (short: string, long: string, depth: number) =>
  mix('cx6-100g', [`B:name=short,size=${short},depth=${depth}`, `B:name=long,size=${long},depth=${depth}`], {
    duration: '22ms',
    warmup: '2ms',
  });
const share = (runs: Runs, name: string | number) => gbps(runs[name], 'short') / gbps(runs[name], 'long');

export default {
  part: 4,
  title: '1 MB beside 1 GB messages: at depth 1 the send queue runs empty between the shorter ones',
  source: 'PeRF appendix B, fig. 18(a) (perf-B-fig18a)',
  note: 'How much less at depth 1 follows from the gap between completion and next packet; none was tuned for it.',
  mixes: {
    ...Object.fromEntries(DEPTHS.map((depth) => [`${depth}`, beside('1MiB', '1GiB', depth)])),
    decimal: beside('1MB', '1GB', 5),
  },
  checks: [
    ...DEPTHS.map((depth) => ({
      what: `bandwidth of 1 MiB to that of 1 GiB, depth ${depth}`,
      unit: 'x',
      measure: (runs: Runs) => share(runs, depth),
      expect: depth === 1 ? below(1) : depth === 5 ? equal(0.001) : reported('to 1'),
      deviation:
        depth === 5
          ? 'the mix had 10^6 and 10^9 B at first; of 10^6 B each 245th packet is short, which costs 0.35 % of a packet round at any depth'
          : undefined,
    })),
    {
      what: 'bandwidth of 10^6 B to that of 10^9 B, depth 5',
      unit: 'x',
      measure: (runs: Runs) => share(runs, 'decimal'),
      expect: reported(1e6 / 245 / 4096),
    },
  ],
} satisfies Claim;
