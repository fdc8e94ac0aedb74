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

export interface RefusedPost {
  verb: 'postSend' | 'postRecv' | 'postSrqRecv';
  /** Label of the queue. */
  label: string;
  /** Why, from the ring's header. */
  errno: number;
  reason: number;
  /** First slot that was to be posted. */
  start: number;
  posted: number;
}

/** The error for a post that came back short: QueueFullError for ENOMEM, else InvalidWorkRequestError. */
export function postError(refused: RefusedPost): IsoverbsError {
  const { verb, label, errno, reason, posted } = refused;
  const index = refused.start + posted;
  const why = reason === REASON_NONE ? 'no reason given' : (REASON_TEXT[reason] ?? `reason ${reason}`);
  const message = `${verb} on ${label}: request ${index} was refused (${errnoName(errno)}): ${why}; ${posted} before it were posted`;
  const details: ErrorDetails = { verb, errno, index, posted };
  return errno === ENOMEM
    ? new QueueFullError(message, details)
    : new InvalidWorkRequestError(message, details);
}

/** The error for requests that are not in the batch. */
export function rangeError(batch: { length: number }, start: number, count: number): InvalidArgumentError {
  return new InvalidArgumentError(
    `start ${start} and count ${count} do not lie inside the ${batch.length} requests`,
  );
}

function errnoName(errno: number): string {
  return errno > 0 ? getSystemErrorName(-errno) : `errno ${errno}`;
}
