/**
 * Extended reliable connections. A receiving half has neither a protection domain nor receives. Each request
 * names a shared receive queue of its XRC domain, which provides both.
 */
import * as C from '../../verbs/constants.ts';
import * as P from '../kernel/packets.ts';
import type { Cq } from '../queues/cq.ts';
import type { Srq } from '../queues/srq.ts';
import type { World } from '../world.ts';
import type { Qp } from './qp.ts';

function srqOf(world: World, qp: Qp, p: number): Srq | undefined {
  const srq = world.srqs[world.packets.srqNum[p]];
  return srq !== undefined && srq.host === qp.host && srq.xrcd === qp.xrcd ? srq : undefined;
}

/**
 * Adopts the shared receive queue that a new message names. Returns false when its domain has no such queue, or when the
 * queue of the current message was destroyed.
 */
export function adoptSrq(world: World, qp: Qp, p: number): boolean {
  if ((world.packets.flags[p] & P.FIRST) === 0) return qp.srq !== null;
  const srq = srqOf(world, qp, p);
  if (srq === undefined || srq.cq === null) return false;
  qp.srq = srq;
  qp.pd = srq.pd;
  qp.recvCq = srq.cq;
  return true;
}

/** Handles a repeated packet with the protection domain that its own message had. */
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

/** The shared receive queue is destroyed: its receive completes no more, and the rest of its message is refused. */
export function leaveSrq(qp: Qp, noCq: Cq): void {
  qp.discarded += (qp.rq.posted - qp.rqDone) | 0;
  qp.rqTaken = qp.rqDone = qp.rq.posted;
  qp.receiving = false;
  qp.recvCq = noCq;
  qp.srq = null;
  // A pending error no longer has a receive that fails with it.
  if (qp.fatalNak >= 0) qp.fatalNak &= 0xff;
}
