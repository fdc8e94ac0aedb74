/** What `isoverbs mix` runs: a mixture of applications, as it is written. Checked and completed in resolve.ts. */

import type { DriverName } from '../drivers/index.ts';
import type { TopologyName } from '../sim/network/topology.ts';
import type { ShimCosts } from '../sim/profile/params.ts';

/** Bandwidth, message rate and delay: the applications of PeRF, section 5.1. */
export type Kind = 'B' | 'M' | 'D';
export type Operation = 'write' | 'send' | 'read' | 'atomic';
export type Transport = 'rc' | 'uc' | 'ud';
/** `auto`: as perftest has it, what measures latency sends its message inline if it fits. */
export type Inline = 'auto' | 'yes' | 'no';
/** One value, or the first and the last of several. */
export type OneOrRange = number | readonly [first: number, last: number];

/** One application, or `count` equal ones. What is not said has the default of its kind. */
export interface AppSpec {
  kind: Kind;
  /** Default: the kind, and a number where others have that name. Copies are name.0, name.1 ... */
  name?: string;
  /** Default write. */
  op?: Operation;
  /** Bytes of a message; of a range, every size in it is equally likely. Default 1 MiB for B, 16 for M and D; atomics have 8. */
  sizeBytes?: OneOrRange;
  /** Queue pairs of each. Default 1. */
  qps?: number;
  /** Copies. Default: one, without a number in its name. */
  count?: number;
  /** Requests that a queue pair has outstanding at most. Default 4 for B, 128 for M, 1 for D. */
  depth?: number;
  /** Requests that are posted at once, the last of them signaled. Default 32 for M, else 1. */
  batch?: number;
  /** Mean of the exponential pause between a completion and the next post. Default 0: none. */
  thinkNs?: number;
  /** Where it runs, and where its peers are. Copies take the hosts of a range in turn. Default 0, and the first other one. */
  host?: OneOrRange;
  to?: OneOrRange;
  /** Whose it is. Default: its own name. */
  tenant?: string;
  /** For policies: a group of tenants, and weights of the tenant and of each of its queue pairs. Defaults none, 1, 1. */
  group?: string;
  weight?: number;
  qpWeight?: number;
  /** Service level: 0 is the highest class. Default 0. */
  class?: number;
  /** Rate limit of each queue pair. Default 0: none. */
  rateGbps?: number;
  /** From when, and until when, it posts. Default: from the beginning to the end. */
  startNs?: number;
  stopNs?: number;
  /** Cores that post and poll for it. Default one for each queue pair. */
  cores?: number;
  /** Default rc. */
  transport?: Transport;
  /** Default auto. */
  inline?: Inline;
}

/** A run of a mixture. */
export interface MixSpec {
  /** A name of PROFILES, and what is different from it. */
  profile: string;
  set: Readonly<Record<string, unknown>>;
  /** A name of the built-in policies, or `none`. */
  policy: string;
  policyOptions?: Readonly<Record<string, unknown>>;
  /** Whose core the policy's own steps are charged to: the application's, or one of its own. Default inline. */
  driver?: DriverName;
  /** What they cost. Default SHIM_COSTS. */
  shim?: Readonly<Partial<ShimCosts>>;
  /** Virtual time of the whole run; of it, the beginning that does not count. */
  durationNs: number;
  warmupNs: number;
  seed: number;
  hosts: number;
  /** What is between them. Default: one cable, or one switch for more than two. */
  topology?: TopologyName;
  /** Whether payload bytes are moved; the result is the same without. Default true. */
  payload?: boolean;
  /** Points of `timeline`; default 0: it is not recorded. */
  timelinePoints?: number;
  apps: readonly AppSpec[];
}

/** What the command line has when nothing is said. */
export const DEFAULTS: Readonly<Omit<MixSpec, 'apps'>> = Object.freeze({
  profile: 'cx6-100g',
  set: Object.freeze({}),
  policy: 'none',
  durationNs: 20e6,
  warmupNs: 2e6,
  seed: 1,
  hosts: 2,
});
