import { mmps } from '../../../mix/metrics.ts';
import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { rate } from '../../engine/panels.ts';

const SIZES = ['none', '1 KiB', '2 KiB', '4 KiB'] as const;
const FIVE = 'M:name=small,size=64,count=5';
const sixth = (size: string) => `M:name=large,size=${size.replace(' ', '')}`;

export default {
  title: 'Five applications with small messages, and a sixth with larger ones',
  source: 'PeRF 2.2, fig. 1(a)',
  note: 'The paper says no more of the small messages than "below 1 KB".',
  x: { title: 'messages of the sixth', values: SIZES },
  mix: (size) => mix('cx6-100g', size === 'none' ? [FIVE] : [FIVE, sixth(size)]),
  policies: ['none'],
  panels: [
    { title: 'Message rate of each of the five', unit: 'Mmps', measure: (run) => mmps(run, 'small') / 5 },
    rate('large', { title: 'Message rate of the sixth' }),
  ],
} satisfies Figure<(typeof SIZES)[number]>;
