/**
 * The interface of a policy: a state machine that owns no clock, thread or socket. Its events are runs of work requests
 * and completions, timers and grants; it answers through Actions. The shim keeps the ledgers (src/shim/qp-ledger.ts).
 * Members that a policy leaves out cost nothing.
 */
import { ConfigError, shown } from '../verbs/errors.ts';
import type { PolicyGauge, PolicyState, WaitSupport } from '../verbs/provider.ts';
import type { CompletionBudget } from './limits/completion-limits.ts';
import type { ResourceRequest, Resources, ResourceView } from './resources.ts';
import type { ContextView, QpView } from './views.ts';

export type { ContextView, QpView } from './views.ts';

/**
 * What happened to a queue pair. state: the application modified it, or it failed (`broken`). labels: they changed. rate:
 * the application has set `rateLimitKbps`, which only a policy that `limitsRates` learns.
 */
export type QpChange = 'created' | 'state' | 'labels' | 'rate' | 'destroyed';

/** The requirements of a policy on the layers below it. */
export interface PolicyNeeds {
  /** Whether the policy requires WAIT and ENABLE; 'preferred' accepts an emulation. */
  readonly wait: 'none' | 'preferred' | 'required';
  /** Whether the policy requires a coordinator. */
  readonly coordinator?: boolean;
}

/** A state machine between an application and a device: events in, actions out (docs/policies.md). */
export interface Policy {
  readonly name: string;
  readonly needs: PolicyNeeds;
  /** The most internal requests that it keeps on one queue pair in addition to the application's own. */
  readonly slots: number;
  /**
   * Messages longer than this that take a receive at the peer (SENDs, immediates) may be cut, if the peer has a shim
   * that accepts pieces. Absent: they always go whole.
   */
  readonly splitsAboveBytes?: number;
  /**
   * The most reliable connections of one protection domain to one peer that may share a queue pair, once the device has
   * more queue pairs than its cache has room for (sharing/sharing.ts). Absent: none do.
   */
  readonly mostShared?: number;
  /** Whether they share even if the device's cache has room, and always in groups of `mostShared`. */
  readonly sharesAlways?: boolean;
  /**
   * Whether counters also count the bytes of requests that bypass the shim, which costs a few nanoseconds each. 'itself':
   * `onload` adds the bytes of the requests that it passes to `QpView.counts`.
   */
  readonly statistics?: boolean | 'itself';
  /**
   * The queue pairs whose completions `onCompleted` reports: all of them, which is the default, or those that have held a
   * request. With 'held', the others cost no more than without `onCompleted`.
   */
  readonly completionsOf?: 'all' | 'held';
  /**
   * Whether the policy holds queue pairs to the rates that applications set (ibv_modify_qp_rate_limit(3), and
   * IBV_QP_RATE_LIMIT of ibv_modify_qp(3)). They then do not reach the device, which need not have limiters.
   */
  readonly limitsRates?: boolean;
  /** Whether the policy limits the rate at which applications receive completions (`limitCompletions`). */
  readonly limitsCompletions?: boolean;
  /** A context was opened: declares the queue pairs that the policy needs there for itself. */
  setup?(resources: Resources, out: Actions): void;
  /**
   * Whether the application may create one more queue pair of this type (IBV_QPT_*). If not, createQp throws
   * NoResourcesError.
   */
  admitQp?(context: ContextView, type: number): boolean;
  /**
   * Called for each post, before `onload`: returns how many of the requests start .. start + count - 1 of `words`
   * (layout.ts) the queue pair may take. The rest are refused, as by a full queue, with REASON_LIMIT.
   */
  admit?(qp: QpView, words: Uint32Array, start: number, count: number, out: Actions): number;
  /**
   * Requests start .. start + count - 1 of `words` (layout.ts) are being posted, while none of this queue pair is held.
   * Returns how many go straight to the device. The shim holds the others, and all later ones until the backlog is
   * empty, for `feed`. Must not issue anything; `passPlain` saves later calls. Without `out`, the call is in another
   * thread than the policy's (gate.ts).
   */
  onload(qp: QpView, words: Uint32Array, start: number, count: number, out?: Actions): number;
  /**
   * Whether the policy executes WAIT (for completions) and ENABLE, so that the device need not support them. The policy
   * then manages managed queue pairs, too; `onload` must let neither opcode pass, and `feed` calls `execute` for them.
   */
  readonly crossChannel?: boolean;
  /** Whether the policy executes 0_WAITs, so that the device need not support them. `onload` must let none pass. */
  readonly zeroWaits?: boolean;
  /** Called while the queue pair has a backlog: after a post, and after its completions arrived. */
  feed(qp: QpView, out: Actions): void;
  /**
   * `count` completions of its send queue arrived in one poll, including those of internal requests. Called before
   * `feed`.
   */
  onCompleted?(qp: QpView, count: number, out: Actions): void;
  /** The application receives the first completions of a budget since its `handed` was set to 0. */
  onHandedOver?(context: ContextView, out: Actions): void;
  /** A queue pair changed. Once it is destroyed, only `index`, `handle` and `counts` are valid, and actions have no effect. */
  onQp?(qp: QpView, change: QpChange, out: Actions): void;
  /**
   * The weight of a group among the groups of the context's tenant on its device has changed: 1 at first, and again when
   * no context has the group. Reported once per tenant, whichever of its contexts has set it. The context may have just
   * been opened or closed; its queue pairs in the group are not walked.
   */
  onGroup?(context: ContextView, name: string, weight: number, out: Actions): void;
  /**
   * The weight of the context's tenant has changed. A policy without it gets onQp(..., 'labels') for each queue pair of
   * the context instead.
   */
  onWeight?(context: ContextView, out: Actions): void;
  /** A `timer` has expired, possibly some time ago. */
  onTimer?(token: number, out: Actions): void;
  /** Grants of this context have changed on which the policy must act at once. It reads them from its page. */
  onGrants?(context: ContextView, out: Actions): void;
  /** An internal request with a token has ended, with this IBV_WC_* status. */
  onInternal?(token: number, status: number, out: Actions): void;
  /**
   * Changes options while the policy runs, from the next piece or request on: all of these, or none. May feed.
   * @throws ConfigError for an option that is wrong or cannot change
   */
  configure?(changes: Readonly<Record<string, unknown>>, out: Actions): void;
  /** How the policy classifies and treats each open context, for people. */
  inspect?(): readonly Omit<PolicyState, 'policy'>[];
  /** Its quantities at present, to be drawn over time. Must neither act nor change anything. */
  gauges?(out: Actions): readonly Omit<PolicyGauge, 'policy'>[];
}

