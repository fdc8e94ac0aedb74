/** Which verbs can fail, and how each of them does. */
import * as C from '../../verbs/constants.ts';
import { type ErrorCode, type IsoverbsError, makeError } from '../../verbs/errors.ts';
import { REASON_PROVIDER, REASON_QUEUE_FULL } from '../../verbs/layout.ts';
import { VERB_NAMES, type Verbs } from '../../verbs/verbs.ts';

/** These only listen, list, or free memory of the process: no device takes part that could refuse. */
const SAFE_VERBS = [
  'getDeviceList',
  'watchAsyncEvents',
  'refAsyncEvents',
  'watchCompChannel',
  'refCompChannel',
  'destroyRing',
] as const;

type SafeVerb = (typeof SAFE_VERBS)[number];

/** A verb that a device may refuse. */
export type FailableVerb = Exclude<keyof Verbs, SafeVerb>;

/** All verbs that a device may refuse. */
export const FAILABLE_VERBS = VERB_NAMES.filter(
  (name): name is FailableVerb => !(SAFE_VERBS as readonly string[]).includes(name),
) as [FailableVerb, ...FailableVerb[]];

/** These return short counts and leave errno and reason in the ring's header. */
export const POST_VERBS = ['postSend', 'postRecv', 'postSrqRecv'] as const;

/** How a verb fails when nothing else is asked for: errno, by the beginning of its name. */
const ERRNOS: readonly [prefix: string, errno: number][] = [
  ['openDevice', C.ENODEV],
  ['open', C.ENOMEM],
  ['alloc', C.ENOMEM],
  ['create', C.ENOMEM],
  ['reg', C.ENOMEM],
  ['reregMr', C.ENOMEM],
  ['resizeCq', C.ENOMEM],
  ['modifySrq', C.ENOMEM],
  ['attachMcast', C.ENOMEM],
  ['post', C.ENOMEM],
  ['close', C.EBUSY],
  ['dealloc', C.EBUSY],
  ['dereg', C.EBUSY],
  ['destroy', C.EBUSY],
  ['modifyCq', C.EOPNOTSUPP],
  ['modifyQpRateLimit', C.EOPNOTSUPP],
  ['queryEce', C.EOPNOTSUPP],
  ['setEce', C.EOPNOTSUPP],
  ['validateSend', C.EINVAL],
];

/** errno that this verb gives when the device refuses. */
export function usualErrno(verb: FailableVerb): number {
  return ERRNOS.filter(([prefix]) => verb.startsWith(prefix)).at(-1)?.[1] ?? C.EIO;
}

/** The reason that goes with the errno of a refused post. */
export function usualReason(errno: number): number {
  return errno === C.ENOMEM ? REASON_QUEUE_FULL : REASON_PROVIDER;
}

/** The code that goes with an errno, as the addon gives it (native/errors.cc). */
const CODES: Readonly<Record<number, ErrorCode>> = {
  [C.EBUSY]: 'ISO_ERR_BUSY',
  [C.ENOMEM]: 'ISO_ERR_NO_RESOURCES',
  [C.ENOSYS]: 'ISO_ERR_UNSUPPORTED',
  [C.EOPNOTSUPP]: 'ISO_ERR_UNSUPPORTED',
  [C.ENODEV]: 'ISO_ERR_NO_DEVICE',
};

/** The error of a verb that was made to fail. */
export function faultError(
  verb: FailableVerb,
  call: number,
  choice: { errno?: number; code?: ErrorCode },
): IsoverbsError {
  const { errno = usualErrno(verb), code = CODES[errno] ?? 'ISO_ERR_SYSTEM' } = choice;
  const text = `${verb}: call ${call} was made to fail (errno ${errno}) by the interceptor 'fault'; take it away to go on`;
  return makeError(code, text, { verb, errno });
}
