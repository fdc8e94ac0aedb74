import { toAlone } from '../../engine/beside.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth, rate, stated } from '../../engine/panels.ts';
import { B, onInfiniBand } from '../../justitia/kinds.ts';

const RPC = 'M:op=send,transport=ud,size=32,batch=8,depth=8,qps=2';
const alone = () => onInfiniBand([RPC], { duration: '5ms' });
const X = 'eRPC and storage';

export default {
  title: 'Datagrams in batches of 8 over 2 threads (as of eRPC) beside storage traffic',
  source: 'Justitia appendix C.2, fig. 33(b): 93 % less beside it, 9.7 times that under Justitia',
  note: 'A stand-in with one bandwidth application; the storage system of the paper had 16 machines. perf lets one of the two queue pairs send at a time.',
  x: { title: '', values: [X] },
  mix: () => onInfiniBand([B, RPC]),
  series: { alone },
  panels: [
    rate('M'),
    toAlone(rate('M'), alone, [
      ...stated('none', 'C.2', [[X, 0.07]]),
      ...stated('justitia', 'C.2: 9.7 times 0.07', [[X, 9.7 * 0.07]]),
    ]),
    bandwidth('B'),
  ],
} satisfies Figure<string>;
