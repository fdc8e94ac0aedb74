/** Policies under a daemon: which of their options its settings replace, and whether its weights and rates have an effect. */
import { policies } from './index.ts';
import { parseOptions } from './parse-options.ts';

interface NamedPolicy {
  readonly name: string;
  readonly options: Readonly<Record<string, unknown>>;
}

/**
 * The built-in policies that divide a device by the weights of tenants, whatever the rate of its link. Under tassel,
 * weights apply to traffic without a rate.
 */
const BY_WEIGHT: readonly string[] = ['justitia', 'palos', 'drum', 'fair', 'tassel'];

/** The built-in policies without token buckets that hold a tenant to its rate (`gbps`). */
const BY_RATE: readonly string[] = ['tassel', 'drum', 'fair'];

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
export function optionsWithoutEffect(list: readonly NamedPolicy[]): string | null {
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

/** What the weights of a daemon's tenants change. */
export type EffectOfWeights =
  | 'nothing'
  | 'turns'
  /** Shares of a link, if its rate is known, of tenants without fixed rates. */
  | 'shares'
  /** Shares of a link whose rate is an option of the policy. */
  | 'shares of a known link'
  /** A policy is not built in. */
  | 'unknown';

/** What the weights of a daemon's tenants change for programs under these policies. */
export function effectOfWeights(list: readonly NamedPolicy[]): EffectOfWeights {
  if (list.some(({ name }) => BY_WEIGHT.includes(name))) return 'turns';
  if (!areBuiltIn(list)) return 'unknown';
  const bucket = list.find(hasBuckets);
  if (bucket === undefined) return 'nothing';
  return bucket.options.linkGbps === undefined ? 'shares' : 'shares of a known link';
}

/** What the rates (`gbps`) of a daemon's tenants change for programs under these policies; unknown: one is not built in. */
export function effectOfRates(list: readonly NamedPolicy[]): 'nothing' | 'limits' | 'unknown' {
  if (list.some((one) => BY_RATE.includes(one.name) || hasBuckets(one))) return 'limits';
  return areBuiltIn(list) ? 'nothing' : 'unknown';
}

const areBuiltIn = (list: readonly NamedPolicy[]) => list.every(({ name }) => Object.hasOwn(policies, name));

/** Whether a policy contains token buckets, as perf does with weights or rates. */
function hasBuckets({ name, options: { weights, ratesGbps } }: NamedPolicy): boolean {
  return name === 'token-bucket' || (name === 'perf' && (weights ?? ratesGbps) !== undefined);
}
