/**
 * Errors across threads. The class of an error does not survive the transfer, so its code and details are
 * sent and a new error is created.
 */
import { ERRORS, type ErrorCode, IsoverbsError, makeError } from '../../verbs/errors.ts';
import type { Reply } from './protocol.ts';

const DETAILS = ['verb', 'errno', 'index', 'posted', 'status'] as const;

/** The result of `action`, or the error it threw. */
export function replyOf(action: () => unknown): Reply {
  try {
    return { value: action() };
  } catch (error) {
    if (!(error instanceof IsoverbsError)) {
      const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
      return { error: { code: error instanceof TypeError ? 'TypeError' : '', message, details: {} } };
    }
    const details = Object.fromEntries(DETAILS.map((key) => [key, error[key]]));
    return { error: { code: error.code, message: error.message, details } };
  }
}

/** The value of a reply. @throws the error thrown in the other thread */
export function openReply(reply: Reply): unknown {
  if ('value' in reply) return reply.value;
  const { code, message, details } = reply.error;
  if (code === 'TypeError') throw new TypeError(message);
  if (!Object.hasOwn(ERRORS, code)) throw new Error(message);
  throw makeError(code as ErrorCode, message, details);
}
