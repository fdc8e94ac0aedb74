import type { Claim } from '../../engine/claim.ts';
import { besideB, factorsOfFigures } from '../../perf/beside-b.ts';

export default {
  part: 2,
  title: 'A latency and a throughput application beside one with 1 MB messages, InfiniBand ConnectX-3 56G',
  source: 'Justitia 3.1.1, figs. 3 and 4 (justitia-3.1.1-fig3-infi, justitia-3.1.1-fig4)',
  mixes: besideB('cx3-56g', 'B:size=1MB'),
  checks: factorsOfFigures(1.85, 2.23, '1.3 (perftest: 0.89)'),
} satisfies Claim;
