import type { Figure } from '../../engine/figure.ts';
import { bandwidth, median, p99 } from '../../engine/panels.ts';
import { onInfiniBand } from '../../justitia/kinds.ts';

const PAIR = ['B:size=1MB,count=8,host=0,to=2', 'D:size=16,think=1us,host=0,to=2'];
const BACKGROUND = 'B:name=others,size=1MB,host=1,to=3';
const racks = (apps: readonly string[]) =>
  onInfiniBand(apps, {
    hosts: 4,
    topology: 'dumbbell',
    set: { linkGbps: 10, congestionControl: 'dcqcn' },
    duration: '100ms',
    warmup: '50ms',
  });

export default {
  title: 'A congested link between racks: 8 bandwidth applications and a latency application of one pair',
  source: 'Justitia 6.6, fig. 25(b): latency is better than with congestion control alone',
  note: 'In the paper 24 more pairs congest uplinks of 160 Gbps; here it is one other pair on a trunk of 10 Gbps, and it is under the policy, too. Under perf the eight have less of the trunk than bare, and the other pair more; D has a better tail and a worse median.',
  x: { title: '', values: ['two racks'] },
  mix: () => racks([...PAIR, BACKGROUND]),
  series: { 'D alone': () => racks(PAIR.slice(1)) },
  panels: [median('D', { log: true }), p99('D', { log: true }), bandwidth('B'), bandwidth('others')],
} satisfies Figure<string>;
