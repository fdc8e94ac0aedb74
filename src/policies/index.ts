/** The policies by name, with their validated options. */
import type { ZodType } from 'zod';
import type { AgentKind } from '../coordinator/agent.ts';
import type { Ruler } from '../coordinator/ruler.ts';
import type { Interceptor } from '../shim/compose.ts';
import type { PolicyNeeds } from '../shim/policy.ts';
import { ConfigError, InvalidArgumentError, shown } from '../verbs/errors.ts';
import { didYouMean } from '../verbs/suggestions.ts';
import { chunk } from './chunk/index.ts';
import { chunkOptions } from './chunk/options.ts';
import { drumAgents } from './drum/agent/drum-agent.ts';
import { drumTerms } from './drum/agent/terms.ts';
import { drum } from './drum/index.ts';
import { drumOptions } from './drum/options.ts';
import { fairAgents } from './fair/agent/fair-agent.ts';
import { fair } from './fair/index.ts';
import { fairOptions, fairWindows } from './fair/options.ts';
import { handedTokens } from './justitia/handed-tokens.ts';
import { justitia } from './justitia/index.ts';
import { justitiaOptions } from './justitia/options.ts';
import { rates } from './justitia/rates.ts';
import { referenceFlows } from './justitia/reference-flows.ts';
import { palos } from './palos/index.ts';
import { palosOptions } from './palos/options.ts';
import { windows } from './palos/ruler.ts';
import { convertQuantities, currentOptions, parseOptions } from './parse-options.ts';
import { perf } from './perf/index.ts';
import { master } from './perf/master.ts';
import { perfOptions } from './perf/options.ts';
import { readAgents } from './perf/read-agent.ts';
import { slots } from './perf/slot-rotation.ts';
import { optionsHint } from './policy-text.ts';
import { share } from './share/index.ts';
import { shareOptions } from './share/options.ts';
import { tassel } from './tassel/index.ts';
import { tasselOptions } from './tassel/options.ts';
import { tasselRates } from './tassel/ruler.ts';
import { tokenBucket } from './token-bucket/index.ts';
import { tokenBucketOptions } from './token-bucket/options.ts';
import { shares } from './token-bucket/shares.ts';

export {
  type Agent,
  type AgentActions,
  type AgentKind,
  type AgentLine,
  type AgentLineEvents,
  MAX_MESSAGE_WORDS,
} from '../coordinator/agent.ts';
export type { AgentAddress, AgentCarrier, AgentChannel } from '../coordinator/agent-carrier.ts';
export type { DeviceCoordinator } from '../coordinator/coordinator.ts';
export type { Derive } from '../coordinator/device-rules.ts';
export type { Columned } from '../coordinator/layout.ts';
export { coordinatorMemory, type MemberPage, TENANT } from '../coordinator/member-table.ts';
export type { TargetRate, TargetRates } from '../coordinator/rates.ts';
export { type CoordinatorRegistry, shareCoordinator } from '../coordinator/registry.ts';
export {
  type Column,
  columnIndex,
  type Decider,
  type Description,
  type GrantColumn,
  type MemberColumns,
  type MembersView,
  type ReportColumn,
  type Ruler,
  type RulesSchema,
} from '../coordinator/ruler.ts';
export { type Tenants, tenantId } from '../coordinator/tenants.ts';
export type { CoordinatorPort, Usage } from '../shim/coordinator-port.ts';
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
  ResourceMemory,
  ResourceOptions,
  ResourceRequest,
  Resources,
  ResourceView,
  TwinOptions,
} from '../shim/resources.ts';
export { createShim, type ShimOptions } from '../shim/shim.ts';
export { type EmulateWaitOptions, emulateWait } from '../shim/wait/emulate-wait.ts';
export { type WaitChoice, withWait } from '../shim/wait/wait-support.ts';
export { gidFromWords, gidToWords } from '../verbs/gid.ts';
export { createCoordinatedShim } from './coordinated.ts';
export { policyOptions } from './parse-options.ts';
export { tasselWithAgent } from './tassel/index.ts';

/** An entry of a table of built-in policies or interceptors. */
export interface NamedEntry {
  readonly summary: string;
  readonly options: ZodType;
  /** Creates the interceptor. @throws ConfigError for an unknown option */
  create(options: unknown): Interceptor;
}

/** A built-in policy. */
export interface PolicyEntry extends NamedEntry {
  /** The policy's requirements, as printed by `isoverbs policies`. */
  readonly needs: {
    /** WAIT and ENABLE of the device; 'preferred' accepts an emulation. */
    readonly wait: PolicyNeeds['wait'];
    /** 'own': the policy creates one per device and process, which all its contexts share. */
    readonly coordinator: 'none' | 'own' | 'required';
    /** A shim at the other end; 'for SENDs': without one, SENDs and immediates go whole. */
    readonly shimmedPeer: 'none' | 'for SENDs' | 'required';
  };
  /**
   * Whether the policy expects applications to declare their kind of traffic. Comparisons of policies then declare it.
   */
  readonly expectsTraffic?: boolean;
  /**
   * Whether the policy holds queue pairs to the rates that programs set, tenants to `ratesGbps` and groups to
   * `groupRatesGbps`. Comparisons of random mixtures then give rates to some applications.
   */
  readonly limitsRates?: boolean;
  /**
   * If threads post to shared queue pairs themselves, under a lock: the time in ns that one takes to acquire it once it is
   * free, for simulated hosts.
   */
  readonly locksNs?: (options: unknown) => number;
  /** What the policy brings to the coordinators of devices, in the order in which they decide. */
  readonly rulers: readonly Ruler[];
  readonly agents: readonly AgentKind[];
}

