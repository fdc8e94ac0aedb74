import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth, rate } from '../../engine/panels.ts';

export default {
  title: 'Message-level isolation: B_App and M_App',
  source: 'PeRF 5.2.2, fig. 8(b): Justitia halves both; PeRF keeps both high',
  x: { title: '', values: ['B and M'] },
  mix: () => mix('cx6-100g', ['B:size=1MiB', 'M:size=16']),
  panels: [bandwidth('B'), rate('M')],
} satisfies Figure<string>;
