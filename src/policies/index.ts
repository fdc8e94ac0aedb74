/** The policies by name, with their validated options. */
import type { ZodType } from 'zod';
import type { Interceptor } from '../shim/compose.ts';
import type { PolicyNeeds } from '../shim/policy.ts';
import { ConfigError } from '../verbs/errors.ts';
import { convertQuantities, currentOptions, parseOptions } from './parse-options.ts';
import { perf } from './perf/index.ts';
import { perfOptions } from './perf/options.ts';
import { tokenBucket } from './token-bucket/index.ts';
import { tokenBucketOptions } from './token-bucket/options.ts';

export { coordinatorMemory, shareCoordinator } from '../coordinator/registry.ts';
export type { ContextWatch, CoordinatorPort, Grant, Usage } from '../shim/coordinator-port.ts';
export { shimCounters } from '../shim/counters.ts';
export {
  type Actions,
  type ContextView,
  NO_TOKEN,
  type Policy,
  type PolicyNeeds,
  type QpChange,
  type QpView,
} from '../shim/policy.ts';
export { messageBytes } from '../shim/qp-ledger.ts';
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
export { type EmulateWaitOptions, emulateWait } from '../shim/wait/emulate-wait.ts';
export { type WaitChoice, withWait } from '../shim/wait/wait-support.ts';

/** What is built in under a name. */
export interface NamedEntry {
  readonly summary: string;
  readonly options: ZodType;
  /** Makes the interceptor. @throws ConfigError for an unknown option */
  create(options: unknown): Interceptor;
}

/** A policy that is built in. */
export interface PolicyEntry extends NamedEntry {
  /** What it asks of what is around it; `isoverbs policies` says it. */
  readonly needs: {
    /** WAIT and ENABLE of the device; 'preferred' takes an emulation. */
    readonly wait: PolicyNeeds['wait'];
    /** 'own': all its contexts of a device in a process meet at one that it makes itself. */
    readonly coordinator: 'none' | 'own' | 'required';
    /** A shim at the other end; 'for SENDs': without one, SENDs and immediates go whole. */
    readonly shimmedPeer: 'none' | 'for SENDs' | 'required';
  };
}

/** The policies that are built in, by name. */
export const policies: Readonly<Record<string, PolicyEntry>> = {
  perf: {
    summary: 'PeRF: large messages are split, with 0_WAITs between the pieces, so that small ones get a turn',
    needs: { wait: 'preferred', coordinator: 'own', shimmedPeer: 'for SENDs' },
    options: perfOptions,
    create: (options) => perf(perfOptions.parse(options)),
  },
  'token-bucket': {
    summary:
      'a static rate for each tenant: a share of the link by weight (equal, if none is said), or one of its own',
    needs: { wait: 'none', coordinator: 'own', shimmedPeer: 'for SENDs' },
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
  table: Readonly<Record<string, NamedEntry>>,
  name: string,
  options: Record<string, unknown>,
): Interceptor {
  const entry = Object.hasOwn(table, name) ? table[name] : undefined;
  if (entry === undefined) {
    throw new ConfigError(`there is no ${kind} '${name}'; there are: ${Object.keys(table).join(', ')}`);
  }
  const given = convertQuantities(name, currentOptions(name, entry.options, options));
  parseOptions(name, entry.options, given);
  return entry.create(given);
}
