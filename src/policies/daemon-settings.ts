/** Options with values by tenant. They have no effect under a daemon, which has settings of its own for its tenants. */
import { policies } from './index.ts';
import { parseOptions } from './parse-options.ts';

/** The setting of a daemon that takes the place of each option. */
const SETTINGS: Readonly<Record<string, string>> = {
  weights: 'weight',
  ratesGbps: 'gbps',
  ratesRequestsPerS: 'maxRequestsPerS',
};

/**
 * Says which options of built-in policies have no effect under a daemon, and what to use instead; null: all have.
 * @throws ConfigError for a wrong option
 */
export function optionsWithoutEffect(
  list: readonly { readonly name: string; readonly options: Readonly<Record<string, unknown>> }[],
): string | null {
  const names: string[] = [];
  /** By tenant. */
  const settings = new Map<string, string[]>();
  for (const { name, options } of list) {
    if (!Object.hasOwn(policies, name)) continue;
    const parsed = parseOptions(name, policies[name].options, options) as Record<string, unknown>;
    for (const [option, setting] of Object.entries(SETTINGS)) {
      const values = Object.entries(parsed[option] ?? {});
      if (values.length === 0) continue;
      names.push(`${name}.${option}`);
      for (const [tenant, value] of values)
        settings.set(tenant, [...(settings.get(tenant) ?? []), `${setting}=${value}`]);
    }
  }
  const [first] = settings;
  if (first === undefined) return null;
  const [tenant, words] = first;
  const have = names.length === 1 ? 'has' : 'have';
  return (
    `${names.join(' and ')} ${have} no effect under the daemon, which has settings of its own for each tenant: ` +
    `run \`isoverbs set ${tenant} ${words.join(' ')}\`, or write them into a rule of its configuration`
  );
}
