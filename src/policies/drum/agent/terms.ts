/** The ruler that brings the options of drum to its agent (drum-agent.ts), which decides about rates. */
import type { Column, Decider, MembersView, Ruler } from '../../../coordinator/ruler.ts';
import { drumOptions } from '../options.ts';

/** Columns of the device. */
const GRANTS: readonly Column[] = [
  { name: 'alpha', unit: 'none; 0: not decided yet', min: 0, max: 16, default: 0 },
  { name: 'beta', unit: '10^18 completions^2/s^2', min: 0, max: 1e9, default: 0 },
  { name: 'requestsPerS', unit: 'requests/s; 0: as the contexts report', min: 0, max: 1e12, default: 0 },
  { name: 'completionsPerS', unit: 'completions/s; 0: no limit', min: 0, max: 1e12, default: 0 },
];

/** What the agent must know of the options. */
export interface TermRules {
  readonly alpha: number;
  readonly beta: number;
  readonly requestsPerS: number;
  readonly completionsPerS: number;
}

/** The options of drum as rules. */
export const termRulesOf = (options: {
  alpha: number;
  beta: number;
  requestsPerS?: number;
  completionsPerS?: number;
}): TermRules => ({
  alpha: options.alpha,
  beta: options.beta,
  requestsPerS: options.requestsPerS ?? 0,
  completionsPerS: options.completionsPerS ?? 0,
});

/** The rules of the defaults. */
export const DEFAULT_TERMS = termRulesOf(drumOptions.parse({}));

class Terms implements Decider<TermRules> {
  private readonly members: MembersView;

  constructor(members: MembersView) {
    this.members = members;
  }

  decide(rules: TermRules): void {
    const { members } = this;
    for (const { name } of GRANTS) members.grant(name).set(members.device, rules[name as keyof TermRules]);
  }
}

/** The ruler of drum's agent. */
export const drumTerms: Ruler<TermRules> = {
  name: 'drumTerms',
  reports: [],
  grants: GRANTS,
  rules: drumOptions.transform(termRulesOf),
  begin: (members) => new Terms(members),
};

/** The rules in force at a device; null: nothing has been decided yet. */
export function termsAt(members: MembersView): TermRules | null {
  const [alpha, beta, requestsPerS, completionsPerS] = GRANTS.map(({ name }) =>
    members.grant(name, drumTerms).of(members.device),
  );
  return alpha > 0 ? { alpha, beta, requestsPerS, completionsPerS } : null;
}
