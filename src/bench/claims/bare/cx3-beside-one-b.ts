import { besideB, rarer, slower } from '../beside-b.ts';
import type { Claim, Runs } from '../claim.ts';
import { falls, ratio, reported } from '../expect.ts';
import { p50Us, p99Us } from '../metrics.ts';

export default {
  part: 2,
  title: 'A latency and a throughput application beside one with 1 MB messages, InfiniBand ConnectX-3 56G',
  source: 'Justitia 3.1.1, figs. 3 and 4 (justitia-3.1.1-fig3-infi, justitia-3.1.1-fig4)',
  mixes: besideB('cx3-56g', 'B:size=1MB'),
  checks: [
    slower('median of the latency application to its median alone', p50Us, ratio(1.85)),
    slower('its p99 to its p99 alone', p99Us, ratio(2.23)),
    rarer('rate of the throughput application to its rate alone', falls(2.85)),
    {
      what: 'median of the latency application alone',
      unit: 'us',
      measure: (runs: Runs) => p50Us(runs.d, 'D'),
      expect: reported('1.3 (perftest: 0.89)'),
    },
  ],
} satisfies Claim;
