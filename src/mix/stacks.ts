/** The policies of each host, and the provider that an application uses there. */
import { z } from 'zod';
import { policyInterceptors } from '../drivers/index.ts';
import { policies } from '../policies/index.ts';
import { compose, type Interceptor } from '../shim/compose.ts';
import type { LayerCounters, PolicyGauge, PolicyState, Provider } from '../verbs/provider.ts';
import { type App, hostsOf, isNamed } from './resolve.ts';
import type { ShimCpu } from './shim-cpu.ts';
import type { MixSpec, PolicyUse } from './spec.ts';

/**
 * The interceptors of the mix's policies. They always run inline: shim-cpu.ts models the CPU and delay of a worker.
 * @throws ConfigError for an unknown option
 */
export function interceptorsOf(spec: MixSpec, apps: readonly App[]): Interceptor[] {
  const { policy, policyOptions = {}, inner = [] } = spec;
  return policy === 'none' ? [] : interceptorsOfStack([{ policy, policyOptions }, ...inner], apps, spec);
}

function interceptorsOfStack(
  stack: readonly PolicyUse[],
  apps: readonly App[],
  spec: Pick<MixSpec, 'script'>,
): Interceptor[] {
  const changing = tenantsOfChangingWeight(spec, apps);
  return policyInterceptors(
    'inline',
    stack.map((use) => ({ name: use.policy, options: policyOptionsOf(use, apps, changing) })),
  );
}

/** The tenants whose weight the script changes. */
function tenantsOfChangingWeight(
  { script = [] }: Pick<MixSpec, 'script'>,
  apps: readonly App[],
): Set<string> {
  const named = script.flatMap(({ action }) =>
    action.kind === 'set' && 'labels' in action && action.labels.weight !== undefined ? [action.app] : [],
  );
  return new Set(apps.filter((app) => named.some((name) => isNamed(app, name))).map(({ tenant }) => tenant));
}

/**
 * The options of a policy. One with `weights` gets those of the applications' tenants by default, except for tenants
 * whose weight changes during the run: theirs is the label.
 */
export function policyOptionsOf(
  { policy, policyOptions = {} }: Pick<MixSpec, 'policy' | 'policyOptions'>,
  apps: readonly App[],
  changing: ReadonlySet<string> = new Set(),
): Record<string, unknown> {
  const schema = policies[policy]?.options;
  const knows = schema instanceof z.ZodObject && 'weights' in schema.shape;
  const isWeighted = changing.size > 0 || apps.some(({ weight }) => weight !== 1);
  if (!knows || 'weights' in policyOptions || !isWeighted) return { ...policyOptions };
  // Contexts without a tenant have no common weight. Any entry makes a policy that has weights only on request use them.
  const weights: Record<string, number> = changing.size > 0 ? { '': 1 } : {};
  for (const { tenant, weight } of apps)
    if (!changing.has(tenant)) weights[tenant] = Math.max(weight, weights[tenant] ?? 0);
  return { ...policyOptions, weights };
}

/** The policies of a host, around the simulated devices. */
export interface HostStack {
  readonly provider: Provider;
  /** Number of interceptors that each request and completion of an application passes. */
  readonly interceptors: number;
}

/** The stacks of all hosts. Hosts with the same entry of the mix share one, as the processes of a host do. */
export class Stacks {
  private readonly usual: Interceptor[];
  private readonly named: readonly {
    readonly hosts: readonly number[];
    readonly interceptors: Interceptor[];
  }[];
  private readonly byHost = new Map<number, HostStack>();
  private all: readonly HostStack[] = [];

  /** @throws ConfigError for an unknown option of a policy */
  constructor(spec: MixSpec, apps: readonly App[]) {
    this.usual = interceptorsOf(spec, apps);
    this.named = (spec.onHosts ?? []).map(({ hosts, stack }) => ({
      hosts: hostsOf('policy', hosts, spec.hosts),
      interceptors: interceptorsOfStack(stack, apps, spec),
    }));
  }

  /** Whether any host has a policy. */
  get isShaped(): boolean {
    return this.usual.length > 0 || this.named.some(({ interceptors }) => interceptors.length > 0);
  }

  /** Wraps the devices. */
  compose(devices: Provider, hosts: number, cpu: ShimCpu): void {
    const wrapped = (interceptors: Interceptor[]): HostStack => ({
      provider: compose(devices, interceptors.length === 0 ? [] : [...interceptors, cpu.interceptor()]),
      interceptors: interceptors.length,
    });
    const usual = wrapped(this.usual);
    for (let host = 0; host < hosts; host++) this.byHost.set(host, usual);
    const named = this.named.map((one) => {
      const stack = wrapped(one.interceptors);
      for (const host of one.hosts) this.byHost.set(host, stack);
      return stack;
    });
    this.all = [usual, ...named];
  }

  of(host: number): HostStack {
    const stack = this.byHost.get(host);
    if (stack === undefined) throw new Error(`host ${host} has no stack`);
    return stack;
  }

  /** What the shim of each policy has counted, by stack. */
  counters(): LayerCounters[] {
    return this.all.flatMap(({ provider }) => provider.counters?.() ?? []);
  }

  /** Quantities of the policies at present. */
  gauges(): PolicyGauge[] {
    return this.all.flatMap(({ provider }) => provider.policyGauges?.() ?? []);
  }

  /** How the policies classify each sending context; undefined without a policy that reports it. */
  policyStates(): PolicyState[] | undefined {
    const reports = this.all.flatMap(({ provider }) => provider.policyStates?.() ?? []);
    return this.all.some(({ provider }) => provider.policyStates !== undefined) ? reports : undefined;
  }
}

/** The policies of a mix as `--policy` takes them, without their options. */
export function policyNames({ policy, inner = [], onHosts = [] }: MixSpec): string {
  const names = (stack: readonly PolicyUse[]) => stack.map((use) => use.policy).join(';') || 'none';
  const usual = [policy, ...inner.map((use) => use.policy)].join(';');
  const where = (hosts: HostRange) => (typeof hosts === 'number' ? hosts : hosts.join('-'));
  return [usual, ...onHosts.map(({ hosts, stack }) => `@${where(hosts)}=${names(stack)}`)].join(' ');
}

type HostRange = NonNullable<MixSpec['onHosts']>[number]['hosts'];
