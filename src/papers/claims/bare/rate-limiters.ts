import { type Claim, mix, type Runs } from '../../engine/claim.ts';
import { range } from '../../engine/expect.ts';

const LIMIT_GBPS = 2;
const rates = (runs: Runs) => runs.limited.apps.map((app) => app.throughputGbps / LIMIT_GBPS);

export default {
  part: 10,
  title: 'Rate limiters of the hardware miss their rate by up to 10 %',
  source: 'Tassel 2.1 (tassel-2.1-commercial)',
  note: 'Payload is 2 % less than what is on the wire: either may be what is limited.',
  mixes: {
    limited: mix('cx6-100g', `B:size=64KiB,rate=${LIMIT_GBPS}Gbps,count=20`, {
      duration: '22ms',
      warmup: '2ms',
    }),
  },
  checks: [
    {
      what: 'the slowest of 20 to its limit',
      unit: 'x',
      measure: (runs: Runs) => Math.min(...rates(runs)),
      expect: range(0.88, 1.1, 0.01),
    },
    {
      what: 'the fastest of 20 to its limit',
      unit: 'x',
      measure: (runs: Runs) => Math.max(...rates(runs)),
      expect: range(0.88, 1.1, 0.01),
    },
    {
      what: 'the fastest to the slowest: they are not exact',
      unit: 'x',
      measure: (runs: Runs) => Math.max(...rates(runs)) / Math.min(...rates(runs)),
      expect: range(1.02, 1.25),
    },
  ],
} satisfies Claim;
