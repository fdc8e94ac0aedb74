/** Reads the packets of a pcapng file with nanosecond timestamps, as the library writes them. */
import { readFileSync } from 'node:fs';
import { DECODED, decodePacket, REASONS, RocePacket } from '../../src/roce/codec.ts';
import { isSealed } from '../../src/roce/icrc.ts';

export interface CapturedFrame {
  /** Name of the interface. */
  at: string;
  atNs: number;
  outbound: boolean;
  frame: Buffer;
}

/** The interfaces and frames of a file. Throws if its blocks do not fit together. */
export function readPcapng(file: string): { interfaces: string[]; frames: CapturedFrame[] } {
  const data = readFileSync(file);
  const interfaces: string[] = [];
  const frames: CapturedFrame[] = [];
  let at = 0;
  // Sections may follow each other, each with interfaces of its own.
  let first = 0;
  while (at < data.length) {
    const type = data.readUInt32LE(at);
    const total = data.readUInt32LE(at + 4);
    if (total % 4 !== 0 || data.readUInt32LE(at + total - 4) !== total) throw new Error(`bad block at ${at}`);
    if (type === 0x0a0d0d0a) first = interfaces.length;
    if (type === 1) interfaces.push(data.toString('utf8', at + 20, at + 20 + data.readUInt16LE(at + 18)));
    if (type === 6) {
      const bytes = data.readUInt32LE(at + 20);
      const flags = data.readUInt32LE(at + 28 + ((bytes + 3) & ~3) + 4);
      frames.push({
        at: interfaces[first + data.readUInt32LE(at + 8)],
        atNs: data.readUInt32LE(at + 12) * 2 ** 32 + data.readUInt32LE(at + 16),
        outbound: flags === 2,
        frame: data.subarray(at + 28, at + 28 + bytes),
      });
    }
    at += total;
  }
  return { interfaces, frames };
}

/** Bytes in front of the transport header of a frame over IPv4. */
const HEADER_BYTES = 42;

/** The transport packet of a frame over IPv4, whose ICRC must be right. */
export function packetOf({ frame }: CapturedFrame): RocePacket {
  const packet = new RocePacket();
  const length = frame.length - HEADER_BYTES;
  const reason = decodePacket(frame, HEADER_BYTES, length, packet);
  if (reason !== DECODED) throw new Error(`not a RoCEv2 packet: ${REASONS[reason]}`);
  const route = {
    source: frame.subarray(26, 30),
    dest: frame.subarray(30, 34),
    sourcePort: frame.readUInt16BE(34),
    identification: frame.readUInt16BE(18),
    trafficClass: frame[15],
    flowLabel: 0,
    hopLimit: frame[22],
  };
  if (!isSealed(route, frame, HEADER_BYTES, length)) throw new Error('wrong ICRC');
  return packet;
}

/** The payload of a decoded packet. */
export const payloadOf = ({ payload, payloadOffset, payloadBytes }: RocePacket): Buffer =>
  Buffer.from((payload as Uint8Array).subarray(payloadOffset, payloadOffset + payloadBytes));
