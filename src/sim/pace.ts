/**
 * Rate limits (ibv_modify_qp_rate_limit(3)): the packets of one queue pair's requests reach its port no faster
 * than its rate. A leaky bucket: each packet, headers included, moves the time of the next one on, and up
 * to `burstNs` of that may be used ahead.
 */
import { EV_PACE } from './kinds.ts';
import type { Network } from './network.ts';
import { DEADLINE, type Qp, SENDING } from './qp.ts';

export class Pace {
  readonly nsPerByte: number;
  readonly burstNs: number;
  /** [0] when the next packet is due at the exact rate. */
  readonly due = new Float64Array(1);
  /** An event is on its way for the packet that is held back. */
  waiting = false;

  constructor(kbps: number, burstBytes: number, nowNs: number) {
    this.nsPerByte = 8e6 / kbps;
    this.burstNs = burstBytes * this.nsPerByte;
    this.due[0] = nowNs;
  }
}

/** Limits a queue pair from now on; null: no limit. */
export function setPace(net: Network, qp: Qp, pace: Pace | null): void {
  qp.pace = pace;
  // What the old limit holds back is looked at anew.
  if (qp.phase === SENDING && !qp.requests.queued) joinPort(net, qp);
}

/** The requester has a packet: it joins the round of its port, now or when its pace allows. */
export function joinPort(net: Network, qp: Qp): void {
  const { pace } = qp;
  if (pace === null || pace.due[0] - pace.burstNs <= net.clock[0]) {
    net.join(qp.requests);
    return;
  }
  // In the middle of a message nothing may be there to acknowledge: the retry timer runs again with the next packet.
  if (qp.pkt > 0) qp.times[DEADLINE] = Number.POSITIVE_INFINITY;
  if (pace.waiting) return;
  pace.waiting = true;
  net.events.due[0] = pace.due[0] - pace.burstNs;
  net.events.push(EV_PACE, qp.qpn, 0, qp.epoch);
}

/** A packet was admitted to the port. */
export function countPacket(net: Network, pace: Pace, bytes: number): void {
  pace.due[0] = Math.max(pace.due[0], net.clock[0]) + bytes * pace.nsPerByte;
}

export function onPace(net: Network, qp: Qp): void {
  if (qp.pace === null) return;
  qp.pace.waiting = false;
  if (qp.phase === SENDING && !qp.requests.queued) joinPort(net, qp);
}
