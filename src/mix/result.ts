/** The result of a mix, as `isoverbs mix --json` prints it. */
import type { Resource } from '../policies/kit/cost/bottleneck.ts';
import type { Departure } from '../sim/egress/departure-log.ts';
import type { LayerCounters, PolicyGauge, PolicyState } from '../verbs/provider.ts';
import type { Kind, QueuePairName } from './spec.ts';

/** Time from the start of the post call to the end of the poll that returned the completion, in microseconds. */
export interface LatencyUs {
  readonly avg: number;
  readonly p50: number;
  /** Present only with `details`. */
  readonly p80?: number;
  readonly p99: number;
  readonly p999: number;
  readonly max: number;
}

/** One application, measured in the part of the window in which it posts. */
export interface AppResult {
  readonly name: string;
  readonly kind: Kind;
  readonly tenant: string;
  readonly qps: number;
  /** The mean, if the application has a range of sizes. */
  readonly messageBytes: number;
  /** Delivered payload, including that of unfinished messages. */
  readonly throughputGbps: number;
  readonly messageRateMmps: number;
  /** Latency of the signaled requests that were posted and completed in the window; null if there were none. */
  readonly latencyUs: LatencyUs | null;
  /** Messages completed in the window; requests that failed in the whole run. */
  readonly completed: number;
  readonly errors: number;
  /**
   * Bytes on the wire of its requests, or of the responses to its READs, headers and gaps included. Present only with
   * `details`, and unless it mixes operations or replaces its queue pairs.
   */
  readonly wireGbps?: number;
  /** The resource of the NICs of which its requests took the largest part; absent on real devices. */
  readonly dominant?: DominantResource;
  /** The figures of each queue pair, with `details`. */
  readonly queuePairs?: readonly QueuePairResult[];
}

/** A resource of a NIC, and the part of it that an application took, by the costs of its requests (policies/kit/cost). */
export interface DominantResource {
  readonly resource: Resource;
  readonly host: number;
  /** 1: all of it. Retransmissions, pieces of policies and cache misses that were not foreseen are not included. */
  readonly share: number;
}

/** One queue pair of an application. */
export type QueuePairResult = Pick<
  AppResult,
  'throughputGbps' | 'messageRateMmps' | 'latencyUs' | 'completed' | 'errors'
>;

/** One direction of a cable, after the warm-up. */
export interface LinkResult {
  /** 'host0' or 'switch0.3' (a port of a switch). A host reaches itself through the loopback in its NIC. */
  readonly from: string;
  readonly to: string;
  /** Bytes on the wire, headers and gaps included. */
  readonly bytes: number;
  /** Fraction of the time in which it was sending. */
  readonly utilisation: number;
  /** Packets that the switch dropped or marked at this port. */
  readonly drops: number;
  readonly marks: number;
  /** How often the other end asked for a pause. */
  readonly pauses: number;
}

/** Look-ups in a cache of a NIC, and how many of them missed. */
export interface CacheCounts {
  readonly lookups: number;
  readonly misses: number;
}

/** What one NIC did after the warm-up. */
export interface NicResult {
  readonly host: number;
  /** Bytes that it read from host memory, and wrote there. */
  readonly pcieReadBytes: number;
  readonly pcieWriteBytes: number;
  /** Steps of its processing units; 0 if their number is unlimited. */
  readonly unitSteps: number;
  /** Packets of requests that it received, and the time for which they occupied its receiver. */
  readonly requestPackets: number;
  readonly receiverNs: number;
  /** Atomics that it executed, and messages that took a receive. */
  readonly atomics: number;
  readonly receives: number;
  /** Contexts of queue pairs, and entries of memory regions and of their pages. */
  readonly contexts: CacheCounts;
  readonly regions: CacheCounts;
  readonly pages: CacheCounts;
}

/** The run in equal time steps from its start: one value per application and step. */
export interface Timeline {
  readonly stepNs: number;
  readonly apps: readonly {
    readonly name: string;
    readonly throughputGbps: readonly number[];
    readonly messageRateMmps: readonly number[];
    /** The mean over the step's completions; null if there were none. */
    readonly latencyUs: readonly (number | null)[];
  }[];
  /** Quantities of policies at the end of each step, if they were requested. */
  readonly gauges?: readonly GaugeLine[];
}

/** A quantity of a policy over time; null while it did not exist. */
export interface GaugeLine extends Omit<PolicyGauge, 'value'> {
  readonly values: readonly (number | null)[];
}

/** What the coordinators of hosts cost, and what they did in the whole run. */
export interface CoordinatorResult {
  readonly grantNs: number;
  readonly passNs: number;
  /** Hosts whose policies use a coordinator. */
  readonly hosts: readonly {
    readonly host: number;
    /** Decisions of rulers. */
    readonly passes: number;
    /** Time that the coordinator's core was busy. */
    readonly busyNs: number;
    /** Messages that the host's agents sent to those of other hosts. */
    readonly messages: number;
  }[];
}

/** The packets of one queue pair and of its peer, in the order in which they left; acknowledgements are not included. */
export interface QueuePairDepartures extends QueuePairName {
  readonly packets: readonly Departure[];
}

export interface MixResult {
  readonly profile: string;
  /** As `--policy` takes it, with all options that were given; a space precedes each policy of single hosts. */
  readonly policy: string;
  readonly seed: number;
  readonly durationNs: number;
  readonly warmupNs: number;
  /** Events and packets of the simulation, including the warm-up. */
  readonly events: number;
  readonly packets: number;
  readonly traceHash: string;
  readonly apps: readonly AppResult[];
  readonly links: readonly LinkResult[];
  /** By host, with `details`. */
  readonly nics?: readonly NicResult[];
  /** One sentence per broken invariant; normally empty. */
  readonly invariants: readonly string[];
  /** Present if a policy uses coordinators. */
  readonly coordinator?: CoordinatorResult;
  /** How the policy classifies each sending context, and what it does with it. */
  readonly policyStates?: readonly PolicyState[];
  readonly timeline?: Timeline;
  /** What the shims of each policy counted in the whole run, with `details`. */
  readonly counters?: readonly LayerCounters[];
  /** In the order of the specification. */
  readonly departures?: readonly QueuePairDepartures[];
}
