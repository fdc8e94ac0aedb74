import type { Figure } from '../../engine/figure.ts';
import { average, bandwidth, p99 } from '../../engine/panels.ts';
import { onInfiniBand } from '../../justitia/kinds.ts';

const SENDERS = 32;
const D = `D:size=16,think=1us,host=${SENDERS},to=${SENDERS + 1}`;
const incast = (apps: readonly string[]) =>
  onInfiniBand(apps, {
    hosts: SENDERS + 2,
    set: { linkGbps: 10, congestionControl: 'dcqcn' },
    duration: '100ms',
    warmup: '50ms',
  });

export default {
  title: 'Incast: 32 senders with a bandwidth application each, one with a latency application',
  source: 'Justitia 6.5, fig. 24: the tail is better under Justitia, and the bandwidth of all still high',
  note: 'ConnectX-3 at 10 Gbps with DCQCN, one switch. What D waits for is the queue of the switch, which a policy of the senders does not see.',
  x: { title: '', values: ['33 senders'] },
  mix: () => incast([`B:size=1MB,count=${SENDERS},host=0-${SENDERS - 1},to=${SENDERS + 1}`, D]),
  series: { 'D alone': () => incast([D]) },
  panels: [
    average('D', { log: true }),
    p99('D', { log: true }),
    bandwidth('B', { title: 'Bandwidth of all B' }),
  ],
} satisfies Figure<string>;
