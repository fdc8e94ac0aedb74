/** Calls of control verbs as text, with handles by name. */
import { handleName, type TraceRecord } from './records.ts';

/** Fields of arguments and results that hold handles. Any other number is not a handle. */
const HANDLE_KEYS = new Set(['handle', 'pd', 'sendCq', 'recvCq', 'cq', 'channel', 'srq', 'xrcd']);
/** Verbs whose result is a handle. */
const HANDLE_RESULTS = new Set(['openDevice', 'openXrcd', 'allocPd', 'createCompChannel']);
/** Verbs with a second handle, and its position among their arguments. */
const SECOND_HANDLE: Readonly<Record<string, number>> = { createCq: 2 };

/** A call without its object, such as `(256,channel1) = {"handle":"cq0","cqe":256}`. */
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
