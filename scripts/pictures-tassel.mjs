/**
 * Draws docs/pictures/tassel-rates.svg: the packets of four queue pairs on the wire, bare, under token-bucket and under
 * tassel. Requires a build.
 */
import { drawLanes } from './lanes.mjs';

const RATES = 'ratesGbps=a:40/b:20/c:10';

drawLanes({
  picture: new URL('../docs/pictures/tassel-rates.svg', import.meta.url),
  name: 'tassel',
  options: ['--profile', 'cx6-100g'],
  queuePairs: [
    { name: 'a', app: 'B:size=1MiB', says: 'a: 1 MiB, 40 Gbit/s' },
    { name: 'b', app: 'B:size=1MiB', says: 'b: 1 MiB, 20 Gbit/s' },
    { name: 'c', app: 'B:size=1MiB', says: 'c: 1 MiB, 10 Gbit/s' },
    { name: 'd', app: 'D:size=64,think=3us', says: 'd: 64 B, no rate' },
  ],
  forms: [
    { name: 'bare', says: 'Bare: one packet of each queue pair in turn', options: [] },
    {
      name: 'bucket',
      says: 'token-bucket: the mean is right, in pieces of 16 KiB',
      options: ['--policy', `token-bucket:others=unlimited,${RATES}`],
    },
    {
      name: 'tassel',
      says: 'tassel: a piece of 4 KiB whenever the rate allows one',
      options: ['--policy', `tassel:${RATES}`],
    },
  ],
  fromNs: 300_000,
  shownNs: 12_000,
  left: 150,
});
