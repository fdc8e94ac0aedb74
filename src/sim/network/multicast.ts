/** Packets for everybody: the first switch makes a copy for each host of the group, and each goes its own way. */

import { EV_COPY } from '../kernel/event-kinds.ts';
import type { World } from '../world.ts';
import { MULTICAST } from './address.ts';
import type { SwitchNetwork } from './switches.ts';

/** A packet is through the pipeline of the switch that its sender is on. */
export function enter(world: World, fabric: SwitchNetwork, p: number): void {
  if (fabric.receiverOf(p) !== MULTICAST) {
    fabric.receive(fabric.portOfHost(fabric.senderOf(p)), p);
    return;
  }
  const from = fabric.senderOf(p);
  const bytes = fabric.sizeOf(p);
  let host = MULTICAST;
  for (const qp of world.packets.ah[p]!.group!.queuePairs) {
    if (qp.host === host) continue;
    host = qp.host;
    const copy = world.packets.copy(p, world.packets.length[p]);
    fabric.tag(copy, bytes, from, host);
    if (host !== from) fabric.receive(fabric.portOfHost(from), copy);
    else {
      // The NIC that sent it hands copies to its own queue pairs.
      world.events.due[0] = world.clock[0];
      world.events.push(EV_COPY, copy, 0, 0);
    }
  }
  world.packets.release(p);
}
