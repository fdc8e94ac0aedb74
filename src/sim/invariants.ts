/** What must hold after every run, whatever the policy and the faults. */
import type { Simulation } from './simulation.ts';

/** Sentences about what does not hold; empty when all is well. */
export function brokenInvariants(sim: Simulation): string[] {
  const broken: string[] = [];
  const { net } = sim;
  const idle = sim.nextNs() === Number.POSITIVE_INFINITY;
  for (const qp of net.qps) {
    if (qp === undefined) continue;
    const outstanding = ((qp.sq.posted - qp.una) | 0) + ((qp.rq.posted - qp.rqDone) | 0);
    const known = qp.completed + qp.errored + qp.discarded + outstanding;
    if (qp.posted !== known)
      broken.push(`queue pair ${qp.qpn}: ${qp.posted} requests posted, ${known} accounted for`);
    if (((qp.sq.posted - qp.sq.freed) | 0) > qp.sq.size)
      broken.push(`queue pair ${qp.qpn}: its send queue is overfull`);
    if (qp.rdOutstanding < 0) broken.push(`queue pair ${qp.qpn}: ${qp.rdOutstanding} READs outstanding`);
  }
  for (const srq of net.srqs) {
    if (srq === undefined) continue;
    let held = 0;
    for (const qp of net.qps) if (qp?.srq === srq) held += (qp.rq.posted - qp.rqDone) | 0;
    const known = srq.completed + srq.discarded + held + srq.waiting;
    if ((srq.queue.posted | 0) !== (known | 0))
      broken.push(
        `shared receive queue ${srq.number}: ${srq.queue.posted} receives posted, ${known} accounted for`,
      );
  }
  for (const cq of net.cqs) {
    if (cq === undefined) continue;
    if (((cq.written - cq.polled) | 0) - cq.ghosts > cq.cqe)
      broken.push(`completion queue ${cq.id}: overfull`);
    if (idle && cq.visible !== cq.written)
      broken.push(`completion queue ${cq.id}: completions never became visible`);
  }
  for (const port of net.ports) {
    const busyNs = port.bytesOut[0] * port.nsPerByte;
    if (busyNs > Math.max(port.busyUntil, net.clock[0]) * (1 + 1e-9))
      broken.push(`port ${port.id}: used beyond its rate`);
    port.reclaim();
    if (idle && port.used !== 0 && port.busyUntil <= net.clock[0])
      broken.push(`port ${port.id}: bytes left in its FIFO`);
  }
  if (idle && net.packets.live !== 0) broken.push(`${net.packets.live} packets were never released`);
  return broken;
}
