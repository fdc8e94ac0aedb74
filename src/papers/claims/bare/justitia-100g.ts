import type { Claim } from '../../engine/claim.ts';
import { ANOMALIES, besideB } from '../../perf/beside-b.ts';

export default {
  part: 10,
  title: 'The anomalies persist at 100 Gbps, with 5 MB messages',
  source: 'Justitia 3.1.4, appendix C.1 (justitia-3.1.4-100g)',
  mixes: besideB('cx5-100g', 'B:size=5MB', { duration: '20ms' }),
  checks: ANOMALIES,
} satisfies Claim;
