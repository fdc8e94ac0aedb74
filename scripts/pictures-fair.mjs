/**
 * Draws docs/pictures/fair-wire.svg: the packets of four tenants on the wire, on the bare device and under fair. Requires
 * a build.
 */
import { drawLanes } from './lanes.mjs';

drawLanes({
  picture: new URL('../docs/pictures/fair-wire.svg', import.meta.url),
  name: 'fair',
  options: ['--profile', 'cx6-100g'],
  queuePairs: [
    { name: 'b', app: 'B:qps=4', qps: 4, says: 'B: 4 queue pairs, 1 MiB' },
    { name: 'c', app: 'B:size=1MiB', says: 'C: 1 queue pair, 1 MiB' },
    { name: 'm', app: 'M:size=16', says: 'M: 16 B, 128 in flight' },
    { name: 'd', app: 'D:think=1us', says: 'D: 16 B, one at a time' },
  ],
  forms: [
    {
      name: 'bare',
      says: 'Bare: queue pairs take turns, and small messages wait in the device',
      options: [],
    },
    {
      name: 'fair',
      says: 'Under fair: tenants take turns, and small messages pass',
      options: ['--policy', 'fair'],
    },
  ],
  fromNs: 600_000,
  shownNs: 8000,
  left: 180,
});
