/** The policies by name, with their validated options. */
import type { ZodType } from 'zod';
import type { Interceptor } from '../shim/compose.ts';
import { ConfigError } from '../verbs/errors.ts';
import { checkedOptions, numbersOf } from './check.ts';
import { perf } from './perf/index.ts';
import { perfOptions } from './perf/options.ts';
import { tokenBucket } from './token-bucket/index.ts';
import { tokenBucketOptions } from './token-bucket/options.ts';

export { coordinatorMemory, shareCoordinator } from '../coordinator/coordinators.ts';
export type { CoordinatorPort, Grant } from '../shim/coordinator-port.ts';
export { shimCounters } from '../shim/counters.ts';
export { type EmulateWaitOptions, emulateWait } from '../shim/emulate-wait.ts';
export {
  type Actions,
  type ContextView,
  NO_TOKEN,
  type Policy,
  type PolicyNeeds,
  type QpChange,
  type QpView,
} from '../shim/policy.ts';
export { messageBytes } from '../shim/queue.ts';
export type {
  LoopbackOptions,
  ResourceAddress,
  ResourceMemory,
  ResourceRequest,
  Resources,
  ResourceView,
  TwinOptions,
} from '../shim/resources.ts';
export { createShim, type ShimOptions } from '../shim/shim.ts';
export { type WaitChoice, withWait } from '../shim/wait-support.ts';

/** A policy that is built in. */
export interface PolicyEntry {
  readonly summary: string;
  readonly options: ZodType;
  /** Makes the interceptor. @throws ConfigError for an unknown option */
  create(options: unknown): Interceptor;
}

/** The policies that are built in, by name. */
export const policies: Readonly<Record<string, PolicyEntry>> = {
  perf: {
    summary: 'PeRF: large messages are split, with 0_WAITs between the pieces, so that small ones get a turn',
    options: perfOptions,
    create: (options) => perf(perfOptions.parse(options)),
  },
  'token-bucket': {
    summary:
      'a static rate for each tenant: a share of the link by weight (equal, if none is said), or one of its own',
    options: tokenBucketOptions,
    create: (options) => tokenBucket(tokenBucketOptions.parse(options)),
  },
};

/**
 * Makes the interceptor of a policy.
 * @throws ConfigError naming the policies there are, or the option that is wrong and what it takes
 */
export function createPolicy(name: string, options: Record<string, unknown> = {}): Interceptor {
  return createNamed('policy', policies, name, options);
}

/**
 * Makes what `table` has under a name; `kind` is what to call it.
 * @throws ConfigError naming what there is, or the option that is wrong and what it takes
 */
export function createNamed(
  kind: string,
  table: Readonly<Record<string, PolicyEntry>>,
  name: string,
  options: Record<string, unknown>,
): Interceptor {
  const entry = Object.hasOwn(table, name) ? table[name] : undefined;
  if (entry === undefined) {
    throw new ConfigError(`there is no ${kind} '${name}'; there are: ${Object.keys(table).join(', ')}`);
  }
  const given = numbersOf(name, options);
  checkedOptions(name, entry.options, given);
  return entry.create(given);
}
