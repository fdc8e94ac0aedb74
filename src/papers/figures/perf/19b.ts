import type { Figure } from '../../engine/figure.ts';
import { bandwidth, rate } from '../../engine/panels.ts';
import { bothWays, WAY, type Way } from '../../perf/both-ways.ts';

export default {
  title: 'Inbound READ against outbound WRITE: B_App_single and M_App',
  source: 'PeRF appendix C, fig. 19: M_App 3 to 50 times bare',
  note: 'Where M READs, 16 READs in a round trip are all there can be: 3 times does not follow.',
  x: WAY,
  mix: bothWays('M:size=16'),
  panels: [rate('M'), bandwidth('B')],
} satisfies Figure<Way>;
