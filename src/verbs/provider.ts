/**
 * A provider: the verbs of one kind of device (src/providers), with its clock, its connection manager and its
 * rendezvous. An interceptor wraps one (src/shim/compose.ts), and the object layer is built on one (src/objects).
 */
import type { ConnectionManager } from './connection-manager.ts';
import type { NicFacts } from './nic.ts';
import type { Verbs } from './verbs.ts';

/**
 * How ISO_WR_WAIT and ISO_WR_ENABLE are executed: simulated and hardware mean by the device, emulated by a shim; with
 * none, posts are refused.
 */
export type WaitSupport = 'simulated' | 'hardware' | 'emulated' | 'none';

/** A reliable, ordered byte-message channel for the exchange of connection data. */
export interface Wire {
  /** Sends one message to the other side; it is copied. */
  send(message: Uint8Array): void;
  /** Ends this side; the peer's onClose is called. */
  close(): void;
  /** Called for each message of the other side. */
  onMessage: (message: Uint8Array) => void;
  /** Called once, with an error if the other side disconnected abnormally or sent an invalid message. */
  onClose: (error?: Error) => void;
  readonly remoteAddress: string;
}

/** A listener for wires. */
export interface WireServer {
  readonly port: number;
  /** Stops accepting connections. */
  close(): void;
}

/** How two ends find each other: TCP on real devices, in memory on simulated ones. */
export interface Rendezvous {
  /** Calls `onWire` for each connection to this port (0 selects a free one). @throws ConnectionError */
  listen(
    context: number,
    options: { port: number; host?: string },
    onWire: (wire: Wire) => void,
  ): Promise<WireServer>;
  /** Connects to a listener. @throws ConnectionError */
  connect(context: number, options: { port: number; host?: string; timeoutMs?: number }): Promise<Wire>;
}

/**
 * What a sleep keeps running. `program` (the default): the program, and a run of simulated devices, last until the
 * sleep ends. `run`: only such a run does, which advances time while events are pending. `nothing`: neither does.
 */
export type SleepKeeps = 'program' | 'run' | 'nothing';

/** One deadline of a shim, on a provider's clock: a sleep that is set again and again, without a promise. */
export interface Alarm {
  /** Its only element is the time for the next set(), in nanoseconds as `nowNs`; Infinity: none. */
  readonly atNs: Float64Array;
  /** Replaces the deadline. At that time or later the listener is called once; earlier deadlines may still call it. */
  set(): void;
  /** The listener is not called any more. */
  close(): void;
}

/** The counts of a shim around a provider. */
export interface ShimCounters {
  /** Requests that the shim accepted from the application. */
  seen: number;
  /** The number of these requests that were cut. */
  split: number;
  /** The number of these requests that the shim held. */
  held: number;
  /** WAITs that the shim executed in software. */
  emulated: number;
  /** Requests that the shim made; `waits` counts each 0_WAIT, `posts` counts those on internal queue pairs. */
  internal: { pieces: number; waits: number; enables: number; posts: number };
  /**
   * Message bytes of the requests seen. Requests that go straight to the device count if the policy has `statistics`.
   */
  bytes: number;
  /** The most requests that one send queue of the device held at a time. */
  sqHighWater: number;
  /** Completions of internal requests, which the application does not see. */
  hiddenCompletions: number;
  /** Completions that the shim polled before the application did. */
  bufferedCompletions: number;
  /**
   * Completions with errors, by kind: `flushed`, `local`, `remote`, `retries exceeded`, `receiver not ready`, `other`.
   * Requests that the shim itself flushed, because it held them, do not count.
   */
  failed: Record<string, number>;
  /** Times that a queue pair had to wait for a limit on requests per second. */
  limited: number;
  /**
   * Held requests that the policy would have cut, but that went whole, by reason: `not RC`, `inline`,
   * `not agreed with the peer`, `short SEND or immediate`, `no receive that fits`.
   */
  uncut: Record<string, number>;
}

/** A held request that a policy would have cut, but that goes whole. `wrIdLo`, `wrIdHi`: the halves of its wr_id. */
export interface UncutRequest {
  readonly qp: number;
  readonly wrIdLo: number;
  readonly wrIdHi: number;
  readonly bytes: number;
  readonly policy: string;
  /** As in `ShimCounters.uncut`. */
  readonly reason: string;
}

/** Called with each such request. */
export type UncutListener = (request: UncutRequest) => void;

/** The latencies of all requests sampled so far: one of each context for each call of `sampleLatency`. */
export interface SampledLatency {
  /** Their sum in nanoseconds. */
  sumNs: number;
  /** Their numbers by bucket: up to each of LATENCY_BOUNDS_NS (src/shim/counters.ts), and above the last. */
  buckets: number[];
}

/** How a policy classifies and treats an open context. */
export interface PolicyState {
  readonly policy: string;
  readonly device: string;
  readonly tenant: string;
  /** The kind of context, and the reason. */
  readonly kind: string;
  readonly because: string;
  /** What the policy does about it now, and the reason. */
  readonly does: string;
  readonly why: string;
}

/** A quantity of a policy at present, such as tokens or held requests. */
export interface PolicyGauge {
  readonly policy: string;
  readonly device: string;
  readonly tenant: string;
  /** Unique for a device and tenant. */
  readonly name: string;
  /** Such as `bytes`, `requests` or `0 or 1`. */
  readonly unit: string;
  readonly value: number;
}

/** The counters of one shim of several. */
export interface LayerCounters extends ShimCounters {
  /** The shim's name among `interceptors`. */
  name: string;
}

