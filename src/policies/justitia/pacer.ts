/** The members of justitia at one device, in this process: their tokens, and the queue pairs that wait for them. */

import type { AgentLine } from '../../coordinator/agent.ts';
import type { MemberPage } from '../../coordinator/member-table.ts';
import type { MemberColumns } from '../../coordinator/ruler.ts';
import type { ContextView, QpView } from '../../shim/policy.ts';
import { Puller, STALL_NS } from '../kit/puller.ts';
import type { step } from '../kit/step.ts';
import { wireFactsOf } from '../kit/wire.ts';
import {
  HUNGRY_WEIGHT,
  MESSAGE_BYTES,
  RATE_GBPS,
  SAFE_UTIL_GBPS,
  TOKEN_BYTES,
  UNPACED_GBPS,
} from './columns.ts';
import type { JustitiaOptions } from './options.ts';
import { Purse } from './purse.ts';
import { TokenClock } from './token-clock.ts';
import { type Sharers, TokenOrder } from './token-order.ts';

/** A context of a device. */
export interface Member {
  readonly context: ContextView;
  readonly page: MemberPage;
  readonly columns: MemberColumns;
  /** The columns of the ruler that hands out tokens. */
  readonly tokens: MemberColumns;
  readonly pacer: Pacer;
  readonly qps: QpView[];
  line: AgentLine | null;
  /** What was last reported to the agent, by GID of the peer. */
  readonly told: Map<string, Float64Array>;
  /** Whether the line has dropped some of it, so that it must be reported again. */
  owesWords: boolean;
}

/**
 * The most tokens in flight, in addition to what the link carries in a round trip: one that the device fetches, one on
 * the wire and one that awaits its acknowledgement. The limit keeps the device's backlog short if it sends more slowly
 * than expected.
 */
const WINDOW_TOKENS = 3;
/** The most tokens in flight if the round trip is unknown. */
const BLIND_WINDOW_TOKENS = 16;
/**
 * Without latency applications, a token takes longer than another application's completion should wait: it is given out
 * and sent in pieces of this size (not with `paper`). With fewer of them in flight, the window would take the place of
 * congestion control where many hosts send to one.
 */
const BULK_PIECE_BYTES = 262_144;
const BULK_WINDOW_PIECES = 4;

/** A queue pair without a completion in the time that this many windows take counts as waiting for its peer. */
const STALL_WINDOWS = 8;
/** Assumed for a link of unknown rate: 1 Gbit/s. */
const SLOW_LINK_PER_NS = 0.125;

/** Kinds of timers. A timer token is the pacer's number times TIMER_KINDS, plus the kind. */
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
  /** The member whose context has the timer for the next sample; null: no sample is due. */
  sampledBy: Member | null = null;
  private readonly options: () => JustitiaOptions;
  private readonly linkPerNs: number;
  /** What the link carries in a round trip; 0: unknown. */
  private readonly roundTripBytes: number;

  constructor(
    number: number,
    context: ContextView,
    sharers: Sharers,
    options: () => JustitiaOptions,
    issue: typeof step,
  ) {
    this.number = number;
    this.linkPerNs = context.nic?.linkGbps ? context.nic.linkGbps / 8 : SLOW_LINK_PER_NS;
    this.device = context.device;
    this.roundTripBytes = this.linkPerNs * (context.nic?.latencyNs ?? 0);
    this.options = options;
    this.clock = new TokenClock(
      (nowNs) => this.refresh(nowNs),
      options().refPeriodUs * 1e3,
      new Purse(this.members),
    );
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
    const { paper, backlogBytes } = this.options();
    let [granted, most, tokenBytes, messageBytes] = [0, 0, 0, 0];
    for (const { page, columns } of this.members) {
      page.beat();
      const { grants, reports } = columns;
      // A member that has just joined may have no grants yet.
      if (grants[SAFE_UTIL_GBPS] === 0 && tokenBytes !== 0) continue;
      if (reports[HUNGRY_WEIGHT] > 0) granted += grants[RATE_GBPS];
      [tokenBytes, messageBytes] = [grants[TOKEN_BYTES], grants[MESSAGE_BYTES]];
      most = Math.max(most, grants[SAFE_UTIL_GBPS]);
    }
    // Members that joined since the last decision have no grants, or grants that do not take each other into account.
    const isFree = most === 0 || granted >= UNPACED_GBPS;
    const gbps = granted > 0 ? Math.min(granted, most) : most;
    const bytesPerNs = isFree ? Number.POSITIVE_INFINITY : gbps / 8;
    const pieceBytes = paper ? tokenBytes : Math.min(tokenBytes, BULK_PIECE_BYTES);
    const burstBytes = paper ? tokenBytes : Math.max(tokenBytes, backlogBytes);
    this.clock.set(bytesPerNs, pieceBytes, messageBytes, burstBytes, nowNs, tokenBytes);
    this.puller.pieceBytes = pieceBytes;
    const windowBytes = this.windowFor(Math.max(pieceBytes, backlogBytes));
    this.puller.windowBytes = paper ? Number.MAX_VALUE : windowBytes;
    this.order.lagTokens = paper || tokenBytes === 0 ? 0 : (windowBytes + this.roundTripBytes) / pieceBytes;
    this.puller.stallNs = Math.max(STALL_NS, (STALL_WINDOWS * windowBytes) / this.linkPerNs);
  }

  private windowFor(pieceBytes: number): number {
    if (this.roundTripBytes === 0) return BLIND_WINDOW_TOKENS * pieceBytes;
    const pieces = pieceBytes < BULK_PIECE_BYTES ? WINDOW_TOKENS : BULK_WINDOW_PIECES;
    return this.roundTripBytes + pieces * pieceBytes;
  }
}
