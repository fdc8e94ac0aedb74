import { mmps } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { equal, falls } from '../../engine/expect.ts';

const TRANSPORTS = ['rc', 'uc'];
const set = { qpcEntries: 20 };
const UD = 'M:op=send,transport=ud,size=16,qps=9';

export default {
  part: 5,
  title: 'More connections than a cache of 20 contexts holds',
  source: 'DRUM II-D, fig. 2(c) (drum-II.D-fig2c)',
  note: 'Datagrams need no queue pair per connection: 9 of them serve all.',
  mixes: {
    ...Object.fromEntries(
      TRANSPORTS.flatMap((transport) =>
        [16, 64].map((n) => [
          `${transport} ${n}`,
          mix('cx5-40g', `M:size=16,transport=${transport},qps=${n}`, { set }),
        ]),
      ),
    ),
    ud: mix('cx5-40g', UD, { set }),
    'ud, own cache': mix('cx5-40g', UD),
  },
  checks: [
    ...TRANSPORTS.map((transport) => ({
      what: `rate of 64 queue pairs to that of 16, ${transport}`,
      unit: 'x',
      measure: (runs: Runs) => mmps(runs[`${transport} 64`], 'M') / mmps(runs[`${transport} 16`], 'M'),
      expect: falls(),
    })),
    {
      what: 'rate of datagrams to their rate with the own cache of the device',
      unit: 'x',
      measure: (runs: Runs) => mmps(runs.ud, 'M') / mmps(runs['ud, own cache'], 'M'),
      expect: equal(0.01),
    },
  ],
} satisfies Claim;
