/** The members of justitia at one device, in this process: their tokens, and the queue pairs that wait for them. */

import type { AgentLine } from '../../coordinator/agent.ts';
import type { MemberPage } from '../../coordinator/member-table.ts';
import type { MemberColumns } from '../../coordinator/ruler.ts';
import type { ContextView, QpView } from '../../shim/policy.ts';
import { Puller } from '../kit/puller.ts';
import type { step } from '../kit/step.ts';
import { wireFactsOf } from '../kit/wire.ts';
import { HUNGRY_WEIGHT, MESSAGE_BYTES, RATE_GBPS, TOKEN_BYTES, UNPACED_GBPS } from './columns.ts';
import type { JustitiaOptions } from './options.ts';
import { TokenClock } from './token-clock.ts';
import { type Sharers, TokenOrder } from './token-order.ts';

/** A context of a device. */
export interface Member {
  readonly context: ContextView;
  readonly page: MemberPage;
  readonly columns: MemberColumns;
  readonly pacer: Pacer;
  readonly qps: QpView[];
  line: AgentLine | null;
  /** By GID of a peer: what the agent was told. */
  readonly told: Map<string, Float64Array>;
}

/**
 * Tokens in flight at most. Their number keeps the device's own backlog short if it does not send as fast as expected,
 * and lets it send the next while the last is being confirmed.
 */
const WINDOW_TOKENS = 16;
const BULK_WINDOW_TOKENS = 2;

/** Kinds of timers, by the lowest digits of their tokens; the rest is the number of the pacer. */
export const PULL = 0;
export const SAMPLE = 1;
export const READS = 2;
export const ANNOUNCE = 3;
export const TIMER_KINDS = 4;

/** Paces what the contexts of one device send. */
export class Pacer {
  readonly number: number;
  readonly device: string;
  readonly order: TokenOrder;
  readonly clock: TokenClock;
  readonly puller: Puller;
  readonly members: Member[] = [];
  /** Whether a timer for the next sample is set. */
  isSampling = false;
  private readonly options: () => JustitiaOptions;

  constructor(
    number: number,
    context: ContextView,
    sharers: Sharers,
    options: () => JustitiaOptions,
    issue: typeof step,
  ) {
    this.number = number;
    this.device = context.device;
    this.options = options;
    this.clock = new TokenClock((nowNs) => this.refresh(nowNs), options().refPeriodUs * 1e3);
    this.order = new TokenOrder(sharers, this.clock);
    this.puller = new Puller({
      order: this.order,
      wire: wireFactsOf(context.nic),
      windowBytes: Number.MAX_VALUE,
      pieceBytes: options().chunkBytes,
      token: number * TIMER_KINDS + PULL,
      issue,
    });
  }

  /** The timer token of a kind. */
  tokenOf(kind: number): number {
    return this.number * TIMER_KINDS + kind;
  }

  /** Reads the grants of the members. */
  refresh(nowNs: number): void {
    const { paper, bulkChunkBytes, backlogBytes } = this.options();
    let [gbps, tokenBytes, messageBytes] = [0, 0, 0];
    for (const { page, columns } of this.members) {
      page.beat();
      const { grants, reports } = columns;
      if (reports[HUNGRY_WEIGHT] > 0) gbps += grants[RATE_GBPS];
      tokenBytes = grants[TOKEN_BYTES];
      messageBytes = grants[MESSAGE_BYTES];
    }
    const bytesPerNs = gbps >= UNPACED_GBPS ? Number.POSITIVE_INFINITY : gbps / 8;
    this.clock.set(bytesPerNs, tokenBytes, messageBytes, paper ? tokenBytes : backlogBytes, nowNs);
    this.puller.pieceBytes = tokenBytes;
    const tokens = tokenBytes < bulkChunkBytes ? WINDOW_TOKENS : BULK_WINDOW_TOKENS;
    this.puller.windowBytes = paper ? Number.MAX_VALUE : tokens * Math.max(tokenBytes, backlogBytes);
  }
}
