/**
 * Extended reliable connections: a receiving half has neither protection domain nor receives; each request
 * names a shared receive queue of its domain, whose memory it may reach and whose receives it takes.
 */
import * as C from '../../verbs/constants.ts';
import * as P from '../kernel/packets.ts';
import type { Srq } from '../queues/srq.ts';
import type { Network } from '../world.ts';
import type { Qp } from './qp.ts';

function srqOf(net: Network, qp: Qp, p: number): Srq | undefined {
  const srq = net.srqs[net.packets.srqNum[p]];
  return srq !== undefined && srq.host === qp.host && srq.xrcd === qp.xrcd ? srq : undefined;
}

/** Takes on the shared receive queue that a new message names; false when there is none of its domain. */
export function nameSrq(net: Network, qp: Qp, p: number): boolean {
  if ((net.packets.flags[p] & P.FIRST) === 0) return true;
  const srq = srqOf(net, qp, p);
  if (srq === undefined || srq.cq === null) return false;
  qp.srq = srq;
  qp.pd = srq.pd;
  qp.recvCq = srq.cq;
  return true;
}

/** Handles a packet of an earlier message with the protection domain that was that one's. */
export function ofSrq(
  net: Network,
  qp: Qp,
  p: number,
  handle: (net: Network, qp: Qp, p: number) => void,
): void {
  if (qp.type !== C.IBV_QPT_XRC_RECV) {
    handle(net, qp, p);
    return;
  }
  const { pd } = qp;
  qp.pd = srqOf(net, qp, p)?.pd ?? pd;
  handle(net, qp, p);
  qp.pd = pd;
}
