/**
 * The trace file: a header (output.ts), followed by entries of little-endian 32-bit words:
 *
 *     kind | length in words | time lo, hi (ns) | handle | a | b | c | payload
 *
 * Slots are raw copies from the rings (src/verbs/layout.ts), decoded by the reader.
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
 * Posts. handle: queue; a: accepted requests; b: number of slots in the payload, including a refused one, followed by
 * extWords words of extension for each; c: errno | reason << 12 | extWords << 20.
 */
export const POST_SEND = 1;
export const POST_RECV = 2;
export const POST_SRQ_RECV = 3;
/** Completions. handle: CQ; a: empty polls since the last entry of this kind; b: number of slots in the payload. */
export const POLL = 4;
/** A control verb. b: bytes of JSON in the payload: { verb, args, result | error }. */
export const CONTROL = 5;
/** reqNotifyCq. handle: CQ; a: 1 for solicited events only. */
export const ARM = 6;
/** A completion event. handle: channel; a: CQ. */
export const COMP_EVENT = 7;
/** An asynchronous event. handle: context; a: IBV_EVENT_*; b: element. */
export const ASYNC_EVENT = 8;
/** Lost requests and completions. a, b: their number, low and high word. */
export const LOST = 9;
/** The last entry of a closed trace. a, b: total number lost. */
export const END = 10;

/** Header fields in addition to pid and thread. */
export interface TraceHeader {
  provider: string;
  /** Interceptors between the tracer and the device, outermost first; policies with their options. */
  below: string[];
  /** The time in ISO 8601. */
  startedAt: string;
}
