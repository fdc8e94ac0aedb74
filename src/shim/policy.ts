/**
 * What a policy is: a state machine that owns no clock, thread or socket. It sees runs of work requests and
 * completions, timers and grants, and answers through Actions; the shim keeps every book (src/shim/qp-ledger.ts).
 * What a policy does not define costs nothing.
 */
import type { PolicyState, WaitSupport } from '../verbs/provider.ts';
import type { Grant } from './coordinator-port.ts';
import type { ResourceRequest, Resources, ResourceView } from './resources.ts';
import type { ContextView, QpView } from './views.ts';

export type { ContextView, QpView } from './views.ts';

/** state: modified by the application, or failed (`broken`). */
export type QpChange = 'created' | 'state' | 'destroyed';

/** What a policy cannot do without. */
export interface PolicyNeeds {
  /** Whether WAIT and ENABLE must be there: 'preferred' takes an emulation. */
  readonly wait: 'none' | 'preferred' | 'required';
  /** Whether it can do nothing without a coordinator. */
  readonly coordinator?: boolean;
}

/** A state machine between an application and a device: events in, actions out (docs/policies.md). */
export interface Policy {
  readonly name: string;
  readonly needs: PolicyNeeds;
  /** Most internal requests that it keeps on one queue pair beside the application's own. */
  readonly slots: number;
  /**
   * Messages that take a receive at the peer (SEND, immediates) and are longer than this may be cut when the
   * peer has a shim that takes pieces. Absent: they always go whole.
   */
  readonly splitsAboveBytes?: number;
  /**
   * Whether the counters of queue pairs weigh the requests that go straight, too; a few nanoseconds each. 'itself':
   * `onload` adds the bytes of what it lets pass to `QpView.counts`, since it looks at them anyway.
   */
  readonly statistics?: boolean | 'itself';
  /** A context was opened: declares what the policy needs there for itself. */
  setup?(resources: Resources, out: Actions): void;
  /**
   * Whether the application may have one more queue pair of this type (IBV_QPT_*); if not, createQp throws
   * NoResourcesError.
   */
  admitQp?(context: ContextView, type: number): boolean;
  /**
   * How many of the requests start .. start + count - 1 of `words` (layout.ts) the queue pair may take. The
   * rest are refused, as by a full queue, with REASON_LIMIT. Asked for each post, before `onload`.
   */
  admit?(qp: QpView, words: Uint32Array, start: number, count: number, out: Actions): number;
  /**
   * Requests start .. start + count - 1 of `words` (layout.ts) are being posted, and nothing of this queue
   * pair is held. Returns how many go straight to the device; the first of the rest, and all that follow it
   * on this queue pair until the backlog is empty, are held for `feed`. Issue nothing here; `passPlain` spares later
   * calls. Without `out` it is asked in another thread than the policy's (gate.ts).
   */
  onload(qp: QpView, words: Uint32Array, start: number, count: number, out?: Actions): number;
  /**
   * Whether WAIT (for completions) and ENABLE are executed here, so that the device need not know them; queue pairs
   * are managed here then, too. `onload` lets neither pass, and `feed` calls `execute` for them.
   */
  readonly crossChannel?: boolean;
  /** Whether the policy takes care of 0_WAITs, so that the device need not know them. `onload` lets none pass. */
  readonly zeroWaits?: boolean;
  /** Called while the queue pair has a backlog: after a post and after its completions arrived. */
  feed(qp: QpView, out: Actions): void;
  /** `count` completions of its send queue arrived in one poll, the shim's own among them. Before `feed`. */
  onCompleted?(qp: QpView, count: number, out: Actions): void;
  /** Destroyed: only `index` and `handle` mean anything, and actions do nothing. */
  onQp?(qp: QpView, change: QpChange, out: Actions): void;
  /** The time that a `timer` was set for has come; it may be later than that. */
  onTimer?(token: number, out: Actions): void;
  /** The coordinator of this context has spoken. */
  onGrant?(context: ContextView, grant: Grant, out: Actions): void;
  /** An internal request that had a token is over: IBV_WC_* status. */
  onInternal?(token: number, status: number, out: Actions): void;
  /**
   * Changes options while it runs, from the next piece or request on: all of these, or none. It may feed.
   * @throws ConfigError
   */
  configure?(changes: Readonly<Record<string, unknown>>, out: Actions): void;
  /** What it thinks of each open context, for people. */
  inspect?(): readonly Omit<PolicyState, 'policy'>[];
}

/** For internal requests whose end the policy does not want to hear of. */
export const NO_TOKEN = -1;

/**
 * Everything issued for one queue pair in one step reaches the device as one batch, if the policy turns to each
 * queue pair once. The order within a queue pair is fixed, so no action names a request: all speak of the
 * oldest held one. Every event may act on every queue pair.
 */
