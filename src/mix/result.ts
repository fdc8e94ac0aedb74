/** What a run of a mixture measured: the JSON of `isoverbs mix --json`. */
import type { PolicyState } from '../verbs/provider.ts';
import type { Kind } from './spec.ts';

/** Start of the post call to the end of the poll that returned the completion, in microseconds. */
export interface LatencyUs {
  readonly avg: number;
  readonly p50: number;
  readonly p99: number;
  readonly p999: number;
  readonly max: number;
}

/** One application, inside the part of the window in which it posts. */
export interface AppResult {
  readonly name: string;
  readonly kind: Kind;
  readonly tenant: string;
  readonly qps: number;
  /** Of a range of sizes, the mean. */
  readonly messageBytes: number;
  /** Payload that was delivered, of unfinished messages too. */
  readonly throughputGbps: number;
  readonly messageRateMmps: number;
  /** Of requests posted and completed in the window; null when there are none. With batches, of the signaled ones. */
  readonly latencyUs: LatencyUs | null;
  /** Messages completed in the window, and requests that failed in the whole run. */
  readonly completed: number;
  readonly errors: number;
}

/** One direction of a cable, after the warm-up. */
export interface LinkResult {
  /** 'host0', 'switch0.3' (a port of a switch). The way from a host to itself is inside its NIC. */
  readonly from: string;
  readonly to: string;
  /** Bytes on the wire, headers and gaps included. */
  readonly bytes: number;
  /** Share of the time in which it sent. */
  readonly utilisation: number;
  /** Packets that a switch dropped in front of it, and packets that it marked. */
  readonly drops: number;
  readonly marks: number;
  /** Times that the other end asked for a pause. */
  readonly pauses: number;
}

/** How the run went, in equal steps of time from its beginning; of each app, one number for each step. */
export interface Timeline {
  readonly stepNs: number;
  readonly apps: readonly {
    readonly name: string;
    readonly throughputGbps: readonly number[];
    readonly messageRateMmps: readonly number[];
    /** Mean over the completions of the step; null without any. */
    readonly latencyUs: readonly (number | null)[];
  }[];
}

export interface MixResult {
  readonly profile: string;
  readonly policy: string;
  readonly seed: number;
  readonly durationNs: number;
  readonly warmupNs: number;
  /** Events and packets of the simulation, the warm-up's included. */
  readonly events: number;
  readonly packets: number;
  readonly traceHash: string;
  readonly apps: readonly AppResult[];
  readonly links: readonly LinkResult[];
  /** Sentences about what does not hold of what always must; none when all is well. */
  readonly invariants: readonly string[];
  /** What the policy takes each context for that sends, and what it does about it. */
  readonly policyStates?: readonly PolicyState[];
  readonly timeline?: Timeline;
}
