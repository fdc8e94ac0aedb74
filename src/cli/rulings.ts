/** The rulers and agents of a daemon: those of the built-in policies, and of modules that its policy names. */
import { resolve } from 'node:path';
import { parsePolicies } from '../config.ts';
import { Coordinator } from '../coordinator/coordinator.ts';
import { parseRules } from '../coordinator/device-rules.ts';
import type { Ruling } from '../daemon/devices.ts';
import { isModuleName, partsOfModule, policyInterceptors } from '../drivers/index.ts';
import { type AgentKind, policies, type Ruler } from '../policies/index.ts';
import { convertQuantities, currentOptions } from '../policies/parse-options.ts';
import { ConfigError } from '../verbs/errors.ts';

/**
 * The rulers of all policies that programs may have, with their rules. Those of policies that `policy` names have its
 * options, and all others their defaults.
 * @param policy in the form of ISOVERBS_POLICY; '' for none
 * @throws ConfigError
 */
export function rulingsOf(policy: string): Ruling[] {
  const list = policy === '' ? [] : parsePolicies(policy, 'policy');
  // Creating them checks their options.
  policyInterceptors('inline', list);
  const optionsOf = (name: string) => list.find((entry) => entry.name === name)?.options ?? {};
  const isNamed = (name: string) => list.some((entry) => entry.name === name);
  const builtIn = Object.entries(policies).flatMap(([name, { rulers, options: schema }]) => {
    const options = convertQuantities(name, currentOptions(name, schema, optionsOf(name)));
    return rulers.map((ruler) => ({
      ruler,
      rules: parseRules(ruler, options),
      options,
      isNamed: isNamed(name),
    }));
  });
  const modules = list.filter(({ name }) => isModuleName(name));
  const others = modules.flatMap(({ name, options }) =>
    partsOfModule(name).rulers.map((ruler) => {
      requireBegin(name, ruler);
      return { ruler, rules: parseRules(ruler, options), options, isNamed: true };
    }),
  );
  return [...onePerRuler(builtIn), ...others];
}

/** Policies may share a ruler, whose columns exist once. The policy that is named has its rules, or else the first one. */
function onePerRuler(rulings: readonly Ruling[]): Ruling[] {
  const byRuler = new Map<string, Ruling>();
  for (const ruling of rulings) {
    const known = byRuler.get(ruling.ruler.name);
    if (known === undefined || (ruling.isNamed && !known.isNamed)) byRuler.set(ruling.ruler.name, ruling);
  }
  return [...byRuler.values()];
}

/** A ruler that cannot bind its columns would otherwise fail when the first client comes. @throws ConfigError */
function requireBegin(name: string, ruler: Ruler): void {
  try {
    new Coordinator().membersOf(ruler);
  } catch (cause) {
    const { message } = cause as Error;
    throw new ConfigError(`policy '${name}': ruler '${ruler.name}' cannot begin: ${message}`, { cause });
  }
}

/** The agents of all policies that programs may have. @throws ConfigError */
export function agentsOf(policy: string): AgentKind[] {
  const names = policy === '' ? [] : parsePolicies(policy, 'policy').map(({ name }) => name);
  const builtIn = Object.values(policies).flatMap(({ agents }) => agents);
  return [...builtIn, ...names.filter(isModuleName).flatMap((name) => partsOfModule(name).agents)];
}

/** A list of policies whose modules are named by absolute paths, so that programs elsewhere find them. */
export function withAbsolutePaths(policy: string, folder: string): string {
  const absolute = (name: string) => (isModuleName(name) ? resolve(folder, name) : name);
  return policy
    .split(';')
    .map((part) => part.replace(/^\s*[^:\s]+/, (name) => absolute(name.trim())))
    .join(';');
}
