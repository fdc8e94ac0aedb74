/** How requests go to a device: while it is scheduled, and while it is left alone. */

import type { WindowChoice } from '../link/link-scheduler.ts';

/** Short messages that may wait in the queue of their queue pair, so that it always has another one to process. */
const QUEUED_MESSAGES = 32;
/** Pieces in flight in addition to what the link carries in a round trip: one is being sent, and times vary. */
const SPARE_PIECES = 1.06;
/** Pieces that fill the link while the device fetches the two requests after the last piece of a message. */
const ENDED_PIECES = 1;

/** While the device is scheduled. */
export const SCHEDULED: WindowChoice = {
  sparePieces: SPARE_PIECES,
  fetchedPieces: 0,
  endedPieces: ENDED_PIECES,
  queuedMessages: QUEUED_MESSAGES,
  fitsPieces: true,
  lengthensPieces: true,
  followsPaths: true,
};

/** Bytes of a piece while the device is not scheduled: no message is as long. */
export const WHOLE_BYTES = 2 ** 30;

/** While the device is not scheduled. */
export const WHOLE: WindowChoice = {
  pieceBytes: WHOLE_BYTES,
  sparePieces: 1,
  fetchedPieces: 0,
  endedPieces: 0,
  queuedMessages: Number.POSITIVE_INFINITY,
  fitsPieces: false,
  lengthensPieces: false,
  followsPaths: false,
};

/** What may be in flight while scheduling is left out for a trial: what the link carries in this time. */
export const TRIAL_NS = 5e6;
/** The shortest pieces that a target may lead to. */
export const LEAST_PIECE_BYTES = 256;
