/** Invariants that hold after every run, whatever the policy and the faults. */

import { StoppablePort } from './egress/stoppable-port.ts';
import { brokenSwitches } from './network/switch-checks.ts';
import type { Simulation } from './simulation.ts';
import type { World } from './world.ts';

/** Describes NICs that were busy for longer than time passed, and contexts that were miscounted. */
function brokenNics(world: World): string[] {
  const broken: string[] = [];
  const contexts = new Int32Array(world.hosts.length);
  for (const qp of world.qps) if (qp?.hasContext) contexts[qp.host]++;
  for (const [host, { pcie, receiver, caches }] of world.hosts.entries()) {
    if (pcie.busyNs > Math.max(pcie.idleFromNs, world.clock[0]) * (1 + 1e-9))
      broken.push(`host ${host}: its PCIe link exceeded its rate`);
    if (world.units[host]?.withinTime === false)
      broken.push(`host ${host}: its processing units were busy for longer than time passed`);
    if (!receiver.withinRate) broken.push(`host ${host}: its receiver exceeded its rate`);
    if (caches.contexts.live !== contexts[host])
      broken.push(`host ${host}: ${contexts[host]} queue pairs connected, ${caches.contexts.live} counted`);
  }
  return broken;
}

/** Describes every violated invariant; empty when all hold. */
export function brokenInvariants(sim: Simulation): string[] {
  const broken: string[] = [];
  const { world } = sim;
  const idle = sim.nextNs() === Number.POSITIVE_INFINITY;
  for (const qp of world.qps) {
    if (qp === undefined) continue;
    const outstanding = ((qp.sq.posted - qp.una) | 0) + ((qp.rq.posted - qp.rqDone) | 0);
    const known = qp.completed + qp.errored + qp.discarded + outstanding;
    if (qp.posted !== known)
      broken.push(`queue pair ${qp.qpn}: ${qp.posted} requests posted, ${known} accounted for`);
    if (((qp.sq.posted - qp.sq.freed) | 0) > qp.sq.size)
      broken.push(`queue pair ${qp.qpn}: its send queue is overfull`);
    if (qp.rdOutstanding < 0) broken.push(`queue pair ${qp.qpn}: ${qp.rdOutstanding} READs outstanding`);
  }
  for (const srq of world.srqs) {
    if (srq === undefined) continue;
    let held = 0;
    for (const qp of world.qps) if (qp?.srq === srq) held += (qp.rq.posted - qp.rqDone) | 0;
    const known = srq.completed + srq.discarded + held + srq.waiting;
    if ((srq.queue.posted | 0) !== (known | 0))
      broken.push(
        `shared receive queue ${srq.number}: ${srq.queue.posted} receives posted, ${known} accounted for`,
      );
  }
  for (const cq of world.cqs) {
    if (cq === undefined) continue;
    if (((cq.written - cq.polled) | 0) - cq.hiddenPurged > cq.cqe)
      broken.push(`completion queue ${cq.id}: overfull`);
    if (idle && cq.visible !== cq.written)
      broken.push(`completion queue ${cq.id}: completions never became visible`);
  }
  for (const port of world.ports) {
    const busyNs = port.bytesOut[0] * port.nsPerByte;
    if (busyNs > Math.max(port.busyUntil, world.clock[0]) * (1 + 1e-9))
      broken.push(`port ${port.id}: exceeded its rate`);
    port.reclaim();
    if (port instanceof StoppablePort && port.bytesIn[0] !== port.bytesOut[0] + port.used)
      broken.push(
        `port ${port.id}: ${port.bytesIn[0]} bytes came in, ${port.bytesOut[0] + port.used} accounted for`,
      );
    if (idle && port.used !== 0 && port.busyUntil <= world.clock[0])
      broken.push(`port ${port.id}: bytes left in its FIFO`);
  }
  broken.push(...brokenNics(world));
  if (world.switchNetwork !== null) broken.push(...brokenSwitches(world.switchNetwork, idle));
  if (idle && world.packets.live !== 0) broken.push(`${world.packets.live} packets were never released`);
  return broken;
}
