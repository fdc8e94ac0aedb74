import { avgUs } from '../../../mix/metrics.ts';
import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { atMost } from '../../engine/expect.ts';

/** 256 bytes each way. */
const RPING = 'D:name=rping,size=256,op=send,think=5us';

export default {
  part: 1,
  title: 'File transfers (as of Crail), a key-value store (as of HERD) and rping',
  source: 'PeRF 5.3, fig. 16(a) (perf-5.3-fig16a-crail): rping loses less than 1 us',
  note: 'Stand-ins. What compares with Justitia waits for it.',
  mixes: {
    alone: mix('cx6-100g', RPING, { duration: '20ms', warmup: '2ms' }),
    all: mix(
      'cx6-100g',
      ['B:name=crail,size=1MiB', 'M:name=herd,size=32-64,batch=8,depth=32,op=send', RPING],
      { policy: 'perf', duration: '20ms', warmup: '2ms' },
    ),
  },
  checks: [
    {
      what: 'average of rping, more than alone',
      unit: 'us',
      measure: (runs: Runs) => avgUs(runs.all, 'rping') - avgUs(runs.alone, 'rping'),
      expect: atMost(1),
    },
  ],
} satisfies Claim;
