/** Which members of a device send at present, by a counter that each of them reports. */
import type { MembersView, ReportColumn } from './ruler.ts';

/** A member whose counter has not changed for this long does not send. */
const IDLE_NS = 200e6;

/** The members that send. The part of a limit that an idle member would have goes to them. */
export class SendingMembers {
  private readonly members: MembersView;
  private readonly counter: ReportColumn;
  /** By member: its counter at the last call (NaN: unknown), and when that last changed. */
  private lastCounts = new Float64Array(0);
  private lastSentNs = new Float64Array(0);
  private version = -1;

  /** @param counter what the members have sent so far */
  constructor(members: MembersView, counter: ReportColumn) {
    this.members = members;
    this.counter = counter;
  }

  /**
   * Forgets members that have left, because others may take their rows. Call it first in each decision, with grouped
   * tenants. Returns whether members have come or gone.
   */
  forgetLeft(): boolean {
    const { tenants } = this.members;
    if (this.version === tenants.version) return false;
    this.version = tenants.version;
    const size = tenants.memberLimit;
    if (this.lastCounts.length < size) {
      const { lastCounts, lastSentNs } = this;
      this.lastCounts = new Float64Array(2 * size).fill(Number.NaN);
      this.lastCounts.set(lastCounts);
      this.lastSentNs = new Float64Array(2 * size);
      this.lastSentNs.set(lastSentNs);
    }
    for (let member = 0; member < size; member++)
      if (tenants.tenantOf(member) < 0) this.lastCounts[member] = Number.NaN;
    return true;
  }

  /** Whether a member sends. Call it once for each member in each decision. */
  isSending(member: number, nowNs: number): boolean {
    const count = this.counter.of(member);
    const known = this.lastCounts[member];
    this.lastCounts[member] = count;
    if (Number.isNaN(known)) this.lastSentNs[member] = Number.NEGATIVE_INFINITY;
    else if (count !== known) this.lastSentNs[member] = nowNs;
    return nowNs - this.lastSentNs[member] < IDLE_NS;
  }
}
