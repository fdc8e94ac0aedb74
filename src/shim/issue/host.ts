/** The functions of the shim that the issuer uses. */
import type { CqLedger } from '../cq-ledger.ts';
import type { CompletionLimits } from '../limits/completion-limits.ts';
import type { QpLedger } from '../qp-ledger.ts';
import type { ResourceKeeper } from '../resource-keeper.ts';
import type { Sharing } from '../sharing/sharing.ts';
import type { Timers } from '../timers/timers.ts';

export interface IssuerHost {
  readonly timers: Timers;
  readonly resources: ResourceKeeper;
  /** Null: no queue pair shares another one. */
  readonly sharing: Sharing | null;
  /** Null: the policy never limits completions. */
  readonly completionLimits: CompletionLimits | null;
  /** Whether the policy must be asked about each post. */
  limits(): boolean;
  /** The queue pair must keep rows from here on. */
  translate(qp: QpLedger): void;
  /** Posts what was written for this queue pair, because slots of another one follow. */
  conclude(qp: QpLedger): void;
  cq(handle: number): CqLedger | undefined;
  qp(handle: number): QpLedger | undefined;
  /** Lets the policy feed another queue pair when the current event has ended. */
  feedLater(qp: QpLedger): void;
  /** The device refused an internal request: moves the queue pair to ERR. */
  fail(qp: QpLedger): void;
  /** The oldest held request goes whole, although the policy would have cut it; `reason`: an index of UNCUT_REASONS. */
  wentWhole(qp: QpLedger, reason: number): void;
  /** Lets the next completion of `cq` wake the shim, or one that is there already. */
  arm(cq: CqLedger): void;
  /** A completion that the shim made itself waits in `cq`. */
  synthesised(cq: CqLedger): void;
}
