/**
 * The tokens that the coordinator of another process has handed to the members of a device in this process
 * (handed-tokens.ts). The members share them, because TokenOrder decides which entity gets the next token.
 */
import type { MemberColumns } from '../../coordinator/ruler.ts';
import { HUNGRY_WEIGHT } from './columns.ts';
import { HANDED_BYTES, HANDS_OUT, IS_PENDING, SPENT_BYTES } from './handed-tokens.ts';

/** A coordinator that has handed out nothing for this long, and for the time of several tokens, counts as stopped. */
const STALE_NS = 1e8;
const STALE_TOKENS = 4;

/** A member's columns of both rulers. */
export interface Holder {
  readonly columns: MemberColumns;
  readonly tokens: MemberColumns;
}

/** The handed tokens of one device. */
export class Purse {
  /** Whether the coordinator hands out tokens. */
  isOpen = false;
  private readonly members: readonly Holder[];
  private isPending = false;
  /** When the members began to wait for a token in vain; NaN: they do not wait. */
  private waitsSinceNs = Number.NaN;

  constructor(members: readonly Holder[]) {
    this.members = members;
  }

  /** Reads the grants. @param mostBytes the most bytes that a member may hold; it forfeits the rest */
  refresh(mostBytes: number): void {
    this.isOpen = false;
    for (const { columns, tokens } of this.members) {
      const { grants, reports } = tokens;
      if (grants[HANDS_OUT] !== 1) {
        // It has nothing left when the coordinator hands out tokens again.
        [reports[SPENT_BYTES], reports[IS_PENDING]] = [grants[HANDED_BYTES], 0];
        continue;
      }
      this.isOpen = true;
      const handed = grants[HANDED_BYTES];
      const held = handed - reports[SPENT_BYTES];
      // A new daemon has handed out less than the previous one.
      if (!(held >= 0)) reports[SPENT_BYTES] = handed;
      else if (held > mostBytes) reports[SPENT_BYTES] = handed - mostBytes;
      reports[IS_PENDING] = this.isPending && columns.reports[HUNGRY_WEIGHT] > 0 ? 1 : 0;
    }
    if (!this.isOpen) this.waitsSinceNs = Number.NaN;
  }

  /** Takes a token. If there is none, reports that one is needed, and returns false. */
  take(tokenBytes: number, nowNs: number): boolean {
    if (!this.isPending) this.setPending(true);
    for (let i = 0; i < this.members.length; i++) {
      const { grants, reports } = this.members[i].tokens;
      if (grants[HANDS_OUT] !== 1 || !(grants[HANDED_BYTES] - reports[SPENT_BYTES] >= tokenBytes)) continue;
      reports[SPENT_BYTES] += tokenBytes;
      this.waitsSinceNs = Number.NaN;
      return true;
    }
    // A clock that jumps back begins a new wait.
    if (!(nowNs >= this.waitsSinceNs)) this.waitsSinceNs = nowNs;
    return false;
  }

  /** Whether the coordinator has handed out nothing for so long that it must have stopped. */
  isStale(tokenNs: number, nowNs: number): boolean {
    return nowNs - this.waitsSinceNs > Math.max(STALE_NS, STALE_TOKENS * tokenNs);
  }

  /** Nothing waits for a token. */
  rest(): void {
    if (this.isPending) this.setPending(false);
    this.waitsSinceNs = Number.NaN;
  }

  private setPending(isPending: boolean): void {
    this.isPending = isPending;
    for (const { columns, tokens } of this.members) {
      const isOne = isPending && tokens.grants[HANDS_OUT] === 1 && columns.reports[HUNGRY_WEIGHT] > 0;
      tokens.reports[IS_PENDING] = isOne ? 1 : 0;
    }
  }
}
