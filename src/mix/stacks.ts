/** The policies of each host, and the provider that an application uses there. */
import { z } from 'zod';
import { withCoordinators } from '../coordinator/registry.ts';
import { isModuleName, policyInterceptors } from '../drivers/index.ts';
import { policies } from '../policies/index.ts';
import { convertQuantities } from '../policies/parse-options.ts';
import { policiesText, scalarOf } from '../policies/policy-text.ts';
import { compose, type Interceptor } from '../shim/compose.ts';
import { sumCounters } from '../shim/counters.ts';
import type { LayerCounters, PolicyGauge, PolicyState, Provider } from '../verbs/provider.ts';
import type { OpenOptions } from '../verbs/types.ts';
import { type Coordinators, requireOwn } from './coordinators.ts';
import type { RunObserver } from './record/run-observer.ts';
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

/** The time in ns that a thread takes to lock a shared queue pair under these policies; null without locks. */
function lockNsOf(stack: readonly PolicyUse[]): number | null {
  for (const { policy, policyOptions = {} } of stack) {
    const locksNs = policies[policy]?.locksNs;
    if (locksNs !== undefined) return locksNs(convertQuantities(policy, policyOptions));
  }
  return null;
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
 * whose weight changes during the run: theirs is the label. Policies of modules, whose schemas need not convert text, get
 * the values that ISOVERBS_POLICY would give them.
 */
export function policyOptionsOf(
  { policy, policyOptions = {} }: Pick<MixSpec, 'policy' | 'policyOptions'>,
  apps: readonly App[],
  changing: ReadonlySet<string> = new Set(),
): Record<string, unknown> {
  if (isModuleName(policy)) {
    const valueIn = (value: unknown) => (typeof value === 'string' ? scalarOf(value) : value);
    return Object.fromEntries(Object.entries(policyOptions).map(([key, value]) => [key, valueIn(value)]));
  }
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

/** Policies of a mix, and the hosts that have them. */
interface Entry {
  readonly hosts: readonly number[];
  /** Each interceptor creates a policy and a shim for every host whose devices it wraps. */
  readonly interceptors: readonly Interceptor[];
  /** See ShimCpu.interceptors. */
  readonly lockNs: number | null;
}

/** The stacks of all hosts. Each host has its own policies, shims and coordinators, as separate machines do. */
export class Stacks {
  private readonly entries: readonly Entry[];
  private readonly order: ReadonlyMap<string, number>;
  private readonly byHost = new Map<number, HostStack>();
  /** By entry. */
  private all: readonly (readonly Provider[])[] = [];

  /** @throws ConfigError for an unknown option of a policy */
  constructor(spec: MixSpec, apps: readonly App[]) {
    const named = (spec.onHosts ?? []).map(({ hosts, stack }) => ({
      hosts: hostsOf('policy', hosts, spec.hosts),
      interceptors: interceptorsOfStack(stack, apps, spec),
      lockNs: lockNsOf(stack),
    }));
    const taken = new Set(named.flatMap(({ hosts }) => hosts));
    const others = Array.from({ length: spec.hosts }, (_, host) => host).filter((host) => !taken.has(host));
    const { policy, policyOptions = {}, inner = [] } = spec;
    const lockNs = lockNsOf([{ policy, policyOptions }, ...inner]);
    this.entries = [{ hosts: others, interceptors: interceptorsOf(spec, apps), lockNs }, ...named];
    this.order = contextOrder(apps);
  }

  /** Whether any host has a policy. */
  get isShaped(): boolean {
    return this.entries.some(({ interceptors }) => interceptors.length > 0);
  }

  /** Whether threads of any host post to shared queue pairs. */
  get hasLocks(): boolean {
    return this.entries.some(({ lockNs }) => lockNs !== null);
  }

  /** Wraps the devices of each host. Observers see the requests above and below everything else. */
  compose(
    devices: Provider,
    cpu: ShimCpu,
    coordinators: Coordinators,
    observers: readonly RunObserver[] = [],
  ): void {
    this.all = this.entries.map(({ hosts, interceptors, lockNs }, entry) =>
      // If all hosts are named, the usual policies wrap host 0 only to report. Its named policies then replace them.
      (hosts.length === 0 ? [0] : hosts).map((host) => {
        const { above, below } = cpu.interceptors(lockNs);
        const seen = observers.flatMap((observer) => observer.interceptors?.() ?? []);
        const outermost = seen.map((one) => one.above);
        const innermost = seen.map((one) => one.below);
        const wrap = () =>
          compose(onHost(devices, host), [...outermost, ...above, ...interceptors, below, ...innermost]);
        const isBare = interceptors.length === 0;
        const bare = seen.length === 0 ? devices : compose(devices, [...outermost, ...innermost]);
        const provider = isBare ? bare : withCoordinators(coordinators.scopeOf(host, entry), wrap);
        this.byHost.set(host, { provider, interceptors: interceptors.length });
        return provider;
      }),
    );
  }

  of(host: number): HostStack {
    const stack = this.byHost.get(host);
    if (stack === undefined) throw new Error(`host ${host} has no stack`);
    return stack;
  }

  /** What the shim of each policy has counted, over the hosts with the same entry. */
  counters(): LayerCounters[] {
    return this.all.flatMap((providers) => {
      const byHost = providers.map((provider) => provider.counters?.() ?? []);
      const [first = []] = byHost;
      return first.map(({ name }, i) => ({ name, ...sumCounters(byHost.map((layers) => layers[i])) }));
    });
  }

  /** Quantities of the policies at present. */
  gauges(): PolicyGauge[] {
    return this.merged(
      (provider) => provider.policyGauges?.() ?? [],
      ({ name }) => name === 'held',
    );
  }

  /** How the policies classify each sending context; undefined without a policy that reports it. */
  policyStates(): PolicyState[] | undefined {
    const isReported = this.all.flat().some(({ policyStates }) => policyStates !== undefined);
    return isReported ? this.merged((provider) => provider.policyStates?.() ?? []) : undefined;
  }

  /**
   * What the hosts of each entry report: by policy, then in the order in which the mix opens the contexts.
   * @param isShims whether a report is the shim's; these precede the policy's reports
   */
  private merged<Report extends Pick<PolicyState, 'policy' | 'device' | 'tenant'>>(
    of: (provider: Provider) => readonly Report[],
    isShims: (report: Report) => boolean = () => false,
  ): Report[] {
    return this.all.flatMap((providers) => {
      const byHost = providers.map(of);
      const longestFirst = byHost.toSorted((a, b) => b.length - a.length).flat();
      const policies = [...new Set(longestFirst.map(({ policy }) => policy))];
      const rankOf = (one: Report) =>
        2 * policies.indexOf(one.policy) + (isShims(one) ? 0 : 1) + this.orderOf(one);
      const ranked = byHost.flatMap((reports) => {
        // Keeps each host's order.
        let rank = 0;
        return reports.map((one) => {
          rank = Math.max(rank, rankOf(one));
          return { one, rank };
        });
      });
      return ranked.sort((a, b) => a.rank - b.rank).map(({ one }) => one);
    });
  }

  /** The rank of a context, scaled from 0 to 1. */
  private orderOf({ device, tenant }: { device: string; tenant: string }): number {
    const { size } = this.order;
    return (this.order.get(`${device} ${tenant}`) ?? size) / (size + 1);
  }
}

/** The order in which connector.ts opens the contexts, by device and tenant. */
function contextOrder(apps: readonly App[]): Map<string, number> {
  const order = new Map<string, number>();
  for (const { host, to, tenant } of apps) {
    for (const one of [host, to]) {
      const key = `sim${one} ${tenant}`;
      if (!order.has(key)) order.set(key, order.size);
    }
  }
  return order;
}

/** The devices as one host sees them. */
function onHost(devices: Provider, host: number): Provider {
  return Object.freeze({
    ...devices,
    getDeviceList: () => devices.getDeviceList().filter(({ name }) => name === `sim${host}`),
    openDevice: (name: string, options?: OpenOptions) => {
      requireOwn(host, name);
      return devices.openDevice(name, options);
    },
  });
}

/** The policies of a mix with the options that were given, each as `--policy` takes it, separated by spaces. */
export function policyWords({
  policy,
  policyOptions,
  inner = [],
  onHosts = [],
}: Pick<MixSpec, 'policy' | 'policyOptions' | 'inner' | 'onHosts'>): string {
  const textOf = (stack: readonly Pick<MixSpec, 'policy' | 'policyOptions'>[]) =>
    policiesText(stack.map((use) => ({ name: use.policy, options: use.policyOptions })));
  const where = (hosts: HostRange) => (typeof hosts === 'number' ? hosts : hosts.join('-'));
  const usual = textOf([{ policy, policyOptions }, ...inner]);
  return [usual, ...onHosts.map(({ hosts, stack }) => `@${where(hosts)}=${textOf(stack)}`)].join(' ');
}

type HostRange = NonNullable<MixSpec['onHosts']>[number]['hosts'];
