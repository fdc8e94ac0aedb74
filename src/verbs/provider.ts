/**
 * A provider: the verbs of one kind of device (src/providers), with its clock, its connection manager and its rendezvous. An interceptor wraps one (src/shim/compose.ts), and the object layer stands on one
 * (src/objects).
 */
import type { ConnectionManager } from './connection-manager.ts';
import type { NicFacts } from './nic.ts';
import type { Verbs } from './verbs.ts';

/**
 * simulated, hardware: ISO_WR_WAIT and ISO_WR_ENABLE may be posted and the device executes them.
 * emulated: a shim executes them. none: posts are refused.
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
  /** Called once, with an error if the other side broke off or sent an invalid message. */
  onClose: (error?: Error) => void;
  readonly remoteAddress: string;
}

/** A listener for wires. */
export interface WireServer {
  readonly port: number;
  /** Accepts no more connections. */
  close(): void;
}

/** How two ends find each other: TCP on real devices, in memory on simulated ones. */
export interface Rendezvous {
  /** Calls `onWire` for each connection to this port (0: a free one). @throws ConnectionError */
  listen(
    context: number,
    options: { port: number; host?: string },
    onWire: (wire: Wire) => void,
  ): Promise<WireServer>;
  /** Connects to a listener. @throws ConnectionError */
  connect(context: number, options: { port: number; host?: string; timeoutMs?: number }): Promise<Wire>;
}

/**
 * What a sleep keeps going. program (the default): the program and a run of simulated devices last until the sleep ends.
 * run: only such a run does, which advances time while events are to come. nothing: neither.
 */
export type SleepKeeps = 'program' | 'run' | 'nothing';

/** What a shim around a provider counted. */
export interface ShimCounters {
  /** Requests that it took from the application. */
  seen: number;
  /** Of these, those that were cut. */
  split: number;
  /** Of these, those that the shim held. */
  held: number;
  /** WAITs that it executed in software. */
  emulated: number;
  /** Requests that it made itself; `waits` counts each 0_WAIT, `posts` are those on queue pairs of its own. */
  internal: { pieces: number; waits: number; enables: number; posts: number };
  /** Message bytes of the requests seen. Requests that go straight count if the policy has `statistics`. */
  bytes: number;
  /** Most requests that one send queue of the device held at a time. */
  sqHighWater: number;
  /** Completions of internal requests, which the application does not see. */
  hiddenCompletions: number;
  /** Completions that the shim polled before the application did. */
  bufferedCompletions: number;
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

/** The counters of one shim of several. */
export interface LayerCounters extends ShimCounters {
  /** Its name among `interceptors`. */
  name: string;
}

/**
 * The messages of two shims about a queue pair while its connection is set up. Code that makes connections carries the
 * bytes to the peer unread; the outermost shim with something to agree on answers.
 */
export interface PeerVerbs {
  /** Bytes for the peer's shim, of a queue pair in INIT or later; null: nothing to agree on. */
  describePeer?(qp: number): Uint8Array | null;
  /** Bytes of the peer's shim; null: it has none. Must precede all sends. Both are valid until RESET. */
  setPeer?(qp: number, description: Uint8Array | null): void;
}

/**
 * Through this, a driver that lets requests and completions bypass a shim reports how many they were. Running numbers
 * are those of WC_SEQ.
 */
export interface Adopt {
  /** Sends posted, the first one not known to be complete, and the last signaled one. */
  qp(qp: number, posted: number, freed: number, lastSignaled: number): void;
  /** Completions delivered to the application. */
  cq(cq: number, produced: number): void;
}

/** The verbs of one kind of device, with its clock, connection manager and rendezvous. */
export interface Provider extends Verbs, PeerVerbs {
  readonly name: string;
  /** 'one': all calls must come from the isolate that made the provider. */
  readonly threads: 'any' | 'one';
  readonly wait: WaitSupport;
  /** One sentence for people: how this device supports WAIT and ENABLE, and why not in hardware. */
  describeWait?(context: number): string;
  /** What is known of the NIC's pipeline; null or absent: nothing. */
  describeNic?(context: number): NicFacts | null;
  readonly rendezvous: Rendezvous;
  /** Null without a connection manager (librdmacm is not installed): `cmError` says why. */
  readonly cm: ConnectionManager | null;
  readonly cmError: string | null;
  /** Present if a shim is around it. */
  readonly adopt?: Adopt;
  /** Names of the interceptors around it, outermost first. */
  readonly interceptors: readonly string[];
  /** The device's time: virtual on simulated devices, a monotonic clock on real ones. */
  nowNs(context: number): number;
  /** Resolves after `delayNs` of the device's time; `keeps` says what the sleep keeps going. */
  sleep(context: number, delayNs: number, keeps?: SleepKeeps): Promise<void>;
  /** A random whole number below a bound, for layers above the provider; absent: they have their own. */
  random?(below: number): number;
  /** What the shims around it counted, the outermost first. */
  counters?(): readonly LayerCounters[];
  /** How the policies around it classify and treat each open context. */
  policyStates?(): readonly PolicyState[];
  /**
   * Changes options of the policies of this name around it while they run: all of these, or none.
   * @throws ConfigError for an option that is wrong or cannot change, and when there is no such policy
   */
  configurePolicy?(name: string, changes: Readonly<Record<string, unknown>>): void;
  /** Of a shim with a coordinator: another such shim around it reports this context to the coordinator from now on. */
  yieldContext?(context: number): void;
}
