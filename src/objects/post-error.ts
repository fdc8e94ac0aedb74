import { getSystemErrorName } from 'node:util';
import {
  ENOMEM,
  type ErrorDetails,
  InvalidArgumentError,
  InvalidWorkRequestError,
  type IsoverbsError,
  QueueFullError,
  REASON_NONE,
  REASON_STATE,
  REASON_TEXT,
} from '../verbs/index.ts';
import type { QpState } from './qp-options.ts';

/** A post that accepted fewer requests than it was given. */
export interface RejectedPost {
  verb: 'postSend' | 'postRecv' | 'postSrqRecv';
  /** Label of the queue. */
  label: string;
  /** Cause of the rejection, from the ring's header. */
  errno: number;
  reason: number;
  /** First slot of the post. */
  start: number;
  posted: number;
  /** State of the queue pair, for a post that its state does not allow; null if the device does not say. */
  state?: QpState | null;
}

/** The error of a short post: QueueFullError for ENOMEM, otherwise InvalidWorkRequestError. */
export function postError(rejected: RejectedPost): IsoverbsError {
  const { verb, label, errno, reason, posted, state = null } = rejected;
  const index = rejected.start + posted;
  let why = reason === REASON_NONE ? 'no reason given' : (REASON_TEXT[reason] ?? `reason ${reason}`);
  if (state !== null && state !== 'RTS')
    why = `${REASON_TEXT[REASON_STATE].split(';')[0]}: it is in ${state}; ${wayOut(verb, state)}`;
  const message = `${verb} on ${label}: request ${index} was rejected (${errnoName(errno)}): ${why}; the ${posted} requests before it were posted`;
  const details: ErrorDetails = { verb, errno, index, posted };
  return errno === ENOMEM
    ? new QueueFullError(message, details)
    : new InvalidWorkRequestError(message, details);
}

/** The call that makes a queue pair in this state accept the request. */
function wayOut(verb: RejectedPost['verb'], state: QpState): string {
  if (state === 'ERR')
    return 'its first failed completion says why: create a new one, or call reset() and connect again';
  if (state === 'SQE') return 'call resume()';
  if (verb === 'postRecv') return 'call toInit() first';
  if (state === 'RTR') return 'call toRts() first';
  return 'call connectTo(), or start() for datagrams, first';
}

/** The error for a range outside the batch. */
export function rangeError(batch: { length: number }, start: number, count: number): InvalidArgumentError {
  return new InvalidArgumentError(
    `start ${start} and count ${count} exceed the ${batch.length} requests of the batch`,
  );
}

function errnoName(errno: number): string {
  return errno > 0 ? getSystemErrorName(-errno) : `errno ${errno}`;
}
