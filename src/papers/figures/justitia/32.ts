import { toAlone } from '../../engine/beside.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth, rate, stated } from '../../engine/panels.ts';
import { B, onInfiniBand } from '../../justitia/kinds.ts';

const RPC = 'M:op=send,transport=ud,size=32,batch=8,depth=8,qps=4';
const alone = () => onInfiniBand([RPC], { duration: '5ms' });
const X = 'FaSST and storage';

export default {
  title: 'Datagrams in batches of 8 over 4 threads (as of FaSST) beside storage traffic',
  source:
    'Justitia appendix C.2, fig. 32: 9.8 Mrps alone; 74 % less beside it, 2.5 times that under Justitia',
  note: 'A stand-in with one bandwidth application; the storage system of the paper had 16 machines. perf lets one of the four queue pairs send at a time.',
  x: { title: '', values: [X] },
  mix: () => onInfiniBand([B, RPC]),
  series: { alone },
  panels: [
    rate('M', { paper: stated('alone', 'C.2', [[X, 9.8]]) }),
    toAlone(rate('M'), alone, [
      ...stated('none', 'C.2', [[X, 0.26]]),
      ...stated('justitia', 'C.2: 2.5 times 0.26', [[X, 2.5 * 0.26]]),
    ]),
    bandwidth('B'),
  ],
} satisfies Figure<string>;
