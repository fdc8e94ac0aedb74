/**
 * The recording: a header (output.ts), followed by entries. Each has a kind and the payload length in bytes (two
 * little-endian 32-bit words), then the payload, padded to words.
 */
import type { WaitSupport } from '../../verbs/provider.ts';
import type { DeviceInfo } from '../../verbs/types.ts';
import { MR_VERBS, RING_VERBS } from '../../verbs/verbs.ts';

export const RECORD_MAGIC = 'ISORECRD';
export const RECORD_VERSION = 1;
export const ENTRY_BYTES = 8;

/** A call, as three lines of text: name, JSON of the arguments, JSON of { r: result } or { e: error }. */
export const CALL = 1;
/** An event, as two lines of text: source, JSON of the arguments. */
export const EVENT = 2;
/** A call of one of POST_VERBS: words POST_*, slots, extensions. */
export const POST = 3;
/** pollCq: words POLL_*, slots. */
export const POLL = 4;
/** Bytes of a memory region that changed: region, offset, bytes. */
export const DATA = 5;
/** The program ended normally. */
export const END = 6;

export const POST_VERBS = ['postSend', 'postRecv', 'postSrqRecv', 'validateSend'] as const;
export const POST_VERB = 0;
export const POST_QUEUE = 1;
export const POST_RING = 2;
export const POST_START = 3;
export const POST_COUNT = 4;
/** The result of the verb, then errno and reason from the ring's header. */
export const POST_RESULT = 5;
export const POST_ERRNO = 6;
export const POST_REASON = 7;
/** Number of slots in the payload, and words of extension for each. */
export const POST_SLOTS = 8;
export const POST_EXT_WORDS = 9;
export const POST_WORDS = 10;

export const POLL_CQ = 0;
export const POLL_RING = 1;
export const POLL_START = 2;
export const POLL_MAX = 3;
/** The result of the verb, which is the number of slots in the payload. */
export const POLL_COUNT = 4;
/** Number of identical empty polls in a row. */
export const POLL_REPEAT = 5;
export const POLL_WORDS = 6;

export const DATA_MR = 0;
export const DATA_OFFSET = 1;
export const DATA_WORDS = 2;

/** Header fields in addition to pid and thread. */
export interface RecordHeader {
  provider: string;
  threads: 'any' | 'one';
  wait: WaitSupport;
  /** Interceptors between the recorder and the device, outermost first; policies with their options. */
  below: string[];
  /** The devices of the recorded provider. */
  devices: DeviceInfo[];
  cm: boolean;
  cmError: string | null;
  /** Whether the provider has describePeer and setPeer. */
  peer: boolean;
  startedAt: string;
}

/** Sources of events; 'settled' is the end of a promise. */
export type EventSource = 'completion' | 'async' | 'cm' | 'settled' | 'wire' | 'message' | 'close';

/** Verbs with a special format, or with memory or listeners. All others are recorded as JSON. */
export const SPECIAL_VERBS: ReadonlySet<string> = new Set([
  ...RING_VERBS,
  ...MR_VERBS,
  'watchCompChannel',
  'watchAsyncEvents',
]);

export const CM_VERBS = [
  'createEventChannel',
  'destroyEventChannel',
  'refEventChannel',
  'createId',
  'destroyId',
  'queryId',
  'bindAddr',
  'resolveAddr',
  'resolveRoute',
  'listen',
  'connect',
  'establish',
  'accept',
  'reject',
  'disconnect',
  'notify',
  'initQpAttr',
  'joinMulticast',
  'leaveMulticast',
] as const;

/** The fields of an error that are recorded. */
export function errorFields(error: unknown): object {
  const { code, message, verb, errno, index, posted, status } = error as Record<string, unknown>;
  return { code, message, verb, errno, index, posted, status };
}
