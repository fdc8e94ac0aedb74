import { toAlone } from '../../engine/beside.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth, rate, stated } from '../../engine/panels.ts';
import { flows, large, small } from '../../palos/flows.ts';

const SIZES = [256, 512, 1024, 2048, 4096];
const everywhere = (value: number) =>
  stated(
    'palos',
    'V-A',
    SIZES.map((bytes) => [bytes, value]),
  );

export default {
  title: 'Isolation of one large flow and 16 small ones in a group',
  source: 'Palos V-A, fig. 7: the small ones have about 16/17 of their peak, the large one 1/17',
  note: 'At MTU 4096. The text ends at 0.058 %, which is 5.8 %: one share of 17. perf takes the 16 for one application of 16 queue pairs, of which one sends at a time: they have less than bare.',
  x: { title: 'size of a small message', values: SIZES, log: true, bytes: true },
  mix: (bytes) => flows([`${large()},group=one`, `${small(bytes)},group=one`]),
  panels: [
    toAlone(rate('small'), (bytes) => flows([small(bytes)]), everywhere(16 / 17)),
    toAlone(bandwidth('large'), () => flows([large()]), [
      ...stated('none', 'V-A', [
        [256, 0.47],
        [4096, 0.058],
      ]),
      ...everywhere(1 / 17),
    ]),
  ],
} satisfies Figure<number>;
