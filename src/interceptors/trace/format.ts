/**
 * The trace file: a header (output.ts), then entries of little-endian 32-bit words:
 *
 *     kind | words of the entry | time lo, hi (ns) | handle | a | b | c | payload
 *
 * Slots are copied as they are in the rings (src/verbs/layout.ts) and understood when they are read.
 */

export const TRACE_MAGIC = 'ISOTRACE';
export const TRACE_VERSION = 1;
export const ENTRY_WORDS = 8;

export const KIND = 0;
export const WORDS = 1;
export const TIME_LO = 2;
export const TIME_HI = 3;
export const HANDLE = 4;
export const A = 5;
export const B = 6;
export const C = 7;

/**
 * Posts: handle of the queue; a: requests taken; b: slots that follow, a refused one included, then extWords
 * of extension for each; c: errno | reason << 12 | extWords << 20.
 */
export const POST_SEND = 1;
export const POST_RECV = 2;
export const POST_SRQ_RECV = 3;
/** Completions: handle of the CQ; a: polls that found nothing since the last entry of this kind; b: slots that follow. */
export const POLL = 4;
/** A control verb: b: bytes of JSON { verb, args, result | error } that follow. */
export const CONTROL = 5;
/** reqNotifyCq: handle of the CQ; a: 1 for solicited ones only. */
export const ARM = 6;
/** A completion event: handle of the channel; a: the CQ. */
export const COMP_EVENT = 7;
/** An asynchronous event: handle of the context; a: IBV_EVENT_*; b: the element. */
export const ASYNC_EVENT = 8;
/** Requests and completions that are not in the file: a, b: how many, lo and hi. */
export const LOST = 9;
/** The last entry of a trace that was closed: a, b: all that is not in the file. */
export const END = 10;

/** What the header says beside pid and thread. */
export interface TraceHeader {
  provider: string;
  /** Interceptors between this place and the device, outermost first. */
  below: string[];
  /** ISO 8601. */
  startedAt: string;
}
