/** A thousand queue pairs with rate limits: Tassel, fig. 8. */

import type { MixResult } from '../../mix/result.ts';
import { type Mix, mix } from '../engine/claim.ts';
import type { Figure } from '../engine/figure.ts';

/** Queue pairs by their limit in Mbit/s. */
type Limited = readonly (readonly [mbps: number, qps: number])[];

/** Slow ones are seen with short messages. */
const bytesOf = (mbps: number) => (mbps < 100 ? 256 : 4096);
const WIRE = 98;

const app = ([mbps, qps]: Limited[number], limit = '') =>
  `B:name=r${mbps},size=${bytesOf(mbps)},depth=2,qps=${qps},tenant=r${mbps}${limit}`;

function accuracy(run: MixResult, mbps: number): number {
  const { throughputGbps, qps } = run.apps.find(({ name }) => name === `r${mbps}`) ?? run.apps[0];
  const bytes = bytesOf(mbps);
  return (throughputGbps * 1e3 * (1 + WIRE / bytes)) / (qps * mbps);
}

/** @param paper what the rates are to their limits there */
export function limitedFlows(limited: Limited, paper: number) {
  const bare: Mix = mix(
    'cx6-100g',
    limited.map((one) => app(one)),
    { duration: '40ms', warmup: '5ms' },
  );
  const rates = limited.map(([mbps, qps]) => `r${mbps}:${(mbps * qps) / 1e3}`).join('/');
  return {
    note: 'Rates are of bytes on the wire. token-bucket limits all queue pairs of a rate together, and does not count 16 bytes of each message. Where the link is too slow for all limits, only the fastest have less than theirs: the packet round gives the slow ones all that they may have.',
    x: { title: 'Mbps of the limit', values: limited.map(([mbps]) => mbps), log: true },
    mix: () => bare,
    policies: [],
    series: {
      'limiters of the hardware': () => ({ apps: limited.map((one) => app(one, `,rate=${one[0]}Mbps`)) }),
      'token-bucket': () => ({ policy: `token-bucket:ratesGbps=${rates}` }),
    },
    panels: [
      {
        title: 'Rate of all queue pairs with a limit, to that limit',
        unit: 'x',
        measure: accuracy,
        paper: limited.map(([mbps]) => ({ series: 'tassel', x: mbps, value: paper, from: '4' })),
      },
    ],
  } satisfies Omit<Figure<number>, 'title' | 'source'>;
}