export interface Actions {
  /** How the requests below this shim treat WAIT and ENABLE. */
  readonly wait: WaitSupport;
  /** Slots that can be issued now. At the limits of a device never more than 1: a policy must get on with that. */
  room(qp: QpView): number;
  /** Slots issued whose completion is not known. */
  inflight(qp: QpView): number;
  /** Requests of the application that are posted and not polled yet, held ones included. */
  outstanding(qp: QpView): number;
  /** Message bytes issued whose completion is not known. */
  inflightBytes(qp: QpView): number;
  /**
   * Held requests that may be issued, a partly issued one included: of a managed queue pair those that are enabled,
   * none while the peer is asked about the oldest.
   */
  backlog(qp: QpView): number;
  /** IBV_WR_* of the oldest held request. */
  nextOpcode(qp: QpView): number;
  /** Bytes of the oldest held request that are not issued yet; -1 when `backlog` is 0. */
  nextBytes(qp: QpView): number;
  /**
   * From now on `onload` is not asked of a post of plain requests alone (plain.ts) that are all shorter than `below`, a
   * power of two up to 2^21: they go straight, and are weighed. It ends with 0, and when something is held.
   */
  passPlain(qp: QpView, below: number): void;
  /** A word of the oldest held request (layout.ts). */
  nextWord(qp: QpView, word: number): number;
  /** Whether the oldest held request may be cut without the application or its peer noticing. */
  splittable(qp: QpView): boolean;
  /** Issues the rest of the oldest held request as it is. */
  pass(qp: QpView): void;
  /** Issues the next `bytes` of the oldest held request, or what is left of it. */
  piece(qp: QpView, bytes: number): void;
  /** Up to `max` pieces of `bytes` of the oldest held request, each followed by `waits` 0_WAITs; returns how many. */
  pieces(qp: QpView, bytes: number, max: number, waits: number): number;
  /** `count` 0_WAITs: the queue pair gives up its turn that often. */
  zeroWaits(qp: QpView, count: number): void;
  /**
   * UD, which WAITs are not for: `count` empty datagrams to a sink (Resources.sink), so that the queue pair gives up its
   * turn that often. A slot each. `token`: tell onInternal when the last of them is over.
   */
  zeroSends(qp: QpView, sink: ResourceView, count: number, token?: number): void;
  /** The next request issued for this queue pair, or the last one of this step, reports when it is done. */
  signalNow(qp: QpView): void;
  /**
   * A WAIT on the queue pair until `cq` (of the application or of a resource) has `count` more completions than
   * the last WAIT on it asked for. `token`: tell onInternal when it is over.
   */
  waitFor(qp: QpView, cq: number, count: number, token?: number): void;
  /** An ENABLE on the queue pair: `count` more requests of a managed one (`target`, a handle) may go; 0: all. */
  enable(qp: QpView, target: number, count: number, token?: number): void;
  /**
   * Ends the oldest held request without the device: with IBV_WC_SUCCESS it completes if it is signaled, with
   * `bytes` as byte_len; with another status it fails, and the queue pair with it. False, and nothing
   * happened, while requests before it are in flight whose end would show: try again when they completed.
   */
  deliver(qp: QpView, status: number, bytes: number): boolean;
  /** The oldest held request fails with IBV_WC_GENERAL_ERR, and the queue pair with it. As `deliver`. */
  refuse(qp: QpView): boolean;
  /**
   * As `piece`, but on a resource in the same protection domain, as a twin is: at most to the end of the
   * scatter-gather element. Returns the bytes; 0: no room there, the request may not be cut or takes a receive,
   * or an earlier one is not known to be complete. When all have arrived, `deliver` or `pass` ends the request;
   * `inflight` does not count them.
   */
  pieceOn(qp: QpView, resource: ResourceView, bytes: number, token: number): number;
  /** Posts a request on a resource. False: it has no room. */
  post(resource: ResourceView, request: ResourceRequest): boolean;
  /** Posts a receive into `bytes` at `offsetBytes` of the resource's buffer. False: it has no room. */
  receive(resource: ResourceView, offsetBytes: number, bytes: number, token: number): boolean;
  /** The device's time in nanoseconds (float64). */
  nowNs(context: ContextView): number;
  /**
   * Calls onTimer(token) at `atNs`. A token has one time: setting it again moves it, Infinity takes it away.
   * Timers keep no program alive. A run of simulated devices waits for them only while a queue pair in RTS
   * holds requests, or has an internal one under way that has a token. One that `mayBeLate` by some calls of
   * a program that only polls costs its calls nothing, and no run waits for it.
   */
  timer(context: ContextView, atNs: number, token: number, mayBeLate?: boolean): void;
  /** Tells the coordinator; without one, nobody hears. */
  report(context: ContextView, kind: number, value: number): void;
  /** Whether the oldest held request is a WAIT for completions or an ENABLE. */
  isCrossChannel(qp: QpView): boolean;
  /** Executes it, and ends it. False: not yet (`feed` is called when it may be), or it failed. */
  execute(qp: QpView): boolean;
  /**
   * Issues the oldest held request, a 0_WAIT, as RDMA_WRITEs of nothing (RC and UC). False: for want of room not
   * all of them yet.
   */
  zeroWrites(qp: QpView): boolean;
}
