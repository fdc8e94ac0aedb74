import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { bandwidth, rate, stated } from '../../engine/panels.ts';

/** More of them need longer until all have begun. */
const TIMES = {
  some: { duration: '18ms', warmup: '2ms' },
  many: { duration: '12ms', warmup: '4ms' },
};

export default {
  title: 'Many B_Apps of 8 queue pairs beside M_App',
  source: 'PeRF 5.2.5, fig. 13(a): 9.7 Mmps and 87 Gbps with up to 1,000',
  note: 'With its fixed waits perf:paper fills the FIFO from two B_Apps on, and M collapses: the paper does not say what keeps it from that.',
  x: { title: 'B_Apps', values: [2, 8, 16, 1000], log: true },
  mix: (count) =>
    mix('cx6-100g', [`B:size=1MiB,count=${count},qps=8`, 'M:size=16'], count > 16 ? TIMES.many : TIMES.some),
  panels: [
    rate('M', { paper: stated('perf:paper', '5.2.5', [[1000, 9.7]]) }),
    bandwidth('B', { title: 'Bandwidth of all B_Apps', paper: stated('perf:paper', '5.2.5', [[1000, 87]]) }),
  ],
} satisfies Figure<number>;
