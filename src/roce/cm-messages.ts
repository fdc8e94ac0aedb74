/**
 * Messages of the InfiniBand connection manager (InfiniBand Architecture Specification, volume 1, chapter 12): management
 * datagrams of 256 bytes between queue pair 1 of two devices. Also the header with IP addresses that rdma_cm puts in
 * front of the private data of a request (annex A11). Decoding never throws, whatever the bytes are.
 */
import { gidToBytes, gidToString } from '../verbs/gid.ts';

/** Bytes of a management datagram. */
export const MAD_BYTES = 256;
/** Queue pair of management datagrams, and its Q_Key. */
export const GSI_QPN = 1;
export const GSI_QKEY = 0x80010000;

const HEADER_BYTES = 24;
const BASE_VERSION = 1;
const CLASS_CM = 0x07;
const CLASS_VERSION = 2;
const METHOD_SEND = 0x03;

/** Where a number is: its first byte after the header, its bits, and the first bit within that byte. */
type Place = readonly [byte: number, bits: number, bit?: number];

interface Layout {
  readonly attribute: number;
  readonly numbers: Readonly<Record<string, Place>>;
  /** First byte of each GID. */
  readonly gids: Readonly<Record<string, number>>;
  readonly data: readonly [byte: number, bytes: number];
}

const IDS = { localCommId: [0, 32], remoteCommId: [4, 32] } as const;

/** Fields that this implementation reads or writes; the others are zero. */
const LAYOUTS = {
  REQ: {
    attribute: 0x10,
    numbers: {
      localCommId: [0, 32],
      serviceIdHi: [8, 32],
      serviceIdLo: [12, 32],
      guidHi: [16, 32],
      guidLo: [20, 32],
      localQpn: [32, 24],
      responderResources: [35, 8],
      initiatorDepth: [39, 8],
      remoteResponseTimeout: [43, 5],
      transport: [43, 2, 5],
      flowControl: [43, 1, 7],
      startingPsn: [44, 24],
      localResponseTimeout: [47, 5],
      retryCount: [47, 3, 5],
      pkey: [48, 16],
      pathMtu: [50, 4],
      rnrRetryCount: [50, 3, 5],
      maxRetries: [51, 4],
      srq: [51, 1, 4],
      extendedTransport: [51, 3, 5],
      localLid: [52, 16],
      remoteLid: [54, 16],
      packetRate: [91, 6, 2],
      trafficClass: [92, 8],
      hopLimit: [93, 8],
      ackTimeout: [95, 5],
    },
    gids: { localGid: 56, remoteGid: 72 },
    data: [140, 92],
  },
  MRA: {
    attribute: 0x11,
    numbers: { ...IDS, message: [8, 2], serviceTimeout: [9, 5] },
    gids: {},
    data: [10, 222],
  },
  REJ: {
    attribute: 0x12,
    numbers: {
      ...IDS,
      message: [8, 2],
      infoBytes: [9, 7],
      reason: [10, 16],
      infoHi: [12, 32],
      infoLo: [16, 32],
    },
    gids: {},
    data: [84, 148],
  },
  REP: {
    attribute: 0x13,
    numbers: {
      ...IDS,
      localQpn: [12, 24],
      startingPsn: [20, 24],
      responderResources: [24, 8],
      initiatorDepth: [25, 8],
      ackDelay: [26, 5],
      failover: [26, 2, 5],
      flowControl: [26, 1, 7],
      rnrRetryCount: [27, 3],
      srq: [27, 1, 3],
      guidHi: [28, 32],
      guidLo: [32, 32],
    },
    gids: {},
    data: [36, 196],
  },
  RTU: { attribute: 0x14, numbers: IDS, gids: {}, data: [8, 224] },
  DREQ: { attribute: 0x15, numbers: { ...IDS, remoteQpn: [8, 24] }, gids: {}, data: [12, 220] },
  DREP: { attribute: 0x16, numbers: IDS, gids: {}, data: [8, 224] },
  SIDR_REQ: {
    attribute: 0x17,
    numbers: { requestId: [0, 32], pkey: [4, 16], serviceIdHi: [8, 32], serviceIdLo: [12, 32] },
    gids: {},
    data: [16, 216],
  },
  SIDR_REP: {
    attribute: 0x18,
    numbers: {
      requestId: [0, 32],
      status: [4, 8],
      qpn: [8, 24],
      serviceIdHi: [12, 32],
      serviceIdLo: [16, 32],
      qkey: [20, 32],
    },
    gids: {},
    data: [96, 136],
  },
} as const satisfies Record<string, Layout>;

/** Names of the messages. */
export type CmKind = keyof typeof LAYOUTS;

type NumbersOf<K extends CmKind> = { [F in keyof (typeof LAYOUTS)[K]['numbers']]: number };
type GidsOf<K extends CmKind> = { [F in keyof (typeof LAYOUTS)[K]['gids']]: string };

/**
 * A message. Numbers are unsigned, GIDs are text in their shortest form, and decoded private data has all bytes of its
 * field. `transaction` is the transaction ID of 64 bits, as two numbers; an answer repeats it.
 */
export type CmMessage<K extends CmKind = CmKind> = K extends CmKind
  ? { kind: K; transaction: readonly [hi: number, lo: number]; privateData: Uint8Array } & NumbersOf<K> &
      GidsOf<K>
  : never;

/** What an encoder requires: omitted numbers are 0, omitted GIDs '::'. */
export type CmDraft<K extends CmKind> = { kind: K } & Partial<CmMessage<K>>;

const KINDS = Object.keys(LAYOUTS) as CmKind[];
const BY_ATTRIBUTE = new Map<number, CmKind>(KINDS.map((kind) => [LAYOUTS[kind].attribute, kind]));