/** The built-in policies by name. */
export const policies: Readonly<Record<string, PolicyEntry>> = {
  perf: {
    summary:
      'PeRF: splits large messages and puts 0_WAITs between the pieces, so that small messages can pass',
    needs: { wait: 'preferred', coordinator: 'own', shimmedPeer: 'for SENDs' },
    rulers: [master, slots],
    agents: [readAgents],
    options: perfOptions,
    create: (options) => perf(perfOptions.parse(options)),
  },
  justitia: {
    summary:
      'Justitia: paces large messages and batches of small ones with tokens, so that tail latency meets a target',
    needs: { wait: 'none', coordinator: 'own', shimmedPeer: 'for SENDs' },
    expectsTraffic: true,
    rulers: [rates, handedTokens],
    agents: [referenceFlows],
    options: justitiaOptions,
    create: (options) => justitia(justitiaOptions.parse(options)),
  },
  fair: {
    summary:
      'shares the link and the processing units among tenants, by what each needs most; small messages of tenants below their share pass at once',
    needs: { wait: 'none', coordinator: 'own', shimmedPeer: 'for SENDs' },
    rulers: [fairWindows],
    agents: [fairAgents],
    options: fairOptions,
    create: (options) => fair(fairOptions.parse(options)),
  },
  palos: {
    summary:
      'Palos: queue pairs take turns with chunks by weight, within groups that have weights; latency messages first',
    needs: { wait: 'none', coordinator: 'own', shimmedPeer: 'for SENDs' },
    expectsTraffic: true,
    rulers: [windows],
    agents: [],
    options: palosOptions,
    create: (options) => palos(palosOptions.parse(options)),
  },
  tassel: {
    summary:
      'Tassel: holds queue pairs, groups, applications and tenants to exact rates, which fall together if they exceed the link',
    needs: { wait: 'none', coordinator: 'own', shimmedPeer: 'for SENDs' },
    limitsRates: true,
    rulers: [fairWindows, tasselRates],
    agents: [],
    options: tasselOptions,
    create: (options) => tassel(tasselOptions.parse(options)),
  },
  drum: {
    summary:
      'DRUM: applications share the device by the request rates that are best for all of them together, optionally at most k at a time',
    needs: { wait: 'none', coordinator: 'own', shimmedPeer: 'for SENDs' },
    rulers: [fairWindows, drumTerms],
    agents: [drumAgents],
    options: drumOptions,
    create: (options) => drum(drumOptions.parse(options)),
  },
  'token-bucket': {
    summary:
      'a static rate for each tenant: a share of the link by weight (equal by default), or a fixed rate',
    needs: { wait: 'none', coordinator: 'own', shimmedPeer: 'for SENDs' },
    rulers: [shares],
    agents: [],
    options: tokenBucketOptions,
    create: (options) => tokenBucket(tokenBucketOptions.parse(options)),
  },
  chunk: {
    summary:
      'splits large messages into chunks, of which each queue pair has one in flight; a baseline without any order',
    needs: { wait: 'none', coordinator: 'none', shimmedPeer: 'for SENDs' },
    rulers: [],
    agents: [],
    options: chunkOptions,
    create: (options) => chunk(chunkOptions.parse(options)),
  },
  share: {
    summary:
      'SHARE: connections to one peer share queue pairs, under a lock that only simulated hosts charge; a baseline without any order',
    needs: { wait: 'none', coordinator: 'none', shimmedPeer: 'none' },
    locksNs: (options) => shareOptions.parse(options).lockNs,
    rulers: [],
    agents: [],
    options: shareOptions,
    create: (options) => share(shareOptions.parse(options)),
  },
};

/**
 * Creates the interceptor of a policy.
 * @throws ConfigError that names the available policies, or the invalid option and what it accepts
 */
export function createPolicy(name: string, options: Record<string, unknown> = {}): Interceptor {
  return createNamed('policy', policies, name, options);
}

/**
 * Creates the interceptor that `table` has under a name; `kind` names the table's entries in messages.
 * @throws ConfigError that names the available entries, or the invalid option and what it accepts
 * @throws InvalidArgumentError for a name that is not a string
 */
export function createNamed(
  kind: string,
  table: Readonly<Record<string, NamedEntry>>,
  name: string,
  options: Record<string, unknown>,
): Interceptor {
  if (typeof name !== 'string') {
    throw new InvalidArgumentError(
      `the ${kind} must be one of the names ${Object.keys(table).join(', ')}, got ${shown(name)}`,
    );
  }
  const entry = Object.hasOwn(table, name) ? table[name] : undefined;
  if (entry === undefined) {
    const [known, options] = name.split(':');
    const inCode =
      options !== undefined && Object.hasOwn(table, known)
        ? `; in code, options are an object: { name: '${known}', options: { ... } }`
        : '';
    const hint = options === undefined ? optionsHint(name) : inCode;
    const names = Object.keys(table);
    throw new ConfigError(
      `unknown ${kind} '${name}'; ${didYouMean(name, names)}available: ${names.join(', ')}${hint}`,
    );
  }
  const given = convertQuantities(name, currentOptions(name, entry.options, options));
  parseOptions(name, entry.options, given);
  return entry.create(given);
}
