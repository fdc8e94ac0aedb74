/** What a shim adds to the provider about its policy: changes of options, and its state for people. */
import { ConfigError, requireOptions } from '../verbs/errors.ts';
import type { PolicyGauge, PolicyState, Provider } from '../verbs/provider.ts';
import type { Contexts } from './contexts.ts';
import type { Feeder } from './feeder.ts';
import type { Policy } from './policy.ts';
import type { Posting } from './posting.ts';

/** The parts of the shim that these verbs use. */
export interface PolicyVerbsParts {
  readonly policy: Policy;
  readonly next: Provider;
  readonly contexts: Contexts;
  readonly feeder: Feeder;
  readonly posting: Posting;
}

/** The verbs; `policyStates` only if the policy has any. */
export function policyVerbs(
  parts: PolicyVerbsParts,
): Partial<
  Pick<Provider, 'configurePolicy' | 'policyGauges' | 'policyStates' | 'sampleLatency' | 'watchUncut'>
> {
  return {
    watchUncut: (listener) => {
      parts.feeder.uncutListeners.push(listener);
      parts.next.watchUncut?.(listener);
    },
    configurePolicy: (name, changes) => configure(parts, name, changes),
    policyGauges: () => policyGauges(parts),
    sampleLatency: () => parts.contexts.sampleLatency(),
    ...(parts.policy.inspect !== undefined && { policyStates: () => policyStates(parts) }),
  };
}

/** Configures the innermost policy first: if it refuses, none has changed anything. */
function configure(
  { policy, next, feeder, posting }: PolicyVerbsParts,
  name: string,
  changes: Readonly<Record<string, unknown>>,
): void {
  requireOptions(name, changes);
  const isBelow = next.interceptors.includes(name);
  if (isBelow) next.configurePolicy?.(name, changes);
  if (policy.name === name && policy.configure !== undefined) {
    feeder.configure(changes);
    posting.limits();
  } else if (policy.name === name) {
    throw new ConfigError(`${name}: its options cannot change while it runs`);
  } else if (!isBelow) {
    if (next.configurePolicy === undefined) throw new ConfigError(`policy '${name}' is not active`);
    next.configurePolicy(name, changes);
  }
}

/** What the shim knows under any policy, and what the policy adds. */
function policyGauges({ policy, next, contexts, feeder }: PolicyVerbsParts): PolicyGauge[] {
  const own = [...contexts.held(), ...(policy.gauges?.(feeder.issuer) ?? [])];
  return [...own.map((gauge) => ({ policy: policy.name, ...gauge })), ...(next.policyGauges?.() ?? [])];
}

function policyStates({ policy, next }: PolicyVerbsParts): PolicyState[] {
  const own = (policy.inspect?.() ?? []).map((state) => ({ policy: policy.name, ...state }));
  return [...own, ...(next.policyStates?.() ?? [])];
}
