import type { Claim } from '../../engine/claim.ts';
import { ANOMALIES, besideB } from '../../perf/beside-b.ts';

export default {
  part: 10,
  title: 'Congestion control does not help: the conflict is inside the sender (10 Gbps, DCQCN, PFC)',
  source: 'Justitia 3.3 (justitia-3.3-dcqcn)',
  mixes: besideB('cx4-40g', 'B:size=1MB', {
    duration: '20ms',
    set: { linkGbps: 10, congestionControl: 'dcqcn' },
  }),
  checks: ANOMALIES,
} satisfies Claim;
