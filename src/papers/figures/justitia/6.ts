import type { Figure } from '../../engine/figure.ts';
import { dareAndCrail } from '../../justitia/dare.ts';

export default {
  ...dareAndCrail,
  source: 'Justitia 3.2, fig. 6',
  policies: ['none'],
} satisfies Figure<string>;
