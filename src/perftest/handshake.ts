/** The protocol of perftest 6.0: both ends exchange version, page and cache line sizes, MTU, queue pairs and results. */
import { gidToBytes, gidToString, HandshakeError } from '../verbs/index.ts';
import type { Channel } from './channel.ts';

/** The version we announce. From 6.28 on, perftest also exchanges a C structure. */
const VERSION = '6.06';
const OLDEST_VERSION = 5.7;
const VERSION_BYTES = 16;
const PAGE_BYTES = 4096;
const CACHE_LINE_BYTES = 64;

/** The terms that both ends agree on first. */
export interface Terms {
  /** Messages of up to half this size cycle through a buffer of this size. */
  cycleBytes: number;
  cacheLineBytes: number;
  /** IBV_MTU_*. */
  mtu: number;
}

/** A queue pair as its end describes it to the other. */
export interface Destination {
  lid: number;
  /** READs and atomics that the end accepts at once. */
  outReads: number;
  qpNum: number;
  psn: number;
  rkey: number;
  vaddr: bigint;
  /** Null if the ends address each other by LID. */
  gid: string | null;
  srqNum: number;
}

/** The result of a bandwidth test. */
export interface BandwidthReport {
  sizeBytes: number;
  iters: number;
  peak: number;
  average: number;
  /** Millions per second. */
  messageRate: number;
}

/** Agrees with the other end. @throws HandshakeError when it does not speak perftest's protocol, or is too old */
export async function agreeOnTerms(channel: Channel, mtu: number, exchangeVersions: boolean): Promise<Terms> {
  const mine = { cycleBytes: PAGE_BYTES, cacheLineBytes: CACHE_LINE_BYTES, mtu };
  if (!exchangeVersions) return mine;
  const version = (await channel.exchange(padded(VERSION, VERSION_BYTES))).toString('latin1').split('\0')[0];
  if (!/^\d+\.\d+$/.test(version)) {
    throw new HandshakeError(
      `the other end sent ${JSON.stringify(version)} as its version: it does not speak perftest's protocol`,
    );
  }
  if (Number(version) < OLDEST_VERSION) {
    throw new HandshakeError(
      `Current implementation is not compatible with versions older than 5.70: the other end has ${version}`,
    );
  }
  const cycle = (await channel.exchange(be32(PAGE_BYTES))).readUInt32BE();
  const line = (await channel.exchange(be32(CACHE_LINE_BYTES))).readUInt32BE();
  if (cycle > 1 << 24 || line > 1 << 16)
    throw new HandshakeError(
      `the other end has a page size of ${cycle} bytes: it does not speak perftest's protocol`,
    );
  const theirs = Number((await channel.exchange(padded(String(mtu), 2))).toString('latin1', 0, 1));
  return {
    cycleBytes: Math.max(PAGE_BYTES, cycle),
    cacheLineBytes: Math.max(CACHE_LINE_BYTES, line),
    mtu: theirs >= 1 && theirs <= 5 ? Math.min(mtu, theirs) : mtu,
  };
}

/** Exchanges one queue pair per end. Repeating the exchange serves as a barrier. */
export async function exchangeDestinations(
  channel: Channel,
  mine: Destination,
  options: { patient?: boolean } = {},
): Promise<Destination> {
  if (channel.destinationFormat === 'struct')
    return decodeStruct(await channel.exchange(encodeStruct(mine), options), mine);
  return decodeDestination(await channel.exchange(encodeDestination(mine), options), mine.gid !== null);
}

const hex = (value: number | bigint, digits: number) => value.toString(16).padStart(digits, '0');

/** Encodes a queue pair as NUL-terminated text: 59 bytes, or 108 with a GID. */
export function encodeDestination(keys: Destination): Buffer {
  const { lid, outReads, qpNum, psn, rkey, vaddr, gid, srqNum } = keys;
  const first = [hex(lid, 4), hex(outReads, 4), hex(qpNum, 6), hex(psn, 6), hex(rkey, 8), hex(vaddr, 16)];
  const bytes = gid === null ? [] : Array.from(gidToBytes(gid), (byte) => hex(byte, 2));
  const text = [...first, ...bytes, hex(srqNum, 8)].join(':');
  return Buffer.from(gid === null ? `${text}\0` : `${text}:\0`, 'latin1');
}

