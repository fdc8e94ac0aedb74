import type { Claim } from '../../engine/claim.ts';
import { besideB, factorsOfFigures } from '../../perf/beside-b.ts';

export default {
  part: 2,
  title: 'A latency and a throughput application beside one with 1 MB messages, RoCEv2 ConnectX-4 40G',
  source: 'Justitia 3.1.1, figs. 3 and 4 (justitia-3.1.1-fig3-roce, justitia-3.1.1-fig4)',
  mixes: besideB('cx4-40g', 'B:size=1MB'),
  checks: factorsOfFigures(3.82, 4, 'not given'),
} satisfies Claim;
