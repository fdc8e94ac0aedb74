/**
 * Channels of node:diagnostics_channel. Without a subscriber they cost a test of one property, and none of them is on
 * the path of polled completions.
 */
import { channel } from 'node:diagnostics_channel';

/** A connection of listen() or connect() exists: `{ connection }`. */
export const connectionOpen = channel('isoverbs:connection:open');
/** A connection has ended: `{ connection, error }`. The error is undefined when an end closed it. */
export const connectionClose = channel('isoverbs:connection:close');
/** A connection could not be made: `{ context, side, address, error }`. `side` is 'connect' or 'listen'. */
export const connectionError = channel('isoverbs:connection:error');
/** A failed completion that the program awaited: `{ completion }`. */
export const completionError = channel('isoverbs:completion:error');
/** An asynchronous event of a device that the program watches: `{ context, event }`. */
export const asyncEvent = channel('isoverbs:event');
