/** Tassel's figures. */

import type { Mix } from '../../mix/mixture.ts';
import type { MixResult } from '../../mix/result.ts';
import type { Figure } from '../engine/figure.ts';
import { mix } from '../engine/mix.ts';
import { stated } from '../engine/panels.ts';
import { BELOW_LINK, type RateClasses, TWICE_LINK } from './rate-classes.ts';

// A thousand queue pairs with rate limits: Tassel, fig. 8.
/** Low rates are measured with short messages. */
const bytesOf = (mbps: number) => (mbps < 100 ? 256 : 4096);
const WIRE = 98;

const app = ([mbps, qps]: RateClasses[number], limit = '') =>
  `B:name=r${mbps},size=${bytesOf(mbps)},depth=2,qps=${qps},tenant=r${mbps}${limit}`;

function accuracy(run: MixResult, mbps: number): number {
  const { throughputGbps, qps } = run.apps.find(({ name }) => name === `r${mbps}`) ?? run.apps[0];
  const bytes = bytesOf(mbps);
  return (throughputGbps * 1e3 * (1 + WIRE / bytes)) / (qps * mbps);
}

/** @param paper the rates in the paper, relative to their limits */
function limitedFlows(limited: RateClasses, paper: number) {
  const bare: Mix = mix(
    'cx6-100g',
    limited.map((one) => app(one)),
    { duration: '40ms', warmup: '5ms' },
  );
  const rates = limited.map(([mbps, qps]) => `r${mbps}:${(mbps * qps) / 1e3}`).join('/');
  return {
    note: 'Rates count bytes on the wire. token-bucket limits all queue pairs with the same rate together, and does not count 16 bytes of each message. Where the limits exceed the link, only the fastest queue pairs get less than their limit: the packet round gives slow queue pairs all that they may use. Tassel divides all limits by the same factor.',
    x: { title: 'Mbps of the limit', values: limited.map(([mbps]) => mbps), log: true },
    mix: () => bare,
    policies: [],
    series: {
      'limiters of the hardware': () => ({ apps: limited.map((one) => app(one, `,rate=${one[0]}Mbps`)) }),
      'tassel in the NIC': () => ({
        apps: limited.map((one) => app(one, `,rate=${one[0]}Mbps`)),
        set: { rateLimiter: 'tassel' },
      }),
      'token-bucket': () => ({ policy: `token-bucket:ratesGbps=${rates}` }),
      'the policy tassel': () => ({
        policy: 'tassel',
        apps: limited.map((one) => app(one, `,rate=${one[0]}Mbps`)),
      }),
    },
    panels: [
      {
        title: 'Rate of all queue pairs with the same limit, relative to that limit',
        unit: 'x',
        measure: accuracy,
        paper: limited.map(([mbps]) => ({ series: 'tassel', x: mbps, value: paper, from: '4' })),
      },
    ],
  } satisfies Omit<Figure<number>, 'number' | 'title' | 'source'>;
}

/** Rates in Gbit/s. */
const RATES = [0.0001, 0.001, 0.01, 0.1, 1, 10, 100];

/** Low rates are measured with short messages over a long time. */
const size = (gbps: number) => (gbps < 0.1 ? '64B' : '1MiB');

const time = (gbps: number) =>
  gbps < 0.001 ? { duration: '500ms', warmup: '20ms' } : { duration: '60ms', warmup: '5ms' };

const figure7: Figure<number> = {
  number: '7',
  title: 'One queue pair with a rate limit',
  source: 'Tassel 4, fig. 7: accurate from 100 Kbps to 100 Gbps',
  note: 'Rates count bytes on the wire. Hardware limiters miss their rate by up to 10 % (2.1). token-bucket does not count the 16 additional bytes in the first packet of a WRITE, which are a tenth of a 64 B message.',
  x: { title: 'Gbps of the limit', values: RATES, log: true },
  mix: (gbps) => mix('cx6-100g', [`B:size=${size(gbps)}`], time(gbps)),
  policies: [],
  series: {
    'limiter of the hardware': (gbps) => ({ apps: [`B:size=${size(gbps)},rate=${gbps}Gbps`] }),
    'tassel in the NIC': (gbps) => ({
      apps: [`B:size=${size(gbps)},rate=${gbps}Gbps`],
      set: { rateLimiter: 'tassel' },
    }),
    'token-bucket': (gbps) => ({ policy: `token-bucket:ratesGbps=B:${gbps}` }),
    'the policy tassel': (gbps) => ({ policy: `tassel:qpGbps=${gbps}` }),
  },
  panels: [
    {
      title: 'Rate, relative to its limit',
      unit: 'x',
      measure: ({ links, durationNs, warmupNs }, gbps) =>
        (links[0].bytes * 8) / (durationNs - warmupNs) / gbps,
      paper: stated(
        'tassel',
        '4',
        RATES.map((gbps) => [gbps, 1]),
      ),
    },
  ],
};

const figure8a: Figure<number> = {
  number: '8a',
  ...limitedFlows(BELOW_LINK, 1),
  title: '1,000 queue pairs with rate limits, 17 Gbps together',
  source: 'Tassel 4, fig. 8(a): accurate',
};

const figure8b: Figure<number> = {
  number: '8b',
  ...limitedFlows(TWICE_LINK, 0.5),
  title: '1,000 queue pairs with rate limits, twice the link bandwidth together',
  source: 'Tassel 4, fig. 8(b): each falls to half its limit',
};

export const FIGURES: readonly Figure[] = [figure7, figure8a, figure8b];
