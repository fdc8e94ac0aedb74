/**
 * A provider: the verbs of one kind of device (src/providers), with its clock, its connection manager and the way in
 * which two ends find each other. An interceptor wraps one (src/shim/compose.ts), and the object layer stands on one
 * (src/objects).
 */
import type { ConnectionManager } from './connection-manager.ts';
import type { NicFacts } from './nic.ts';
import type { Verbs } from './verbs.ts';

/**
 * simulated, hardware: ISO_WR_WAIT and ISO_WR_ENABLE may be posted and the device executes them.
 * emulated: a shim executes them. none: they are refused.
 */
export type WaitSupport = 'simulated' | 'hardware' | 'emulated' | 'none';

/** A reliable, ordered byte-message channel for the exchange of connection data. */
export interface Wire {
  /** Sends one message to the other side; it is copied. */
  send(message: Uint8Array): void;
  /** No more from this side; the peer's onClose is called. */
  close(): void;
  /** Called for each message of the other side. */
  onMessage: (message: Uint8Array) => void;
  /** Called once, with an error when the other side broke off or spoke nonsense. */
  onClose: (error?: Error) => void;
  readonly remoteAddress: string;
}

/** What listens for wires. */
export interface WireServer {
  readonly port: number;
  /** Takes no more callers. */
  close(): void;
}

/** How two ends find each other: TCP on real devices, in memory on simulated ones. */
export interface Rendezvous {
  /** Calls `onWire` for everyone who connects to this port (0: a free one). @throws ConnectionError */
  listen(
    context: number,
    options: { port: number; host?: string },
    onWire: (wire: Wire) => void,
  ): Promise<WireServer>;
  /** Connects to a listener. @throws ConnectionError */
  connect(context: number, options: { port: number; host?: string; timeoutMs?: number }): Promise<Wire>;
}

/**
 * program (the default): the program goes on until the sleep ends, and so does a run of simulated devices;
 * run: only that run does, as it moves time as far as there is something to come; nothing: neither of them.
 */
export type SleepKeeps = 'program' | 'run' | 'nothing';

/** What a shim around a provider counted. */
export interface ShimCounters {
  /** Requests that it took from the application. */
  seen: number;
  /** Of these, those that were cut. */
  split: number;
  /** Of these, those that did not go straight to the device. */
  held: number;
  /** WAITs that it executed in software. */
  emulated: number;
  /** Requests that it made itself; `waits` counts each 0_WAIT, `posts` are those on queue pairs of its own. */
  internal: { pieces: number; waits: number; enables: number; posts: number };
  /** Message bytes of the requests seen. Those that go straight are weighed where the policy has `statistics`. */
  bytes: number;
  /** Most requests that one send queue of the device held at a time. */
  sqHighWater: number;
  /** Completions that were nobody's but the shim's. */
  hiddenCompletions: number;
  /** Completions that the shim polled before the application did. */
  bufferedCompletions: number;
}

/** What a policy thinks of an open context. */
export interface PolicyState {
  readonly policy: string;
  readonly device: string;
  readonly tenant: string;
  /** What it takes the context for, and by what. */
  readonly kind: string;
  readonly because: string;
  /** What it does about it now, and why. */
  readonly does: string;
  readonly why: string;
}

/** The counters of one shim of several. */
export interface LayerCounters extends ShimCounters {
  /** Its name among `interceptors`. */
  name: string;
}

/**
 * What two shims tell each other of a queue pair while a connection is set up. Who makes connections carries
 * the bytes, unread, to the peer; the outermost shim that has something to agree on answers.
 */
export interface PeerVerbs {
  /** Bytes for the peer's shim, of a queue pair in INIT or later; null: nothing to agree on. */
  describePeer?(qp: number): Uint8Array | null;
  /** What the peer's shim said; null: it has none. Before anything is sent. Both count until RESET. */
  setPeer?(qp: number, description: Uint8Array | null): void;
}

/**
 * How a driver that lets requests and completions bypass a shim, while they do not concern it, tells it how many
 * they were. Running numbers are those of WC_SEQ.
 */
export interface Adopt {
  /** Sends posted, the first of them not known to be complete, and the last one that reports. */
  qp(qp: number, posted: number, freed: number, lastSignaled: number): void;
  /** Completions that the application has been given. */
  cq(cq: number, produced: number): void;
}

export interface Provider extends Verbs, PeerVerbs {
  readonly name: string;
  /** 'one': all calls must come from the isolate that made the provider. */
  readonly threads: 'any' | 'one';
  readonly wait: WaitSupport;
  /** One sentence for a person: how this device would do WAIT and ENABLE, and why not in hardware. */
  describeWait?(context: number): string;
  /** What is known of the NIC's pipeline; null or absent: nothing. */
  describeNic?(context: number): NicFacts | null;
  readonly rendezvous: Rendezvous;
  /** Null where there is none (librdmacm is not installed): `cmError` says why. */
  readonly cm: ConnectionManager | null;
  readonly cmError: string | null;
  /** Where a shim is around it. */
  readonly adopt?: Adopt;
  /** Names of the interceptors around it, outermost first. */
  readonly interceptors: readonly string[];
  /** The device's time: virtual on simulated devices, a monotonic clock on real ones. */
  nowNs(context: number): number;
  /** Resolves when `delayNs` of the device's time have gone by; `keeps` says what does not end before. */
  sleep(context: number, delayNs: number, keeps?: SleepKeeps): Promise<void>;
  /** A random whole number below a bound, for who stands on the provider; absent: they take their own. */
  random?(below: number): number;
  /** What the shims around it counted, the outermost first. */
  counters?(): readonly LayerCounters[];
  /** What the policies around it think of each open context, and why. */
  policyStates?(): readonly PolicyState[];
  /**
   * Changes options of the policies of this name around it while they run: all of these, or none.
   * @throws ConfigError for an option that is wrong or cannot change, and when there is no such policy
   */
  configurePolicy?(name: string, changes: Readonly<Record<string, unknown>>): void;
  /** Of a shim with a coordinator: one like it, around it, tells from now on what the application does with a context. */
  yieldContext?(context: number): void;
}
