/** Frames of the handshake between the ends of a connection: versioned JSON, validated on arrival. */
import { z } from 'zod';
import { gidToBytes, HandshakeError, InvalidArgumentError } from '../../verbs/index.ts';

export const PROTOCOL_VERSION = 1;
/** Largest private data: raw bytes, or bytes of JSON text. */
export const PRIVATE_DATA_LIMIT = 4096;
/** Longest message between two shims, in characters. */
const SHIM_LIMIT = 1024;
/** Largest frame in bytes; base64 makes private data a third longer. */
export const FRAME_LIMIT = 16384;

/** Application data in the handshake: bytes, or a JSON value. */
export type PrivateData = Uint8Array | JsonValue;
/** A JSON value. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue | undefined };

const uint24 = z.int().min(0).max(0xffffff);
const isGid = (text: string) => {
  try {
    return gidToBytes(text).length === 16;
  } catch {
    return false;
  }
};

const hello = z.object({
  type: z.literal('hello'),
  qpType: z.enum(['RC', 'UC']),
  qpNum: uint24,
  psn: uint24,
  gid: z.string().max(45).refine(isGid, 'is not a GID'),
  lid: z.int().min(0).max(0xffff),
  /** Largest MTU of the sender (IBV_MTU_*). */
  mtu: z.int().min(1).max(5),
  /** Message to the receiver's shim. */
  shim: z.base64().max(SHIM_LIMIT).optional(),
  /** READs and atomics that the sender may have outstanding. */
  initiatorDepth: z.int().min(0).max(255),
  /** READs and atomics of the peer that the sender serves concurrently. */
  responderResources: z.int().min(0).max(255),
  privateData: z
    .union([z.strictObject({ bytes: z.base64() }), z.strictObject({ json: z.json() })])
    .optional(),
});
const ready = z.object({ type: z.literal('ready') });
const refuse = z.object({ type: z.literal('refuse'), message: z.string().max(1000) });
const bye = z.object({ type: z.literal('bye') });
const frame = z.discriminatedUnion('type', [hello, ready, refuse, bye]);

export type Frame = z.infer<typeof frame>;
export type HelloFrame = z.infer<typeof hello>;

export function encodeFrame(value: Frame): Uint8Array {
  return new TextEncoder().encode(JSON.stringify({ isoverbs: PROTOCOL_VERSION, ...value }));
}

/** Decodes and validates a frame. @throws HandshakeError naming the problem */
export function decodeFrame(bytes: Uint8Array): Frame {
  if (bytes.length > FRAME_LIMIT) {
    throw new HandshakeError(`the peer sent a frame of ${bytes.length} bytes; the limit is ${FRAME_LIMIT}`);
  }
  const value = parseJson(bytes);
  const version = (value as { isoverbs?: unknown } | null)?.isoverbs;
  if (version === undefined) {
    throw new HandshakeError(`the peer does not speak isoverbs; it sent ${excerpt(bytes)}`);
  }
  if (version !== PROTOCOL_VERSION) {
    throw new HandshakeError(
      `the peer uses version ${version} of the handshake, this end version ${PROTOCOL_VERSION}; install the same isoverbs on both hosts`,
    );
  }
  const parsed = frame.safeParse(value);
  if (parsed.success) return checkPrivateData(parsed.data);
  const issue = parsed.error.issues[0];
  const where = issue.path.length > 0 ? `'${issue.path.join('.')}': ` : '';
  throw new HandshakeError(`the peer's handshake is malformed: ${where}${issue.message}`);
}

/** Encodes private data. @throws InvalidArgumentError when it is too long or not a JSON value */
export function encodePrivateData(data: PrivateData | undefined): HelloFrame['privateData'] {
  if (data === undefined) return undefined;
  if (data instanceof Uint8Array) {
    checkLimit(data.length);
    return { bytes: Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64') };
  }
  let text: string | undefined;
  try {
    text = JSON.stringify(data);
  } catch (cause) {
    throw new InvalidArgumentError('privateData must be bytes or a JSON value', { cause });
  }
  if (text === undefined) throw new InvalidArgumentError('privateData must be bytes or a JSON value');
  checkLimit(Buffer.byteLength(text));
  return { json: JSON.parse(text) };
}

export function decodePrivateData(data: HelloFrame['privateData']): PrivateData | undefined {
  if (data === undefined) return undefined;
  return 'bytes' in data ? new Uint8Array(Buffer.from(data.bytes, 'base64')) : data.json;
}

function checkLimit(length: number): void {
  if (length <= PRIVATE_DATA_LIMIT) return;
  throw new InvalidArgumentError(
    `privateData has ${length} bytes; the handshake carries at most ${PRIVATE_DATA_LIMIT}`,
  );
}

function checkPrivateData(value: Frame): Frame {
  if (value.type !== 'hello') return value;
  try {
    encodePrivateData(decodePrivateData(value.privateData));
  } catch (error) {
    throw new HandshakeError(`the peer's ${(error as Error).message}`);
  }
  return value;
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    throw new HandshakeError(`the peer does not speak isoverbs; it sent ${excerpt(bytes)}`);
  }
}

function excerpt(bytes: Uint8Array): string {
  const shown = JSON.stringify(Buffer.from(bytes.subarray(0, 32)).toString('latin1'));
  return bytes.length > 32 ? `${shown}...` : shown;
}
