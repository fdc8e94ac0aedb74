import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';

export default {
  title: 'How evenly many B_Apps of 8 queue pairs share',
  source: 'PeRF 5.2.5, fig. 13(b): a very low standard deviation',
  note: 'Not with 1,000: one round of them takes longer than the run.',
  x: { title: 'B_Apps', values: [2, 8, 16], log: true },
  mix: (count) =>
    mix('cx6-100g', [`B:size=1MiB,count=${count},qps=8`, 'M:size=16'], { duration: '18ms', warmup: '2ms' }),
  panels: [
    {
      title: 'Standard deviation of their bandwidth, to its mean',
      unit: '%',
      measure: ({ apps }) => {
        const rates = apps.filter(({ kind }) => kind === 'B').map((app) => app.throughputGbps);
        const mean = rates.reduce((sum, one) => sum + one, 0) / rates.length;
        const squares = rates.reduce((sum, one) => sum + (one - mean) ** 2, 0);
        return (100 * Math.sqrt(squares / rates.length)) / mean;
      },
    },
  ],
} satisfies Figure<number>;
