/**
 * The recording: a header (output.ts), then entries: kind, bytes of the payload (two little-endian 32-bit
 * words), the payload, padded to words.
 */
import type { WaitSupport } from '../../verbs/provider.ts';
import type { DeviceInfo } from '../../verbs/types.ts';
import { MR_VERBS, RING_VERBS } from '../../verbs/verbs.ts';

export const RECORD_MAGIC = 'ISORECRD';
export const RECORD_VERSION = 1;
export const ENTRY_BYTES = 8;

/** A call: three lines of text: name, arguments as JSON, { r: result } or { e: error } as JSON. */
export const CALL = 1;
/** The program was told something: two lines: source, arguments as JSON. */
export const EVENT = 2;
/** postSend ... validateSend: words POST_*, then slots, then their extensions. */
export const POST = 3;
/** pollCq: words POLL_*, then slots. */
export const POLL = 4;
/** Bytes of a memory region that were new to the program: region, offset, then they. */
export const DATA = 5;
/** The program ended in order. */
export const END = 6;

export const POST_VERBS = ['postSend', 'postRecv', 'postSrqRecv', 'validateSend'] as const;
export const POST_VERB = 0;
export const POST_QUEUE = 1;
export const POST_RING = 2;
export const POST_START = 3;
export const POST_COUNT = 4;
/** What the verb returned, and what the ring's header then said. */
export const POST_RESULT = 5;
export const POST_ERRNO = 6;
export const POST_REASON = 7;
/** Slots that follow, and words of the extension of each. */
export const POST_SLOTS = 8;
export const POST_EXT_WORDS = 9;
export const POST_WORDS = 10;

export const POLL_CQ = 0;
export const POLL_RING = 1;
export const POLL_START = 2;
export const POLL_MAX = 3;
/** What the verb returned: so many slots follow. */
export const POLL_COUNT = 4;
/** How many such calls in a row found nothing. */
export const POLL_REPEAT = 5;
export const POLL_WORDS = 6;

export const DATA_MR = 0;
export const DATA_OFFSET = 1;
export const DATA_WORDS = 2;

/** What the header says beside pid and thread. */
export interface RecordHeader {
  provider: string;
  threads: 'any' | 'one';
  wait: WaitSupport;
  below: string[];
  /** What there was to choose from. */
  devices: DeviceInfo[];
  cm: boolean;
  cmError: string | null;
  /** Whether describePeer and setPeer are there. */
  peer: boolean;
  startedAt: string;
}

/** What the program may be told, beside the end of what it waits for ('settled'). */
export type EventSource = 'completion' | 'async' | 'cm' | 'settled' | 'wire' | 'message' | 'close';

/** Verbs that are recorded as words, or that hand out memory or listeners: all others alike, as JSON. */
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

/** What is kept of an error. */
export function errorFields(error: unknown): object {
  const { code, message, verb, errno, index, posted, status } = error as Record<string, unknown>;
  return { code, message, verb, errno, index, posted, status };
}
