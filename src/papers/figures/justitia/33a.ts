import { toAlone } from '../../engine/beside.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth, median, p99, stated } from '../../engine/panels.ts';
import { B, onInfiniBand } from '../../justitia/kinds.ts';

const RPC = 'D:op=send,transport=ud,size=32,think=1us';
const alone = () => onInfiniBand([RPC], { duration: '5ms' });
const X = 'eRPC and storage';

export default {
  title: 'Single datagrams (as of eRPC) beside storage traffic: latency',
  source: 'Justitia appendix C.2, fig. 33(a)',
  note: 'A stand-in with one bandwidth application; the storage system of the paper had 16 machines: 67 and 40 times would need several of them here, as fig. 29(a) shows.',
  x: { title: '', values: [X] },
  mix: () => onInfiniBand([B, RPC]),
  series: { alone },
  panels: [
    median('D'),
    p99('D'),
    toAlone(median('D', { log: true }), alone, [
      ...stated('none', 'C.2', [[X, 67]]),
      ...stated('justitia', 'C.2: 67 / 56.9', [[X, 67 / 56.9]]),
    ]),
    toAlone(p99('D', { log: true }), alone, [
      ...stated('none', 'C.2', [[X, 40]]),
      ...stated('justitia', 'C.2: 40 / 32.2', [[X, 40 / 32.2]]),
    ]),
    bandwidth('B'),
  ],
} satisfies Figure<string>;
