/**
 * Priority flow control (IEEE 802.1Qbb) of a switch, with one lossless class: all traffic of a cable. Each ingress
 * port has a fixed part of the buffer: it pauses whoever sends to it above xoff and lets go below xon, and the
 * headroom above xoff takes what still comes until the sender has stopped. So nothing is ever lost.
 */
import { ConfigError } from '../../verbs/errors.ts';
import type { NicParams } from '../profile/params.ts';

export class PauseThresholds {
  readonly xoffBytes: number;
  readonly xonBytes: number;
  /** What can come in after the pause frame was sent. */
  readonly headroomBytes: number;

  /**
   * For a switch with so many ports; where its buffer is too small for the thresholds of the profile on all of
   * them, they are lower.
   * @throws ConfigError the buffer does not even hold the headroom, or xon is above xoff
   */
  constructor(params: Readonly<NicParams>, ports: number) {
    const { pfcXoffBytes, pfcXonBytes, switchBufferBytes } = params;
    if (pfcXonBytes > pfcXoffBytes)
      throw new ConfigError(`pfcXonBytes (${pfcXonBytes}) must not be above pfcXoffBytes (${pfcXoffBytes})`);
    this.headroomBytes = headroomBytes(params);
    this.xoffBytes = Math.min(pfcXoffBytes, Math.floor(switchBufferBytes / ports) - this.headroomBytes);
    if (this.xoffBytes <= 0) {
      throw new ConfigError(
        `switchBufferBytes (${switchBufferBytes}) is too small for PFC on ${ports} ports: each needs ${this.headroomBytes} bytes of headroom`,
      );
    }
    this.xonBytes = Math.max(0, this.xoffBytes - (pfcXoffBytes - pfcXonBytes));
  }
}

/** The largest packet on the wire. */
export function maxPacketBytes(params: Readonly<NicParams>): number {
  return params.mtuBytes + params.headerBytes + params.rethBytes;
}

/**
 * The pause travels one cable, and what left before it arrives fills cable and pipeline: two propagations and one
 * passage of the switch at the rate of the cable. The packet that crossed the threshold, the one that the sender
 * is in, and the one that was half in the cable are whole packets.
 */
export function headroomBytes(params: Readonly<NicParams>): number {
  const flightNs = 2 * params.propagationNs + params.switchNs;
  return Math.ceil((flightNs * params.linkGbps) / 8) + 3 * maxPacketBytes(params);
}