/** Bytes of private data that a message holds. */
export function privateBytesOf(kind: CmKind): number {
  return LAYOUTS[kind].data[1];
}

/** The datagram of a message. @throws RangeError if its private data is too long */
export function encodeCm<K extends CmKind>(message: CmDraft<K>): Uint8Array {
  const layout: Layout = LAYOUTS[message.kind];
  const fields = message as unknown as Record<string, number | string | undefined>;
  const { transaction = [0, 0], privateData = new Uint8Array(0) } = message as Partial<CmMessage<'RTU'>>;
  const out = new Uint8Array(MAD_BYTES);
  const view = new DataView(out.buffer);
  out.set([BASE_VERSION, CLASS_CM, CLASS_VERSION, METHOD_SEND]);
  view.setUint32(8, transaction[0]);
  view.setUint32(12, transaction[1]);
  view.setUint16(16, layout.attribute);
  for (const [name, place] of Object.entries(layout.numbers))
    putBits(out, place, (fields[name] as number) ?? 0);
  for (const [name, byte] of Object.entries(layout.gids)) {
    out.set(gidToBytes((fields[name] as string) ?? '::'), HEADER_BYTES + byte);
  }
  const [byte, bytes] = layout.data;
  if (privateData.length > bytes) {
    throw new RangeError(
      `encodeCm: ${message.kind} holds at most ${bytes} bytes of private data, got ${privateData.length}`,
    );
  }
  out.set(privateData, HEADER_BYTES + byte);
  return out;
}

/** Reads a datagram; null if it is not a message of the connection manager. The result shares no memory with `mad`. */
export function decodeCm(mad: Uint8Array): CmMessage | null {
  if (mad.length !== MAD_BYTES || mad[0] !== BASE_VERSION || mad[1] !== CLASS_CM) return null;
  if (mad[2] !== CLASS_VERSION || mad[3] !== METHOD_SEND) return null;
  const view = new DataView(mad.buffer, mad.byteOffset, MAD_BYTES);
  const kind = BY_ATTRIBUTE.get(view.getUint16(16));
  if (kind === undefined) return null;
  const layout: Layout = LAYOUTS[kind];
  const [byte, bytes] = layout.data;
  const at = HEADER_BYTES + byte;
  return {
    kind,
    transaction: [view.getUint32(8), view.getUint32(12)],
    privateData: new Uint8Array(mad.subarray(at, at + bytes)),
    ...Object.fromEntries(Object.entries(layout.numbers).map(([name, place]) => [name, getBits(mad, place)])),
    ...Object.fromEntries(
      Object.entries(layout.gids).map(([name, from]) => {
        return [name, gidToString(mad.subarray(HEADER_BYTES + from, HEADER_BYTES + from + 16))];
      }),
    ),
  } as unknown as CmMessage;
}

/** Numbers have whole bytes, or lie within one. */
function putBits(out: Uint8Array, [byte, bits, bit = 0]: Place, value: number): void {
  const at = HEADER_BYTES + byte;
  if (bits < 8) out[at] |= (value & ((1 << bits) - 1)) << (8 - bit - bits);
  else for (let i = 0; i < bits / 8; i++) out[at + i] = value >>> (bits - 8 - 8 * i);
}

function getBits(from: Uint8Array, [byte, bits, bit = 0]: Place): number {
  const at = HEADER_BYTES + byte;
  if (bits < 8) return (from[at] >>> (8 - bit - bits)) & ((1 << bits) - 1);
  let value = 0;
  for (let i = 0; i < bits / 8; i++) value = value * 256 + from[at + i];
  return value;
}

/** Bytes of the header with IP addresses. */
export const CMA_HEADER_BYTES = 36;
const CMA_SOURCE_AT = 4;
const CMA_DEST_AT = 20;
const CMA_VERSION = 0;

/** The ends of a connection as rdma_cm writes them in front of private data. Addresses are GIDs. */
export interface CmaHeader {
  /** Port of the sender. */
  readonly port: number;
  readonly source: string;
  readonly dest: string;
}

/** Private data of a request: the header, and the program's own data. */
export function withCmaHeader({ port, source, dest }: CmaHeader, data: Uint8Array): Uint8Array {
  const out = new Uint8Array(CMA_HEADER_BYTES + data.length);
  const isIpv4 = source.startsWith(MAPPED);
  out[0] = CMA_VERSION;
  out[1] = (isIpv4 ? 4 : 6) << 4;
  out[2] = port >>> 8;
  out[3] = port;
  // An IPv4 address takes the last four bytes of its field.
  const skip = isIpv4 ? MAPPED_BYTES : 0;
  out.set(gidToBytes(source).subarray(skip), CMA_SOURCE_AT + skip);
  out.set(gidToBytes(dest).subarray(skip), CMA_DEST_AT + skip);
  out.set(data, CMA_HEADER_BYTES);
  return out;
}

const MAPPED = '::ffff:';
const MAPPED_BYTES = 12;

/** The header in private data; null if its version or its IP version is unknown. */
export function cmaHeaderOf(data: Uint8Array): CmaHeader | null {
  if (data.length < CMA_HEADER_BYTES || data[0] !== CMA_VERSION) return null;
  const version = data[1] >>> 4;
  if (version !== 4 && version !== 6) return null;
  const gidAt = (at: number) => {
    if (version === 6) return gidToString(data.subarray(at, at + 16));
    return `${MAPPED}${data.subarray(at + MAPPED_BYTES, at + 16).join('.')}`;
  };
  return { port: (data[2] << 8) | data[3], source: gidAt(CMA_SOURCE_AT), dest: gidAt(CMA_DEST_AT) };
}
