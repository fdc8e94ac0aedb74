/** Declares what applications are, for policies that expect it. */
import { policies } from '../policies/index.ts';
import { declared, type Mix } from './mixture.ts';
import { parsePolicy } from './parse.ts';

/**
 * The mixture as a policy expects it: if the policy relies on declarations, each application that declares no kind of
 * traffic declares its own.
 * @param policy as `--policy` takes it
 */
export function declaredFor(mix: Mix, policy: string): Mix {
  const { inner = [], ...outermost } = parsePolicy(policy);
  const expects = (name: string) => Object.hasOwn(policies, name) && policies[name].expectsTraffic === true;
  return [outermost, ...inner].some((use) => expects(use.policy)) ? declared(mix) : mix;
}
