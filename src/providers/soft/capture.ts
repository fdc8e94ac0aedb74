/** Captures the packets of a device in a pcapng file, as Ethernet frames. Several processes may write the same file. */
import { closeSync, fstatSync, openSync, readSync, writeSync } from 'node:fs';
import { frameHeaderBytes, writeFrameHeaders } from '../../roce/frame.ts';
import { ROCE_PORT, type Route } from '../../roce/icrc.ts';
import {
  FRAME_OFFSET,
  interfaceBlock,
  packetBlockBytes,
  sectionBlock,
  writePacketBlock,
} from '../../roce/pcapng.ts';
import { ConfigError } from '../../verbs/errors.ts';
import { gidToString } from '../../verbs/gid.ts';
import { addressOf } from './devices.ts';

const SECTION_BYTES = 1 << 20;
/** The first bytes of a file in pcapng: the type of a section, which reads the same in both byte orders. */
const BLOCK_TYPE_BYTES = 4;
const SECTION_TYPE = 0x0a0d0d0a;
const DEFAULT_HOPS = 64;
const V4_AT = 12;
const NS_PER_MS = 1e6;

/** What a socket reports about a packet besides its bytes. */
export interface PacketFacts {
  /** Addresses of both ends as GIDs, from this byte of the array on. */
  readonly source: Uint8Array;
  readonly sourceAt: number;
  readonly dest: Uint8Array;
  readonly destAt: number;
  readonly sourcePort: number;
  readonly identification: number;
  readonly trafficClass: number;
  /** 0: the default hop limit. */
  readonly hopLimit: number;
}

/**
 * A capture of one device. Each write appends a whole section of the file, so that sections of several devices and processes
 * may alternate. Frames have invented MAC addresses.
 */
export class PortCapture {
  private readonly path: string;
  private readonly file: number;
  private readonly head: Buffer;
  private readonly section = Buffer.alloc(SECTION_BYTES);
  private used: number;
  /** Whether the file could not be written, as on a full disk: packets are more important than their capture. */
  private hasEnded = false;

  /** @throws ConfigError if the file cannot be written */
  constructor(path: string, device: string, gid: Uint8Array) {
    this.path = path;
    try {
      this.file = openSync(path, 'a');
    } catch (cause) {
      throw new ConfigError(`pcap: cannot write ${path}: ${(cause as Error).message}`, { cause });
    }
    if (!mayAppend(path, this.file)) {
      closeSync(this.file);
      throw new ConfigError(`pcap: ${path} is another kind of file; name a new file, or one in pcapng`);
    }
    const address = addressOf(gidToString(gid));
    this.head = Buffer.concat([
      sectionBlock('isoverbs'),
      interfaceBlock(device, `user-space RoCE at ${address}`),
    ]);
    this.used = this.head.copy(this.section);
  }

  /**
   * Adds a packet of `bytes` from `from` of `buf` on, its ICRC included.
   * @param direction INBOUND or OUTBOUND
   */
  add(facts: PacketFacts, buf: Uint8Array, from: number, bytes: number, direction: number): void {
    const route = routeOf(facts);
    const headerBytes = frameHeaderBytes(route);
    if (this.used + packetBlockBytes(headerBytes + bytes) > SECTION_BYTES) this.flush();
    const { section, used } = this;
    const at = used + FRAME_OFFSET;
    writeFrameHeaders(route, macOf(route.source), macOf(route.dest), bytes, section, at);
    section.set(buf.subarray(from, from + bytes), at + headerBytes);
    const nowNs = (performance.timeOrigin + performance.now()) * NS_PER_MS;
    this.used += writePacketBlock(section, used, headerBytes + bytes, 0, Math.floor(nowNs), direction);
  }

  private flush(): void {
    const { used, head } = this;
    this.used = head.length;
    if (used === head.length || this.hasEnded) return;
    try {
      for (let at = 0; at < used; ) at += writeSync(this.file, this.section, at, used - at);
    } catch (error) {
      this.hasEnded = true;
      const text = `pcap: the capture ends, cannot write ${this.path}: ${(error as Error).message}`;
      process.emitWarning(text, { code: 'ISO_PCAP' });
    }
  }

  close(): void {
    this.flush();
    closeSync(this.file);
  }
}

/** Whether packets may be appended to an open file: it is empty, or no regular file (a pipe), or cannot be read, or in pcapng. */
function mayAppend(path: string, file: number): boolean {
  const facts = fstatSync(file);
  if (!facts.isFile() || facts.size === 0) return true;
  const type = Buffer.alloc(BLOCK_TYPE_BYTES);
  let reader: number;
  try {
    reader = openSync(path, 'r');
  } catch {
    return true;
  }
  readSync(reader, type);
  closeSync(reader);
  return type.readUInt32LE() === SECTION_TYPE;
}

function routeOf({ source, sourceAt, dest, destAt, ...rest }: PacketFacts): Route {
  const isIpv4 = source.subarray(sourceAt, sourceAt + V4_AT).every((byte, i) => byte === (i < 10 ? 0 : 0xff));
  const skip = isIpv4 ? V4_AT : 0;
  return {
    source: source.subarray(sourceAt + skip, sourceAt + 16),
    dest: dest.subarray(destAt + skip, destAt + 16),
    sourcePort: rest.sourcePort || ROCE_PORT,
    identification: rest.identification,
    trafficClass: rest.trafficClass,
    flowLabel: 0,
    hopLimit: rest.hopLimit || DEFAULT_HOPS,
  };
}

/** A locally administered MAC address from the last four bytes of an address. */
const macOf = (address: Uint8Array): Uint8Array => Uint8Array.of(2, 0, ...address.subarray(-4));
