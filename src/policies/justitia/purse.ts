/**
 * The tokens that the coordinator of another process has handed to the members of a device in this process
 * (handed-tokens.ts). The members share them, because TokenOrder decides which entity gets the next token.
 */
import type { MemberPage } from '../../coordinator/member-table.ts';
import type { MemberColumns } from '../../coordinator/ruler.ts';
import { HUNGRY_WEIGHT } from './columns.ts';
import { HANDED_BYTES, HANDS_OUT, IS_PENDING, SPENT_BYTES } from './handed-tokens.ts';

/** A member: its page, and its columns of both rulers. */
export interface Holder {
  readonly page: Pick<MemberPage, 'isStalled'>;
  readonly columns: MemberColumns;
  readonly tokens: MemberColumns;
}

/** The handed tokens of one device. */
export class Purse {
  /** Whether the coordinator hands out tokens, and gives signs of life. */
  isOpen = false;
  private readonly members: readonly Holder[];
  private isPending = false;

  constructor(members: readonly Holder[]) {
    this.members = members;
  }

  /** Reads the grants. @param mostBytes the most bytes that a member may hold; it forfeits the rest */
  refresh(mostBytes: number): void {
    this.isOpen = false;
    for (const { page, columns, tokens } of this.members) {
      const { grants, reports } = tokens;
      if (!(grants[HANDS_OUT] > 0) || page.isStalled === true) {
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
  }

  /** Takes a token. If there is none, reports that one is needed, and returns false. */
  take(tokenBytes: number): boolean {
    if (!this.isPending) this.setPending(true);
    for (let i = 0; i < this.members.length; i++) {
      const { grants, reports } = this.members[i].tokens;
      if (!(grants[HANDED_BYTES] - reports[SPENT_BYTES] >= tokenBytes)) continue;
      reports[SPENT_BYTES] += tokenBytes;
      return true;
    }
    return false;
  }

  /** Nothing waits for a token. */
  rest(): void {
    if (this.isPending) this.setPending(false);
  }

  private setPending(isPending: boolean): void {
    this.isPending = isPending;
    for (const { columns, tokens } of this.members) {
      const isOne = isPending && tokens.grants[HANDS_OUT] > 0 && columns.reports[HUNGRY_WEIGHT] > 0;
      tokens.reports[IS_PENDING] = isOne ? 1 : 0;
    }
  }
}
