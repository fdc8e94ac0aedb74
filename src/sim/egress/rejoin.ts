/** The step after a sender was served at an egress port. */

import { awaitsPayload } from '../nic/wqe-fetch.ts';
import { RESUME, ROLE_REQUEST, SENDING, type Sender } from '../transport/qp.ts';
import { nextRequestBytes } from '../transport/request-packets.ts';
import { nextResponseBytes } from '../transport/responder.ts';
import type { World } from '../world.ts';
import { countPacket, joinPort } from './rate-pacing.ts';

/** A sender was served: it joins the round again if it has another packet. */
export function rejoin(world: World, sender: Sender, bytes: number, holdEnded: boolean): void {
  const { qp } = sender;
  if (holdEnded && qp.phase === SENDING) {
    qp.phase = RESUME;
    world.units[qp.host].yield(sender.unitUser!);
    world.units[qp.host].request(sender.unitUser!);
  }
  const limited = qp.pacer !== null || qp.congestion !== null;
  if (limited) countPacket(world, sender, bytes);
  const next = sender.role === ROLE_REQUEST ? nextRequestBytes(world, qp) : nextResponseBytes(world, qp);
  // A sender that waits for its payload lets others go first.
  if (next < 0 || awaitsPayload(world, sender)) return;
  if (limited) joinPort(world, sender);
  else world.portOf(qp).join(sender);
}
