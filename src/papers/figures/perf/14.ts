import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth, latencies } from '../../engine/panels.ts';

/** Of the first B_App and of the second, in Gbit/s. */
const rates = (policy: string) => (first: number) => ({
  policy: `${policy}ratesGbps=one:${first}/two:${100 - first}`,
});

export default {
  title: 'Two B_Apps with rates of their own, and D_App',
  source:
    'PeRF 5.2.5, fig. 14: D_App waits up to 70 % less under PeRF; (a) is RDMA with token buckets, (b) PeRF',
  note: 'Here D waits at most 18 % less: the rates together fill the link, and so the FIFO, whatever is in it.',
  x: { title: 'Gbit/s of the first B_App; the second has the rest of 100', values: [10, 20, 30, 40, 50] },
  mix: () => mix('cx6-100g', ['B:name=one,size=1MiB', 'B:name=two,size=1MiB', 'D:size=16,think=1us']),
  policies: [],
  series: {
    'token-bucket': rates('token-bucket:'),
    perf: rates('perf:'),
    'perf:paper': rates('perf:paper,'),
  },
  panels: [bandwidth('one'), bandwidth('two'), ...latencies<number>('D')],
} satisfies Figure<number>;