/** The other end of a connection, as the code that makes the connection knows it. */
export interface PeerName {
  /** Its IP address as text. */
  readonly address: string;
  /** The ports of the connection, of this end and the other, as far as they are known. */
  readonly ports: readonly number[];
}

/**
 * The messages that two shims exchange about a queue pair while its connection is set up. Code that makes connections
 * carries the bytes to the peer unread. The outermost shim that has something to negotiate answers.
 */
export interface PeerVerbs {
  /** Bytes for the peer's shim about a queue pair in INIT or later; null if there is nothing to negotiate. */
  describePeer?(qp: number): Uint8Array | null;
  /** Bytes from the peer's shim; null if the peer has no shim. Must precede all sends. Both are valid until RESET. */
  setPeer?(qp: number, description: Uint8Array | null): void;
  /** Names the peer before RTR, for interceptors that decide by address or port. */
  namePeer?(qp: number, name: PeerName): void;
}

/**
 * A driver that lets requests and completions bypass a shim uses this to report their numbers. Running numbers
 * are those of WC_SEQ.
 */
export interface Adopt {
  /** Sends posted, the first one not known to be complete, and the last signaled one. */
  qp(qp: number, posted: number, freed: number, lastSignaled: number): void;
  /** Completions delivered to the application. */
  cq(cq: number, produced: number): void;
}

/** What the shim above an emulation of WAIT knows of a queue pair of the device, by handle. */
export interface QpReport {
  readonly qp: number;
  /** Sends posted, the first one not known to be complete, and the last signaled one, as running numbers of WC_SEQ. */
  readonly posted: number;
  readonly freed: number;
  readonly lastSignaled: number;
  /** Whether a send failed, so that the device flushes all sends behind it. */
  readonly broken: boolean;
  /** Set if the queue pair left SQE: errors up to this running number are old. Null if none are outstanding. */
  readonly staleErrorsUntil: number | null;
}

/** An emulation of WAIT and ENABLE that sleeps until it is needed, and the shim directly above it. */
export interface WaitStandby {
  /** After a 0_WAIT, bytes of one queue pair that may be in flight when its next request goes. */
  readonly yieldBytes: number;
  /** `report` returns what the shim above has counted so far; it is called once, when the emulation wakes. */
  whenWoken(report: () => readonly QpReport[]): void;
}

/** The verbs of one kind of device, with its clock, connection manager and rendezvous. */
export interface Provider extends Verbs, PeerVerbs {
  readonly name: string;
  /** With 'one', all calls must come from the isolate that made the provider. */
  readonly threads: 'any' | 'one';
  readonly wait: WaitSupport;
  /** One sentence for users: how this device supports WAIT and ENABLE, and why not in hardware. */
  describeWait?(context: number): string;
  /** Known facts about the NIC's pipeline; null or absent if there are none. */
  describeNic?(context: number): NicFacts | null;
  readonly rendezvous: Rendezvous;
  /** Null without a connection manager, for example if librdmacm is not installed; `cmError` gives the reason. */
  readonly cm: ConnectionManager | null;
  readonly cmError: string | null;
  /** Present if a shim wraps the provider. */
  readonly adopt?: Adopt;
  /** Present if WAIT is emulated on demand, and the shim directly above executes the 0_WAITs of its own policy. */
  readonly standby?: WaitStandby | undefined;
  /** Names of the interceptors around the provider, outermost first. */
  readonly interceptors: readonly string[];
  /** The same with their options where these are known, in the form of ISOVERBS_POLICY. If absent, the names. */
  readonly specs?: readonly string[];
  /** The device's time: virtual on simulated devices, a monotonic clock on real ones. */
  nowNs(context: number): number;
  /** Resolves after `delayNs` of the device's time; `keeps` says what the sleep keeps running. */
  sleep(context: number, delayNs: number, keeps?: SleepKeeps): Promise<void>;
  /**
   * Creates an alarm of a context; `keeps` says what its deadline keeps running. If absent, shims use `sleep`. An
   * interceptor that replaces `nowNs` or `sleep` removes it, unless it replaces this too.
   */
  createAlarm?(context: number, keeps: SleepKeeps, listener: () => void): Alarm;
  /** A random whole number below a bound, for layers above the provider. If absent, they use their own generator. */
  random?(below: number): number;
  /** The counts of the shims around the provider, the outermost first. */
  counters?(): readonly LayerCounters[];
  /**
   * Calls a listener for each held request that the policies around the provider would have cut, but that goes whole.
   * Policies in a worker thread do not call it; their counters have the number of such requests.
   */
  watchUncut?(listener: UncutListener): void;
  /** What the outermost shim has sampled so far. Each context then samples its next signaled request. */
  sampleLatency?(): SampledLatency;
  /** How the policies around the provider classify and treat each open context. */
  policyStates?(): readonly PolicyState[];
  /** Quantities of the policies around the provider, at present. */
  policyGauges?(): readonly PolicyGauge[];
  /** The queue pairs of shims, by handle, that carry pieces of messages of a queue pair instead of it. */
  pieceQps?(qp: number): readonly number[];
  /**
   * Changes options of the running policies of this name around the provider: all of the options, or none.
   * @throws ConfigError for an option that is wrong or cannot change, and when there is no such policy
   */
  configurePolicy?(name: string, changes: Readonly<Record<string, unknown>>): void;
  /**
   * Completions for this CQ wait in a layer above, without one of the device. Present on simulated devices, whose programs
   * poll when the device has something.
   */
  completionsKept?(cq: number): void;
  /** For a shim with a coordinator: another such shim around it reports this context to the coordinator from now on. */
  yieldContext?(context: number): void;
}
