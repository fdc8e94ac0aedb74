/** Verbs that a provider does not support: they exist, and throw. */
import { EOPNOTSUPP } from './constants.ts';
import { UnsupportedError } from './errors.ts';
import type { Verbs } from './verbs.ts';

/** Functions that throw UnsupportedError; `reasons` says for each verb what is missing, as a clause. */
export function unsupportedVerbs<K extends keyof Verbs>(reasons: Record<K, string>): Pick<Verbs, K> {
  const entries = Object.entries<string>(reasons).map(([verb, reason]) => [
    verb,
    (): never => {
      throw new UnsupportedError(`${verb}: ${reason}`, { verb, errno: EOPNOTSUPP });
    },
  ]);
  return Object.fromEntries(entries) as Pick<Verbs, K>;
}
