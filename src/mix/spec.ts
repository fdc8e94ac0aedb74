/** The specification of a mix, as `isoverbs mix` takes it. resolve.ts checks it and fills in the defaults. */

import type { DriverName } from '../drivers/index.ts';
import type { TopologyName } from '../sim/network/topology.ts';
import type { ShimCosts } from '../sim/profile/params.ts';
import type { Labels, TrafficName } from '../verbs/labels.ts';
import type { Operation, OpMix } from './operations.ts';
import type { SizeDistribution } from './sizes.ts';

/** Bandwidth, message rate and delay: the kinds of application of PeRF, section 5.1. */
export type Kind = 'B' | 'M' | 'D';
export type Transport = 'rc' | 'uc' | 'ud';
/** `auto`: as in perftest, an application of kind D sends its message inline if it fits. */
export type Inline = 'auto' | 'yes' | 'no';
/** The order in which an application uses its buffers. */
export type Access = 'turn' | 'random';
/** One value, or the first and the last of several. */
export type OneOrRange = number | readonly [first: number, last: number];

/** How long an application posts, and how long it then pauses. */
export interface Burst {
  readonly burstNs: number;
  readonly pauseNs: number;
}

/** One application, or `count` equal ones. The kind determines the defaults. */
export interface AppSpec {
  kind: Kind;
  /** Default: the kind, with a number if that name is taken. Copies are name.0, name.1 ... */
  name?: string;
  /**
   * One operation, or several that are posted at random by their shares. `cas` is an atomic that compares and swaps;
   * `register` posts nothing, but replaces memory regions without pause. Default write.
   */
  op?: Operation | 'cas' | 'register' | OpMix;
  /** Bytes of a message; in a range every size is equally likely. Default 1 MiB for B, 16 for M and D; atomics have 8. */
  sizeBytes?: OneOrRange | SizeDistribution;
  /** The peer answers each message with a SEND of this size; latency is that of the answer. Only with op send. */
  replyBytes?: number;
  /**
   * Memory regions that each of its contexts registers at each end, bytes of a region, and buffers in a region, each for one
   * message. Requests use all buffers. Default: one region, in which each queue pair has one buffer.
   */
  regions?: number;
  regionBytes?: number;
  buffers?: number;
  /** Default turn. Only with regions, regionBytes or buffers. */
  access?: Access;
  /** Protection domains of `register`: one for each context, or one for each region. Default one. */
  pds?: 'one' | 'each';
  /** Receives that the peer keeps posted; 0: it posts none. Only with SENDs. Default twice the depth, at least 64. */
  receives?: number;
  /** Code of the peer's min_rnr_timer, 0 (655.36 ms, the longest) to 31. Default 1 (10 us, the shortest). */
  rnrTimer?: number;
  /** Queue pairs per copy. Default 1. */
  qps?: number;
  /** Contexts of its tenant from which its queue pairs are created in turn. Default 1. */
  contexts?: number;
  /**
   * Time after which a queue pair, or a context with its queue pairs, is destroyed and created anew: it posts nothing more,
   * and once nothing is outstanding, its successor takes over. Default: the whole run. Only one of the two, not with SENDs.
   */
  qpLifeNs?: number;
  contextLifeNs?: number;
  /** Number of copies. Default: one, without a number in its name. */
  count?: number;
  /** The most requests outstanding on a queue pair. Default 4 for B, 128 for M, 1 for D. */
  depth?: number;
  /** Requests posted at once, of which the last is signaled. Default 32 for M, otherwise 1. */
  batch?: number;
  /** Mean of the exponentially distributed pause between a completion and the next post. Default 0: none. */
  thinkNs?: number;
  /** It posts for the first time, then posts nothing for the second, and so on from its start. Default: always. */
  burst?: Burst;
  /**
   * Its host, and the host of its peers. Copies take the hosts of a range in turn. Default 0, and the first other host.
   */
  host?: OneOrRange;
  to?: OneOrRange;
  /** The tenant it belongs to. Default: its own name. */
  tenant?: string;
  /**
   * Labels for policies: the group of its queue pairs, the weight of that group among those of the tenant and the weight
   * of the tenant (each the highest of its applications), the weight of each queue pair, and the kind of traffic that it
   * declares. Defaults none, 1, 1, 1, undeclared.
   */
  group?: string;
  groupWeight?: number;
  weight?: number;
  qpWeight?: number;
  traffic?: TrafficName;
  /** Service level: 0 is the highest class. Default 0. */
  class?: number;
  /** Rate limit of each queue pair. Default 0: none. */
  rateGbps?: number;
  /** The times at which it starts and stops posting. Default: the whole run. */
  startNs?: number;
  stopNs?: number;
  /** Cores that post and poll for it. Default: one per queue pair. */
  cores?: number;
  /** Default rc. */
  transport?: Transport;
  /** Default auto. */
  inline?: Inline;
}

