import { parsePolicies } from '../config.ts';
import { createPolicy } from '../policies/index.ts';
import { parseOptions } from '../policies/parse-options.ts';
import { perfOptions } from '../policies/perf/options.ts';

/** The parameters of perf's master, from the options of `perf` if the daemon runs it. @throws ConfigError */
export function masterRules(policy: string) {
  const list = policy === '' ? [] : parsePolicies(policy, 'policy');
  for (const { name, options } of list) createPolicy(name, options);
  const found = list.find(({ name }) => name === 'perf')?.options ?? {};
  const { qNumAllow, qNumCapa, paper } = parseOptions('perf', perfOptions, found);
  return { qNumAllow, qNumCapa, selective: paper };
}
