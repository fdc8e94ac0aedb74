/**
 * Draws docs/pictures/palos-turns.svg: the packets of four queue pairs on the wire, under both forms of Palos and on the
 * bare device. Requires a build.
 */
import { drawLanes } from './lanes.mjs';

const GROUP = 'tenant=t,group=g';

drawLanes({
  picture: new URL('../docs/pictures/palos-turns.svg', import.meta.url),
  name: 'palos',
  options: ['--profile', 'cx5-100g', '--set', 'mtuBytes=1500', '--set', 'pcieGbps=128'],
  queuePairs: [
    { name: 'a', app: `B:size=2MB,qpWeight=2,${GROUP}`, says: 'a: 2 MB, weight 2' },
    { name: 'b', app: `B:size=2MB,${GROUP}`, says: 'b: 2 MB, weight 1' },
    { name: 'c', app: `M:size=1500,${GROUP}`, says: 'c: 1500 B, weight 1' },
    { name: 'd', app: `D:size=64,think=3us,kind=latency,${GROUP}`, says: 'd: 64 B, latency' },
  ],
  // With sums over the active queue pairs, the chunks do not depend on d, which is idle most of the time.
  forms: [
    { name: 'bare', says: 'Bare: one packet of each queue pair in turn', options: [] },
    {
      name: 'nic',
      says: 'In the NIC: chunks of 3000 and 1500 B',
      options: ['--set', 'scheduler=palos', '--set', 'palosChunkBytes=2000', '--set', 'palosSums=active'],
    },
    {
      name: 'policy',
      says: 'As a policy: chunks of 9000 and 4500 B, in pieces of 3000 B and rows of messages',
      options: ['--policy', 'palos:sums=active'],
    },
  ],
  fromNs: 300_000,
  shownNs: 6000,
  left: 150,
});