/** Largest value of word `index`: LID, READs, queue pair number, PSN, key, address, the bytes of a GID, SRQ number. */
function maxOfWord(index: number, count: number): number {
  if (index === count - 1) return 0xffffffff;
  return [0xffff, 0xffff, 0xffffff, 0xffffff, 0xffffffff, Number.POSITIVE_INFINITY][index] ?? 0xff;
}

/** Decodes encodeDestination(). @throws HandshakeError for anything else */
export function decodeDestination(bytes: Buffer, withGid: boolean): Destination {
  const text = bytes.toString('latin1').split('\0')[0];
  const words = text.replace(/:$/, '').split(':');
  if (words.length !== (withGid ? 23 : 7) || words.some((word) => !/^[0-9a-f]{1,16}$/i.test(word))) {
    const form = withGid ? 'with' : 'without';
    throw new HandshakeError(
      `Couldn't parse line <${text}>: both ends must use a GID (-x), or neither; this end runs ${form} one`,
    );
  }
  if (words.some((word, i) => Number.parseInt(word, 16) > maxOfWord(i, words.length))) {
    throw new HandshakeError(`Couldn't parse line <${text}>: a number is too large`);
  }
  const numbers = words.map((word) => Number.parseInt(word, 16));
  const [lid, outReads, qpNum, psn, rkey] = numbers;
  return {
    lid,
    outReads,
    qpNum,
    psn,
    rkey,
    vaddr: BigInt(`0x${words[5]}`),
    gid: withGid ? gidToString(Uint8Array.from(numbers.slice(6, 22))) : null,
    srqNum: numbers.at(-1) ?? 0,
  };
}

/** Offsets in perftest's `struct pingpong_dest` on a 64-bit machine. */
const STRUCT = {
  lid: 0,
  outReads: 4,
  qpNum: 8,
  psn: 12,
  rkey: 16,
  vaddr: 24,
  gid: 32,
  srqNum: 48,
  bytes: 56,
};

/** Encodes a queue pair for rdma_cm, in network byte order. */
export function encodeStruct(keys: Destination): Buffer {
  const bytes = Buffer.alloc(STRUCT.bytes);
  for (const member of ['lid', 'outReads', 'qpNum', 'psn', 'rkey', 'srqNum'] as const) {
    bytes.writeUInt32BE(keys[member], STRUCT[member]);
  }
  bytes.writeBigUInt64BE(keys.vaddr, STRUCT.vaddr);
  if (keys.gid !== null) bytes.set(gidToBytes(keys.gid), STRUCT.gid);
  return bytes;
}

/** Decodes encodeStruct(). The structure does not say whether its GID is valid; it is valid if ours is. */
export function decodeStruct(bytes: Buffer, { gid }: Pick<Destination, 'gid'>): Destination {
  return {
    lid: bytes.readUInt32BE(STRUCT.lid),
    outReads: bytes.readUInt32BE(STRUCT.outReads),
    qpNum: bytes.readUInt32BE(STRUCT.qpNum),
    psn: bytes.readUInt32BE(STRUCT.psn),
    rkey: bytes.readUInt32BE(STRUCT.rkey),
    vaddr: bytes.readBigUInt64BE(STRUCT.vaddr),
    gid: gid === null ? null : gidToString(bytes.subarray(STRUCT.gid, STRUCT.gid + 16)),
    srqNum: bytes.readUInt32BE(STRUCT.srqNum),
  };
}

/** Exchanges the results of both ends. */
export async function exchangeReports(channel: Channel, mine: BandwidthReport): Promise<BandwidthReport> {
  const integer = async (value: number) => Number((await channel.exchange(be64(value))).readBigUInt64BE());
  const real = async (value: number) => (await channel.exchange(beDouble(value))).readDoubleBE();
  return {
    sizeBytes: await integer(mine.sizeBytes),
    iters: await integer(mine.iters),
    peak: await real(mine.peak),
    average: await real(mine.average),
    messageRate: await real(mine.messageRate),
  };
}

function padded(text: string, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  bytes.write(text, 'latin1');
  return bytes;
}

function be32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

function be64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(value));
  return bytes;
}

function beDouble(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeDoubleBE(value);
  return bytes;
}
