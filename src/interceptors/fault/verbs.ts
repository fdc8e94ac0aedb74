/** The verbs that can fail, with their usual errno and code. */
import * as C from '../../verbs/constants.ts';
import { type ErrorCode, type IsoverbsError, makeError } from '../../verbs/errors.ts';
import { REASON_PROVIDER, REASON_QUEUE_FULL } from '../../verbs/layout.ts';
import { VERB_NAMES, type Verbs } from '../../verbs/verbs.ts';

/** Verbs that only listen, list, or free memory of the process. They involve no device that could refuse them. */
const SAFE_VERBS = [
  'getDeviceList',
  'watchAsyncEvents',
  'refAsyncEvents',
  'watchCompChannel',
  'refCompChannel',
  'destroyRing',
] as const;

/** A verb that never fails. */
export type SafeVerb = (typeof SAFE_VERBS)[number];

/** A verb that a device may refuse. */
export type FailableVerb = Exclude<keyof Verbs, SafeVerb>;

/** All verbs that a device may refuse. */
export const FAILABLE_VERBS = VERB_NAMES.filter(
  (name): name is FailableVerb => !(SAFE_VERBS as readonly string[]).includes(name),
) as [FailableVerb, ...FailableVerb[]];

/** Verbs that fail with a short count, and errno and reason in the ring's header. */
export const POST_VERBS = ['postSend', 'postRecv', 'postSrqRecv'] as const;

/** Default errno by the prefix of the verb; the last match counts. */
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

/** The errno of this verb when a device refuses. */
export function usualErrno(verb: FailableVerb): number {
  return ERRNOS.filter(([prefix]) => verb.startsWith(prefix)).at(-1)?.[1] ?? C.EIO;
}

/** The reason that goes with the errno of a refused post. */
export function usualReason(errno: number): number {
  return errno === C.ENOMEM ? REASON_QUEUE_FULL : REASON_PROVIDER;
}

/** The code for an errno, the same as in the addon (native/errors.cc). */
const CODES: Readonly<Record<number, ErrorCode>> = {
  [C.EBUSY]: 'ISO_ERR_BUSY',
  [C.ENOMEM]: 'ISO_ERR_NO_RESOURCES',
  [C.ENOSYS]: 'ISO_ERR_UNSUPPORTED',
  [C.EOPNOTSUPP]: 'ISO_ERR_UNSUPPORTED',
  [C.ENODEV]: 'ISO_ERR_NO_DEVICE',
};

/** The error of an injected failure. */
export function faultError(
  verb: FailableVerb,
  call: number,
  choice: { errno?: number; code?: ErrorCode },
): IsoverbsError {
  const { errno = usualErrno(verb), code = CODES[errno] ?? 'ISO_ERR_SYSTEM' } = choice;
  const text = `${verb}: call ${call} was made to fail (errno ${errno}) by the interceptor 'fault'; remove it to continue`;
  return makeError(code, text, { verb, errno });
}