/** The token of an internal request whose end the policy does not need to know. */
export const NO_TOKEN = -1;

/**
 * The actions of a policy in an event. Everything issued for one queue pair in one event reaches the device as one
 * batch, if the policy handles each queue pair once. Requests of a queue pair keep their order, so actions name no
 * request: all apply to the oldest held one. Every event may act on every queue pair.
 */
export interface Actions {
  /** How the layers below this shim support WAIT and ENABLE. */
  readonly wait: WaitSupport;
  /** Slots that can be issued now, at least 0. At the limits of a device, this is at most 1, which a policy must handle. */
  room(qp: QpView): number;
  /** Slots that were issued and are not known to be complete. */
  inflight(qp: QpView): number;
  /** Requests of the application that were posted and not yet polled, held ones included. */
  outstanding(qp: QpView): number;
  /** Message bytes that were issued and are not known to be complete. */
  inflightBytes(qp: QpView): number;
  /**
   * Number of held requests that may be issued, including a partly issued one. In a managed queue pair, only enabled
   * requests count. While the peer is being asked about the oldest request, or nothing is left of it but pieces on twins,
   * the number is 0.
   */
  backlog(qp: QpView): number;
  /** IBV_WR_* of the oldest held request. */
  nextOpcode(qp: QpView): number;
  /** Bytes of the oldest held request that are not issued yet; -1 when `backlog` is 0. */
  nextBytes(qp: QpView): number;
  /**
   * From now on, posts that consist of plain requests (plain-requests.ts) shorter than `below` bytes, a power of two up
   * to 2^21, go straight to the device without `onload`; their bytes are counted. Ends with 0, and when a request is
   * held. With `most`, at most that many requests do, and only those of this opcode (IBV_WR_*).
   */
  passPlain(qp: QpView, below: number, most?: number, opcode?: number): void;
  /** With `completionsOf` 'held', onCompleted reports this queue pair although it has never held a request. */
  watchCompletions(qp: QpView, isWatched: boolean): void;
  /** A word of the oldest held request (layout.ts). */
  nextWord(qp: QpView, word: number): number;
  /**
   * Whether the oldest held request may be cut without the application or its peer noticing. Ask only about a request
   * that the policy would cut: if it then goes whole, the shim counts it as `uncut` (ShimCounters).
   */
  splittable(qp: QpView): boolean;
  /** Issues the rest of the oldest held request in one piece. */
  pass(qp: QpView): void;
  /** Issues the next `bytes` of the oldest held request, or what is left of it. */
  piece(qp: QpView, bytes: number): void;
  /** Issues up to `max` pieces of `bytes` of the oldest held request, each followed by `waits` 0_WAITs; returns how many. */
  pieces(qp: QpView, bytes: number, max: number, waits: number): number;
  /** Issues `count` 0_WAITs in one slot: the queue pair gives up this many of its turns. */
  zeroWaits(qp: QpView, count: number): void;
  /**
   * For UD, which has no WAITs: issues `count` empty datagrams, of one slot each, to a sink (Resources.sink), so that
   * the queue pair gives up this many of its turns. `token` goes to onInternal when the last of them has ended.
   */
  zeroSends(qp: QpView, sink: ResourceView, count: number, token?: number): void;
  /**
   * Lets the device limit the rate of a queue pair in RTS, in units of 1000 bit/s; 0: no limit. Returns false if the device
   * refuses.
   */
  limitRate(qp: QpView, kbps: number): boolean;
  /** The next request issued for this queue pair, or the last one of this event, reports its completion. */
  signalNow(qp: QpView): void;
  /**
   * Issues a WAIT until `cq` (of the application or of a resource) has `count` more completions than the last WAIT on
   * it asked for. `token` goes to onInternal when the WAIT has ended.
   */
  waitFor(qp: QpView, cq: number, count: number, token?: number): void;
  /** Issues an ENABLE: `count` more requests of a managed queue pair (`target`, a handle) may go; 0 for all. */
  enable(qp: QpView, target: number, count: number, token?: number): void;
  /**
   * Ends the oldest held request without the device. With IBV_WC_SUCCESS it completes, if it is signaled, with `bytes`
   * as byte_len; with another status it fails, and the queue pair with it. Returns false, without any effect, while
   * earlier requests are in flight whose completions must come first: try again when they have completed.
   */
  deliver(qp: QpView, status: number, bytes: number): boolean;
  /**
   * Fails the oldest held request with IBV_WC_GENERAL_ERR, and the queue pair with it. Returns the same as `deliver`.
   */
  refuse(qp: QpView): boolean;
  /**
   * As `piece`, but on a twin in the same protection domain, and at most to the end of the scatter-gather element.
   * Pieces of one request may be in flight on several twins and on the queue pair itself, and the shim ends the request
   * when all have arrived. Until then `backlog` is 0 once nothing is left to issue. Returns the number of bytes, or 0 if
   * the twin has no room or is not connected, the request may not be cut, or an earlier request is not known to be
   * complete. `feed` follows when a piece has ended. If one fails, the request begins again, without the twin, which has
   * failed. `inflight` does not count these pieces.
   */
  pieceOn(qp: QpView, twin: ResourceView, bytes: number, token?: number): number;
  /** Posts a request on a resource. Returns false if it has no room. */
  post(resource: ResourceView, request: ResourceRequest): boolean;
  /** Posts a receive into `bytes` at `offsetBytes` of the resource's buffer. Returns false if it has no room. */
  receive(resource: ResourceView, offsetBytes: number, bytes: number, token: number): boolean;
  /** The device's time in nanoseconds (float64). */
  nowNs(context: ContextView): number;
  /**
   * Calls onTimer(token) at `atNs`. A token has one time: setting it again moves it, Infinity removes it. Timers do not
   * keep the program alive. A run of simulated devices waits for them only while a queue pair in RTS holds requests, or
   * has an internal request with a token in flight. A timer that `mayBeLate` by some calls, in a program that only
   * polls, adds no cost to the program's calls, and no run waits for it.
   */
  timer(context: ContextView, atNs: number, token: number, mayBeLate?: boolean): void;
  /**
   * From now on, the application receives the completions of this context as its budget permits; other contexts may have
   * the same budget. To be called again when the rate of the budget has changed. Only with `limitsCompletions`.
   */
  limitCompletions(context: ContextView, budget: CompletionBudget): void;
  /** Whether the oldest held request is a WAIT for completions or an ENABLE. */
  isCrossChannel(qp: QpView): boolean;
  /**
   * Executes that WAIT or ENABLE, and ends it. Returns false if it cannot be executed yet (`feed` is called again when
   * it may be) or failed.
   */
  execute(qp: QpView): boolean;
  /**
   * Issues the oldest held request, a 0_WAIT, as RDMA_WRITEs without data (RC and UC). False: the queue had no room for
   * all of them yet.
   */
  zeroWrites(qp: QpView): boolean;
}

const WAIT_NEEDS = ['none', 'preferred', 'required'];
/** More would leave devices no room for the application's own requests. */
const MOST_SLOTS = 4096;

/** Checks the required members of a policy, which may come from plain JavaScript. Returns the policy. @throws ConfigError */
export function requirePolicy(policy: Policy): Policy {
  const { name, needs, slots, onload, feed } = policy;
  const must = (what: string, got: unknown) =>
    new ConfigError(`policy ${shown(name)}: ${what}, got ${shown(got)}`);
  if (typeof name !== 'string' || name === '') throw must("'name' must be a non-empty string", name);
  const wait = (needs as PolicyNeeds | undefined)?.wait;
  if (!WAIT_NEEDS.includes(wait as string)) {
    throw must(`'needs.wait' must be one of ${WAIT_NEEDS.join(', ')}`, wait);
  }
  if (!(Number.isInteger(slots) && slots >= 0 && slots <= MOST_SLOTS)) {
    throw must(`'slots' must be an integer from 0 to ${MOST_SLOTS}`, slots);
  }
  if (typeof onload !== 'function') throw must("'onload' must be a function", onload);
  if (typeof feed !== 'function') throw must("'feed' must be a function", feed);
  return policy;
}
