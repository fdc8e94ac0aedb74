import { mix } from '../../engine/claim.ts';
import type { Figure } from '../../engine/figure.ts';
import { stated } from '../../engine/panels.ts';

/** In Gbit/s. */
const RATES = [0.0001, 0.001, 0.01, 0.1, 1, 10, 100];
/** Slow ones are seen with short messages, over a long time. */
const size = (gbps: number) => (gbps < 0.1 ? '64B' : '1MiB');
const time = (gbps: number) =>
  gbps < 0.001 ? { duration: '500ms', warmup: '20ms' } : { duration: '60ms', warmup: '5ms' };

export default {
  title: 'One queue pair with a rate limit',
  source: 'Tassel 4, fig. 7: accurate from 100 Kbps to 100 Gbps',
  note: 'Rates are of bytes on the wire. Limiters of the hardware miss theirs by up to 10 % (2.1). token-bucket does not count the 16 bytes that the first packet of a WRITE has more: a tenth of a 64 B message.',
  x: { title: 'Gbps of the limit', values: RATES, log: true },
  mix: (gbps) => mix('cx6-100g', [`B:size=${size(gbps)}`], time(gbps)),
  policies: [],
  series: {
    'limiter of the hardware': (gbps) => ({ apps: [`B:size=${size(gbps)},rate=${gbps}Gbps`] }),
    'token-bucket': (gbps) => ({ policy: `token-bucket:ratesGbps=B:${gbps}` }),
  },
  panels: [
    {
      title: 'Rate to its limit',
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
} satisfies Figure<number>;
