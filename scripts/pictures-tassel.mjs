/**
 * Draws docs/pictures/tassel-rates.svg: the packets of four queue pairs on the wire, bare, under token-bucket and under
 * tassel; and tassel-pacing.svg: those of three of 10,000 queue pairs in the cycle model, under Tassel, token buckets and
 * fq. Requires a build.
 */
import { drawLanes } from './lanes.mjs';

const { packetsOf } = await import(
  String(new URL('../dist/papers/tassel/claims-pacing.js', import.meta.url))
);

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

const SHOWN_NS = 200_000;
const LANES = ['10 Gbit/s', '1 Gbit/s', '100 Mbit/s'];

drawLanes({
  picture: new URL('../docs/pictures/tassel-pacing.svg', import.meta.url),
  name: 'tassel-pacing',
  options: [],
  queuePairs: LANES.map((says) => ({ name: says, app: '', says })),
  forms: [
    { name: 'tassel', says: 'Tassel: each packet at its time', packets: lanesOf('tassel') },
    {
      name: 'buckets',
      says: 'Token buckets: what accrues until the scan comes round again, 40 us later, leaves at once',
      packets: lanesOf('buckets'),
    },
    { name: 'fq', says: 'fq: two packets at a time, when the timer fires', packets: lanesOf('fq') },
  ],
  fromNs: 0,
  shownNs: SHOWN_NS,
  stepNs: 20_000,
  left: 150,
});

/** @param {'tassel' | 'buckets' | 'fq'} limiter */
function lanesOf(limiter) {
  return packetsOf(limiter, '10,000', LANES.length, SHOWN_NS);
}
