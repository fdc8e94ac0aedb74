/**
 * What a policy is: a state machine that owns no clock, thread or socket. It sees runs of work requests and
 * completions, and answers through Actions; the shim keeps every book (src/shim/queue.ts).
 */
import type { WaitSupport } from '../verbs/provider.ts';

/** What a policy may know of a queue pair. `index` is dense: good for typed columns of the policy's own. */
export interface QpView {
  readonly index: number;
  readonly handle: number;
  /** IBV_QPT_* */
  readonly type: number;
  /** The application's max_send_wr. */
  readonly appDepth: number;
}

export interface PolicyNeeds {
  /** Whether WAIT and ENABLE must be there: 'preferred' takes an emulation. */
  readonly wait: 'none' | 'preferred' | 'required';
}

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
  /** Whether the counters of queue pairs weigh the requests that go straight, too; a few nanoseconds each. */
  readonly statistics?: boolean;
  /**
   * Requests start .. start + count - 1 of `words` (layout.ts) are being posted, and nothing of this queue
   * pair is held. Returns how many go straight to the device; the first of the rest, and all that follow it
   * on this queue pair until the backlog is empty, are held for `feed`.
   */
  onload(qp: QpView, words: Uint32Array, start: number, count: number): number;
  /** Whether the policy executes this opcode itself, so that the device need not know it. */
  executes?(opcode: number): boolean;
  /** A request was just held: `held[at..]` is the shim's copy of its slot, which the policy may annotate. */
  onHeld?(qp: QpView, held: Uint32Array, at: number, out: Actions): void;
  /** Called while the queue pair has a backlog: after a post and after its completions arrived. */
  feed(qp: QpView, out: Actions): void;
}

/**
 * Everything issued for one queue pair in one step reaches the device as one batch. The order within a queue
 * pair is fixed, so no action names a request: all speak of the oldest held one.
 */
export interface Actions {
  /** How the requests below this shim treat WAIT and ENABLE. */
  readonly wait: WaitSupport;
  /** Slots that can be issued now. At the limits of a device never more than 1: a policy must get on with that. */
  room(qp: QpView): number;
  /** Slots issued whose completion is not known. */
  inflight(qp: QpView): number;
  /** Message bytes issued whose completion is not known. */
  inflightBytes(qp: QpView): number;
  /** Held requests, a partly issued one included; 0 while the peer is asked about the oldest. */
  backlog(qp: QpView): number;
  /** IBV_WR_* of the oldest held request. */
  nextOpcode(qp: QpView): number;
  /** Bytes of the oldest held request that are not issued yet; -1 when `backlog` is 0. */
  nextBytes(qp: QpView): number;
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
   * Ends the oldest held request without the device; it completes if it is signaled.
   * Only when nothing of the queue pair is in flight, or when it is not signaled.
   */
  consume(qp: QpView): void;
  /** Calls `feed` again when this CQ has seen more completions. */
  wakeOn(qp: QpView, cq: number): void;
  /** Completions that a CQ has seen, internal ones left out: what a WAIT counts. Wraps at 2^32. */
  completionCount(cq: number): number;
}
