import type { Figure } from '../../engine/figure.ts';
import { bandwidth } from '../../engine/panels.ts';
import { onInfiniBand } from '../../justitia/kinds.ts';

const SIZES = [1e3, 2e3, 5e3, 10e3, 20e3, 50e3, 100e3, 1e6];

export default {
  title: 'Bandwidth that messages of a size reach',
  source: 'Justitia 5.2, fig. 10: from which 5 KB was chosen as the size of a chunk',
  note: 'One queue pair with 16 messages outstanding. That of ConnectX-3 dips where messages become longer than what is read ahead (16 KiB): the next one is not there yet when a unit has sent this one.',
  x: { title: 'size of a message', values: SIZES, log: true, bytes: true },
  mix: (bytes) => onInfiniBand([`B:size=${bytes},depth=16`], { duration: '5ms' }),
  policies: [],
  series: { InfiniBand: () => ({}), RoCEv2: () => ({ profile: 'cx4-40g' }) },
  panels: [bandwidth('B')],
} satisfies Figure<number>;