/** A policy and its options. */
export interface PolicyUse {
  readonly policy: string;
  readonly policyOptions: Readonly<Record<string, unknown>>;
}

/** The policies that replace the mix's on some hosts, outermost first; bare if empty. */
export interface HostPolicies {
  readonly hosts: OneOrRange;
  readonly stack: readonly PolicyUse[];
}

/** Something that happens during a run. An application's name stands for all its copies. */
export type ScriptAction =
  /** Sets the rate limit of each queue pair (0: none), the weight of its group, or labels. */
  | { readonly kind: 'set'; readonly app: string; readonly rateGbps: number }
  | { readonly kind: 'set'; readonly app: string; readonly groupWeight: number }
  | { readonly kind: 'set'; readonly app: string; readonly labels: Partial<Labels> }
  /** The application stops posting, waits for what is outstanding, and closes its queue pairs. */
  | { readonly kind: 'close'; readonly app: string }
  /** The tenant's processes end without a word, on all hosts. */
  | { readonly kind: 'kill'; readonly tenant: string }
  /** No core of the host runs anything for this time. */
  | { readonly kind: 'stall'; readonly host: number; readonly stallNs: number }
  | SwitchAction;

/**
 * The coordinator of the host (default: of every host) decides nothing from now on, or decides again; or its agents are
 * out of order, or continue.
 */
export interface SwitchAction {
  readonly kind: 'coordinator' | 'agent';
  readonly host?: number;
  readonly isUp: boolean;
}

/** One action of a script, and when it happens. */
export interface ScriptStep {
  readonly atNs: number;
  readonly action: ScriptAction;
}

/** A queue pair of an application, by its number from 0. */
export interface QueuePairName {
  readonly app: string;
  readonly queuePair: number;
}

/** A run of a mix. */
export interface MixSpec {
  /** A name of PROFILES, and the parameters that differ from it or from COORDINATOR_COSTS. */
  profile: string;
  set: Readonly<Record<string, unknown>>;
  /** A built-in policy, the path of a policy module, or `none`. */
  policy: string;
  policyOptions?: Readonly<Record<string, unknown>>;
  /** Policies between this one and the device, outermost first. Default none. */
  inner?: readonly PolicyUse[];
  /** Hosts with their own policies. A host may be named only once. */
  onHosts?: readonly HostPolicies[];
  /** Whether the policy's steps run on the application's core (inline) or on a separate core. Default inline. */
  driver?: DriverName;
  /** Cost of these steps. Default SHIM_COSTS. */
  shim?: Readonly<Partial<ShimCosts>>;
  /** Virtual time of the whole run, and of the warm-up at its start, which is not measured. */
  durationNs: number;
  warmupNs: number;
  seed: number;
  hosts: number;
  /** How the hosts are connected. Default: one cable, or one switch for more than two. */
  topology?: TopologyName;
  /** Whether payload bytes are moved. The result is the same either way. Default true. */
  payload?: boolean;
  /** Whether the result has percentile 80, bytes on the wire, and each queue pair's figures. Default false. */
  details?: boolean;
  /** Queue pairs whose packets are recorded. Default none. */
  departures?: readonly QueuePairName[];
  /** Whether the timeline has the gauges of policies. Default false. */
  gauges?: boolean;
  /** Points of `timeline`. Default 0: not recorded. */
  timelinePoints?: number;
  /** What happens during the run. Steps of one time happen in this order. */
  script?: readonly ScriptStep[];
  apps: readonly AppSpec[];
}

/** Points of a timeline on the command line. */
export const TIMELINE_POINTS = 200;

/** Defaults of the command line. */
export const DEFAULTS: Readonly<Omit<MixSpec, 'apps'>> = Object.freeze({
  profile: 'cx6-100g',
  set: Object.freeze({}),
  policy: 'none',
  durationNs: 20e6,
  warmupNs: 2e6,
  seed: 1,
  hosts: 2,
});
