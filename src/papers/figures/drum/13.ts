import { cached } from '../../drum/connections.ts';
import type { Figure } from '../../engine/figure.ts';
import { average, bandwidth, p99 } from '../../engine/panels.ts';

const HOSTS = 6;

export default {
  title: 'Clients of a key-value store on six hosts',
  source:
    'DRUM V, test case 3, figs. 13 and 14: beyond 300 clients DRUM has 1.8 times the throughput of SHARE',
  note: 'GETs as READs of 32 B to 1 MB. The paper has most requests below 18 us, a sixth of what their mean size alone takes at 40 Gbps: its latencies cannot be those of this load.',
  also: ['14'],
  x: { title: 'clients', values: [24, 96, 198, 300] },
  mix: (clients) =>
    cached([`B:name=kv,op=read,size=32-1MiB,depth=1,qps=${clients / HOSTS},count=${HOSTS},host=1-6,to=0`], {
      hosts: HOSTS + 1,
      ...(clients < 100 ? { duration: '20ms', warmup: '4ms' } : { duration: '100ms', warmup: '10ms' }),
    }),
  panels: [bandwidth('kv', { title: 'Bandwidth of all' }), average('kv'), p99('kv')],
} satisfies Figure<number>;
