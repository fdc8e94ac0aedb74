/**
 * Multicast through switches: the first switch creates a copy for each host of the group, and each copy takes
 * its own path.
 */

import { EV_COPY } from '../kernel/event-kinds.ts';
import type { World } from '../world.ts';
import { MULTICAST } from './address.ts';
import type { SwitchNetwork } from './switches.ts';

/** A packet passed the pipeline of its sender's switch. */
export function enter(world: World, switchNetwork: SwitchNetwork, p: number): void {
  if (switchNetwork.receiverOf(p) !== MULTICAST) {
    switchNetwork.receive(switchNetwork.portOfHost(switchNetwork.senderOf(p)), p);
    return;
  }
  const from = switchNetwork.senderOf(p);
  const bytes = switchNetwork.sizeOf(p);
  let host = MULTICAST;
  for (const qp of world.packets.ah[p]!.group!.queuePairs) {
    if (qp.host === host) continue;
    host = qp.host;
    const copy = world.packets.copy(p, world.packets.length[p]);
    switchNetwork.tag(copy, bytes, from, host);
    if (host !== from) switchNetwork.receive(switchNetwork.portOfHost(from), copy);
    else {
      // The sending NIC hands copies to its own queue pairs.
      world.events.due[0] = world.clock[0];
      world.events.push(EV_COPY, copy, 0, 0);
    }
  }
  world.packets.release(p);
}
