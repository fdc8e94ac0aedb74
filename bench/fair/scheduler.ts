/** What the policy's scheduler takes for a piece. */
import { CoordinatorRegistry } from '#src/coordinator/registry.ts';
import { fairOptions } from '#src/policies/fair/options.ts';
import { Scheduler } from '#src/policies/fair/scheduler.ts';
import { completing, contextOf, Device, FLYING, PIECE_BYTES, qpsOf } from '../array-device.ts';
import type { Work } from '../conditions-in-turn.ts';

/** The scheduler of the policy. A unit is a piece and its completion. */
export function scheduled(queuePairs: number, tenants: number): Work {
  const contexts = Array.from({ length: tenants }, (_, index) => contextOf(`t${index}`, index));
  const qps = qpsOf(queuePairs, (index) => contexts[index % tenants]);
  const device = new Device(qps);
  const { out } = device;
  const options = fairOptions.parse({ pieceBytes: PIECE_BYTES, windowBytes: FLYING * PIECE_BYTES });
  const scheduler = new Scheduler(0, contexts[0], options, new CoordinatorRegistry());
  for (const context of contexts) scheduler.open(context, out);
  for (const qp of qps) scheduler.add(qp, out);
  for (const qp of qps) scheduler.feed(qp, out);
  return completing(device, (qp) => scheduler.onCompleted(qp, out));
}
