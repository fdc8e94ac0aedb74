/**
 * Extended reliable connections: a receiving half has neither protection domain nor receives; each request
 * names a shared receive queue of its domain, whose memory it may reach and whose receives it takes.
 */
import * as C from '../../verbs/constants.ts';
import * as P from '../kernel/packets.ts';
import type { Srq } from '../queues/srq.ts';
import type { World } from '../world.ts';
import type { Qp } from './qp.ts';

function srqOf(world: World, qp: Qp, p: number): Srq | undefined {
  const srq = world.srqs[world.packets.srqNum[p]];
  return srq !== undefined && srq.host === qp.host && srq.xrcd === qp.xrcd ? srq : undefined;
}

/** Takes on the shared receive queue that a new message names; false when there is none of its domain. */
export function adoptSrq(world: World, qp: Qp, p: number): boolean {
  if ((world.packets.flags[p] & P.FIRST) === 0) return true;
  const srq = srqOf(world, qp, p);
  if (srq === undefined || srq.cq === null) return false;
  qp.srq = srq;
  qp.pd = srq.pd;
  qp.recvCq = srq.cq;
  return true;
}

/** Handles a packet of an earlier message with the protection domain that was that one's. */
export function withSrqDomain(
  world: World,
  qp: Qp,
  p: number,
  handle: (world: World, qp: Qp, p: number) => void,
): void {
  if (qp.type !== C.IBV_QPT_XRC_RECV) {
    handle(world, qp, p);
    return;
  }
  const { pd } = qp;
  qp.pd = srqOf(world, qp, p)?.pd ?? pd;
  handle(world, qp, p);
  qp.pd = pd;
}
