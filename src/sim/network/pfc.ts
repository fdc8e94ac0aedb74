/**
 * Priority flow control (IEEE 802.1Qbb) of a switch, with one lossless class for all traffic. Each ingress
 * port owns a fixed part of the buffer. It pauses its sender above xoff and resumes it below xon. The
 * headroom above xoff absorbs what arrives until the sender has stopped, so nothing is lost.
 */
import { ConfigError } from '../../verbs/errors.ts';
import type { NicParams } from '../profile/params.ts';

export class PauseThresholds {
  readonly xoffBytes: number;
  readonly xonBytes: number;
  /** Bytes that can arrive after the pause frame was sent. */
  readonly headroomBytes: number;

  /**
   * Thresholds for a switch with this many ports. They are lowered when the buffer is too small for those of
   * the profile. @throws ConfigError when the buffer is smaller than the headroom, or xon is above xoff
   */
  constructor(params: Readonly<NicParams>, ports: number) {
    const { pfcXoffBytes, pfcXonBytes, switchBufferBytes } = params;
    if (pfcXonBytes > pfcXoffBytes)
      throw new ConfigError(`pfcXonBytes (${pfcXonBytes}) must not be above pfcXoffBytes (${pfcXoffBytes})`);
    this.headroomBytes = headroomBytes(params);
    this.xoffBytes = Math.min(pfcXoffBytes, Math.floor(switchBufferBytes / ports) - this.headroomBytes);
    if (this.xoffBytes <= 0) {
      throw new ConfigError(
        `switchBufferBytes (${switchBufferBytes}) is too small for PFC on ${ports} ports: each requires ${this.headroomBytes} bytes of headroom`,
      );
    }
    this.xonBytes = Math.max(0, this.xoffBytes - (pfcXoffBytes - pfcXonBytes));
  }
}

/** Largest packet on the wire. */
export function maxPacketBytes(params: Readonly<NicParams>): number {
  return params.mtuBytes + params.headerBytes + params.rethBytes;
}

/**
 * While the pause frame crosses one cable, the bytes still being sent fill the cable and the pipeline: two
 * propagation delays and one switch delay at line rate. Three packets are counted in full: the one that
 * crossed the threshold, the one being sent, and the one halfway into the cable.
 */
export function headroomBytes(params: Readonly<NicParams>): number {
  const flightNs = 2 * params.propagationNs + params.switchNs;
  return Math.ceil((flightNs * params.linkGbps) / 8) + 3 * maxPacketBytes(params);
}
