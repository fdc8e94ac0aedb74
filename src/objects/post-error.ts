import { getSystemErrorName } from 'node:util';
import {
  ENOMEM,
  type ErrorDetails,
  InvalidArgumentError,
  InvalidWorkRequestError,
  type IsoverbsError,
  QueueFullError,
  REASON_NONE,
  REASON_TEXT,
} from '../verbs/index.ts';

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
}

/** The error of a short post: QueueFullError for ENOMEM, otherwise InvalidWorkRequestError. */
export function postError(rejected: RejectedPost): IsoverbsError {
  const { verb, label, errno, reason, posted } = rejected;
  const index = rejected.start + posted;
  const why = reason === REASON_NONE ? 'no reason given' : (REASON_TEXT[reason] ?? `reason ${reason}`);
  const message = `${verb} on ${label}: request ${index} was rejected (${errnoName(errno)}): ${why}; the ${posted} requests before it were posted`;
  const details: ErrorDetails = { verb, errno, index, posted };
  return errno === ENOMEM
    ? new QueueFullError(message, details)
    : new InvalidWorkRequestError(message, details);
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
