import type { Figure } from '../../engine/figure.ts';
import { dareAndCrail } from '../../justitia/dare.ts';

export default {
  ...dareAndCrail,
  source: 'Justitia 6.1, fig. 16: the tail is 3.4 times better under Justitia, Crail keeps 81 %',
} satisfies Figure<string>;
