import { dareAndCrail } from '../dare.ts';
import type { Figure } from '../figure.ts';

export default {
  ...dareAndCrail,
  source: 'Justitia 3.2, fig. 6',
  policies: ['none'],
} satisfies Figure<string>;
