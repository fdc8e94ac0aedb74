/** Calls of control verbs in words: handles by name, as in the column of what they were called on. */
import { handleName, type TraceRecord } from './records.ts';

/** Where a handle is in arguments and results; elsewhere a number of the same value is none. */
const HANDLE_KEYS = new Set(['handle', 'pd', 'sendCq', 'recvCq', 'cq', 'channel', 'srq', 'xrcd']);
/** Verbs whose result is a handle, and those with a second handle among their arguments: its place. */
const HANDLE_RESULTS = new Set(['openDevice', 'openXrcd', 'allocPd', 'createCompChannel']);
const SECOND_HANDLE: Readonly<Record<string, number>> = { createCq: 2 };

/** `(256,channel1) = {"handle":"cq0","cqe":256}`: what it was called on is not said again. */
export function callText({ verb, object, args = [], result, error }: TraceRecord): string {
  const named = args.map((value, i) =>
    i === SECOND_HANDLE[verb] && typeof value === 'number' ? handleName(value) : value,
  );
  const text = `(${jsonOf(object === undefined ? named : named.slice(1)).slice(1, -1)})`;
  if (error !== undefined) return `${text} failed: ${error.message}`;
  if (result === undefined) return text;
  if (HANDLE_RESULTS.has(verb) && typeof result === 'number') return `${text} = ${handleName(result)}`;
  return `${text} = ${jsonOf(result)}`;
}

function jsonOf(value: unknown): string {
  return JSON.stringify(value, (key, part) =>
    HANDLE_KEYS.has(key) && typeof part === 'number' && part !== 0 ? handleName(part) : part,
  );
}
