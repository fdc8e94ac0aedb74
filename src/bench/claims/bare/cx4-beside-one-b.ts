import { besideB, rarer, slower } from '../beside-b.ts';
import type { Claim, Runs } from '../claim.ts';
import { falls, ratio, reported } from '../expect.ts';
import { p50Us, p99Us } from '../metrics.ts';

export default {
  part: 2,
  title: 'A latency and a throughput application beside one with 1 MB messages, RoCEv2 ConnectX-4 40G',
  source: 'Justitia 3.1.1, figs. 3 and 4 (justitia-3.1.1-fig3-roce, justitia-3.1.1-fig4)',
  mixes: besideB('cx4-40g', 'B:size=1MB'),
  checks: [
    slower('median of the latency application to its median alone', p50Us, ratio(3.82)),
    slower('its p99 to its p99 alone', p99Us, ratio(4)),
    rarer('rate of the throughput application to its rate alone', falls(2.85)),
    {
      what: 'median of the latency application alone',
      unit: 'us',
      measure: (runs: Runs) => p50Us(runs.d, 'D'),
      expect: reported('not given'),
    },
  ],
} satisfies Claim;
