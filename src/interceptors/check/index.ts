/**
 * Checks a program against the verbs contract and reports each mistake in words. The interceptor changes nothing and
 * throws no errors of its own. Outside a policy it checks the program; inside a policy, it checks that policy.
 */
import { z } from 'zod';
import type { Interceptor } from '../../shim/compose.ts';
import { slotAt } from '../../verbs/layout.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { Verbs } from '../../verbs/verbs.ts';
import { Rings } from '../rings.ts';
import { type Finding, type FindingListener, Findings } from './findings.ts';
import { Ledger } from './ledger.ts';
import { ledgerVerbs, watchedVerbs } from './objects.ts';
import { checkCompletion } from './polling.ts';
import { PostChecker } from './posting.ts';

export { CHECKS, type CheckCode, type Finding, type FindingListener, type Severity } from './findings.ts';

/** Options of `check`. */
export const checkOptions = z.strictObject({
  severity: z
    .enum(['hint', 'warning', 'error'])
    .default('warning')
    .describe('lowest severity that is reported'),
  limit: z.coerce.number().int().min(1).default(1000).describe('maximum number of findings'),
});

/** What `check` takes; an absent option has its default. */
export type CheckOptions = z.input<typeof checkOptions>;

/** A checking interceptor; `findings` holds what it has found so far on all providers that it wraps. */
export interface CheckInterceptor extends Interceptor {
  readonly findings: readonly Finding[];
}

/** Emits each finding as a process warning with its code. */
const warn: FindingListener = ({ code, message }) => process.emitWarning(message, { code });

/** Makes a checking interceptor. Findings go to `onFinding`; without one, to process.emitWarning(). */
export function check(options: CheckOptions = {}, onFinding: FindingListener = warn): CheckInterceptor {
  const { severity, limit } = checkOptions.parse(options);
  const findings = new Findings(severity, limit, onFinding);
  return { name: 'check', findings: findings.list, wrap: (next) => checkedVerbs(next, findings) };
}

function checkedVerbs(next: Provider, findings: Findings): Partial<Verbs> {
  const ledger = new Ledger();
  const rings = new Rings();
  const posting = new PostChecker(next, rings, ledger, findings).verbs();
  const pollCq: Verbs['pollCq'] = (cq, ring, start, max) => {
    const polled = next.pollCq(cq, ring, start, max);
    const words = rings.wc(ring)?.words;
    for (let i = 0; words !== undefined && i < polled; i++) {
      checkCompletion(ledger, findings, words, slotAt(start + i));
    }
    return polled;
  };
  const verbs = { ...ledgerVerbs(next, ledger, findings), ...rings.verbs(next), ...posting, pollCq };
  return { ...verbs, ...watchedVerbs({ ...next, ...verbs }, ledger, findings) };
}
