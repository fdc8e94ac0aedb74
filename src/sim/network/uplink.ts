/**
 * The way out of the simulation: a network that is real. A host with an uplink has no simulated cable. Its packets leave
 * through the uplink, encoded by its owner, and packets from outside enter through inbound.ts.
 */

import type { Qp } from '../transport/qp.ts';

/** Numbers of hosts outside of the simulation go down from here; FIRST_REMOTE - n is the uplink's address n. */
export const FIRST_REMOTE = -16;

/** Packets that a reliable queue pair may have unacknowledged on a real network, if the next one is long, or short. */
const LONG_WINDOW = 32;
const SHORT_WINDOW = 128;
const SHORT_BYTES = 512;

/**
 * How many packets may be unacknowledged when one with this payload is sent. Any mixture of 32 long and 96 short ones fits
 * into the receive buffer that Linux grants every UDP socket: 416 KiB, of which a packet of 4096 bytes takes 8.3 KiB and a
 * short one at most 1.25 KiB.
 */
export function windowPackets(payloadBytes: number): number {
  return payloadBytes > SHORT_BYTES ? LONG_WINDOW : SHORT_WINDOW;
}

/** What a device requires of the real network. Its calls run inside events. */
export interface Uplink {
  /** Whether this host may send one more packet. If not, the uplink calls Simulation.resume() when it may. */
  hasRoom(host: number): boolean;
  /** Sends packet `p` of the pool and does not keep it: the caller releases it. */
  send(host: number, p: number): void;
}

/** Whether a host, by its number, is outside of the simulation. */
export function isRemote(host: number): boolean {
  return host <= FIRST_REMOTE;
}

/** The part of a queue pair's message that has arrived so far, for packets that do not repeat its address. */
export class PartialMessage {
  private owner: Qp | null = null;
  private epoch = 0;
  /** PKT_SEND, PKT_WRITE, or -1 between messages. */
  kind = -1;
  rkey = 0;
  /** [0] address of the next byte of a WRITE, [1] bytes that are missing. */
  readonly numbers = new Float64Array(2);

  /** Forgets the part if it is of another queue pair with the same number, or from before a RESET. */
  keepOnlyOf(qp: Qp): void {
    if (this.owner === qp && this.epoch === qp.epoch) return;
    this.owner = qp;
    this.epoch = qp.epoch;
    this.kind = -1;
  }
}
