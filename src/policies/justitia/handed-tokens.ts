/**
 * The ruler that hands out tokens in a daemon in busy mode (section 4.3.4 of the paper): weighted round robin over the
 * members that wait for one, implemented as start-time fair queueing. A token that a member does not use goes to
 * another member at once, instead of after the next decision on the rates. Outside of busy mode, members make their own
 * tokens at the rate that they are granted.
 */
import {
  type Column,
  columnIndex,
  type Decider,
  type GrantColumn,
  type MembersView,
  type ReportColumn,
  type Ruler,
} from '../../coordinator/ruler.ts';
import { Bucket } from '../../shim/limits/bucket.ts';
import { UNPACED_GBPS } from './columns.ts';
import { justitiaOptions } from './options.ts';
import { rates } from './rates.ts';
import { StartQueue } from './start-queue.ts';

const MAX_BYTES = Number.MAX_SAFE_INTEGER;
/** Parts of SafeUtil are rounded to this, because the queue is fastest with few different weights. */
const PART_STEP = 2 ** -20;
/** Time between signs of life, of which members miss several before they go on without the coordinator. */
const SIGN_NS = 1e7;
/** A member that spends its tokens late, because it waits for a CPU, may catch up by this many tokens. */
const MAX_LAG_TOKENS = 4;

/** The columns that a member writes: the bytes that it has spent since it joined, and whether it waits for a token. */
const REPORTS: readonly Column[] = [
  { name: 'spentBytes', unit: 'bytes', min: 0, max: MAX_BYTES, default: 0 },
  { name: 'isPending', unit: '0 or 1', min: 0, max: 1, default: 0 },
];

/**
 * The columns that the ruler writes: the bytes that it has handed to the member, and a number that changes for as long as
 * it hands out tokens; 0: it does not.
 */
const GRANTS: readonly Column[] = [
  { name: 'handedBytes', unit: 'bytes', min: 0, max: MAX_BYTES, default: 0 },
  { name: 'handsOut', unit: 'sign of life; 0: no', min: 0, max: MAX_BYTES, default: 0, orphaned: 0 },
];

/** Indices of the columns in a member's page. */
export const SPENT_BYTES = columnIndex(REPORTS, 'spentBytes');
export const IS_PENDING = columnIndex(REPORTS, 'isPending');
export const HANDED_BYTES = columnIndex(GRANTS, 'handedBytes');
export const HANDS_OUT = columnIndex(GRANTS, 'handsOut');

/** The rules of one device. */
export interface HandingRules {
  /** Bytes that a member may hold unspent, if that is more than a token. */
  readonly backlogBytes: number;
}

/** What the ruler knows about the members, by member. Only growing allocates. */
class Holdings {
  /** Where its next token starts. */
  starts = new Float64Array(0);
  /** Its weight while it waits; 0: it does not wait. */
  weights = new Float64Array(0);
  /** Bytes handed to it, and how many of them it has spent, as of the last pass. */
  handed = new Float64Array(0);
  spent = new Float64Array(0);
  /** Unspent bytes that were given to others because the member was silent; it may still spend them. */
  lent = new Float64Array(0);
  /** 1 if it has waited for a token since it last had nothing to send. */
  backlogged = new Float64Array(0);
  /** The last pass in which it was a member. */
  passes = new Float64Array(0);

  fit(count: number): void {
    if (this.starts.length >= count) return;
    for (const name of ['starts', 'weights', 'handed', 'spent', 'lent', 'backlogged', 'passes'] as const) {
      const grown = new Float64Array(2 * count);
      grown.set(this[name]);
      this[name] = grown;
    }
  }

  /** Forgets a member. Returns the bytes that it held. */
  forget(member: number): number {
    const held = this.handed[member] - this.spent[member] - this.lent[member];
    [this.starts[member], this.backlogged[member]] = [0, 0];
    [this.handed[member], this.spent[member], this.lent[member]] = [0, 0, 0];
    return held;
  }
}

class HandedTokens implements Decider<HandingRules> {
  private readonly members: MembersView;
  private readonly spentBytes: ReportColumn;
  private readonly isPending: ReportColumn;
  private readonly hungryWeight: ReportColumn;
  private readonly rateGbps: GrantColumn;
  private readonly safeUtilGbps: GrantColumn;
  private readonly tokenGrant: GrantColumn;
  private readonly handedBytes: GrantColumn;
  private readonly handsOut: GrantColumn;
  private readonly holdings = new Holdings();
  private readonly waiting = new StartQueue();
  /** [0] The start of the last token, in tokens for a unit of weight. */
  private readonly virtual = new Float64Array(1);
  private bucket = new Bucket({ burst: 0 });
  private lastNs = Number.NEGATIVE_INFINITY;
  private pass = 0;
  /** Signs of life, and when the last one was given. */
  private signs = 0;
  private signedNs = Number.NaN;
  /** One more than the highest member of the last pass. */
  private memberLimit = 0;
  /** Bytes of a token, and bytes that a member may hold. */
  private tokenBytes = 0;
  private burstBytes = 0;

  constructor(members: MembersView) {
    this.members = members;
    this.spentBytes = members.report('spentBytes');
    this.isPending = members.report('isPending');
    this.hungryWeight = members.report('hungryWeight', rates);
    this.rateGbps = members.grant('rateGbps', rates);
    this.safeUtilGbps = members.grant('safeUtilGbps', rates);
    this.tokenGrant = members.grant('tokenBytes', rates);
    this.handedBytes = members.grant('handedBytes');
    this.handsOut = members.grant('handsOut');
  }

  /** Notifies no member: each reads its tokens when it needs them. */
  decide({ backlogBytes }: HandingRules, nowNs: number): void {
    if (!Number.isFinite(nowNs)) return;
    const { members, holdings } = this;
    const { tenants } = members;
    tenants.group();
    holdings.fit(tenants.memberLimit);
    this.pass++;
    if (!(Math.abs(nowNs - this.signedNs) < SIGN_NS)) [this.signs, this.signedNs] = [this.signs + 1, nowNs];
    let gbps = 0;
    const count = tenants.firstOf(tenants.length);
    for (let at = 0; at < count; at++) {
      const member = tenants.memberAt(at);
      const isSilent = members.isSilent(member, nowNs);
      this.tokenBytes = this.tokenGrant.of(member);
      this.burstBytes = Math.max(this.tokenBytes, backlogBytes);
      gbps += this.follow(member, isSilent);
    }
    this.forgetGone();
    this.memberLimit = tenants.memberLimit;
    this.fill(gbps / 8, nowNs);
    this.handOut();
  }

  /** Reads what a member has spent, and whether it waits. Returns its part of SafeUtil in Gbit/s. */
  private follow(member: number, isSilent: boolean): number {
    const { holdings } = this;
    const handed = this.handedBytes.of(member);
    // This number belonged to another member before.
    if (holdings.handed[member] !== handed) this.reclaim(member);
    holdings.passes[member] = this.pass;
    const rateGbps = this.rateGbps.of(member);
    const isPaced = rateGbps < UNPACED_GBPS;
    this.handsOut.set(member, isPaced ? this.signs : 0);
    this.settle(member, Math.min(this.spentBytes.of(member), handed), isSilent);
    const isHungry = isPaced && !isSilent && this.hungryWeight.of(member) > 0;
    if (!isHungry || this.isPending.of(member) === 0) this.rest(member);
    else if (this.mayHold(member)) this.wait(member, this.partOf(member, rateGbps));
    else this.stopWaiting(member);
    return isHungry ? rateGbps : 0;
  }

  /** A member has nothing to send. It loses the tokens that it could have had meanwhile. */
  private rest(member: number): void {
    this.stopWaiting(member);
    this.holdings.backlogged[member] = 0;
  }

  private partOf(member: number, rateGbps: number): number {
    const part = rateGbps / this.safeUtilGbps.of(member);
    return Math.max(Math.round(part / PART_STEP), 1) * PART_STEP;
  }

  /** Updates what a member has spent. What a silent member holds goes to the others. */
  private settle(member: number, reported: number, isSilent: boolean): void {
    const { bucket, holdings } = this;
    const { lent } = holdings;
    // A hostile member may count backwards. It would be lent all tokens that it ever had, and charge them to the others.
    const spent = Math.max(holdings.spent[member], reported);
    // The member has spent tokens after all that were given to others.
    const paid = Math.min(lent[member], spent - holdings.spent[member]);
    holdings.spent[member] = spent;
    lent[member] -= paid;
    bucket.take(paid);
    if (!isSilent) return;
    const held = holdings.handed[member] - spent - lent[member];
    lent[member] += held;
    bucket.take(-held);
  }

  private reclaim(member: number): void {
    this.bucket.take(-this.holdings.forget(member));
    this.stopWaiting(member);
  }

  /** Tokens of members that have left go to the others. */
  private forgetGone(): void {
    const { passes } = this.holdings;
    for (let member = 0; member < this.memberLimit; member++)
      if (passes[member] === this.pass - 1) this.reclaim(member);
  }

  /** Whether a member may have one more token. */
  private mayHold(member: number): boolean {
    const held = this.holdings.handed[member] - this.holdings.spent[member];
    // If tokens have grown, the member may hold less than one.
    return held < this.tokenBytes || held + this.tokenBytes <= this.burstBytes;
  }

  private wait(member: number, weight: number): void {
    const { waiting, holdings } = this;
    if (holdings.weights[member] === weight) return;
    holdings.weights[member] = weight;
    const lag = holdings.backlogged[member] === 1 ? MAX_LAG_TOKENS / weight : 0;
    holdings.backlogged[member] = 1;
    holdings.starts[member] = Math.max(this.virtual[0] - lag, holdings.starts[member]);
    waiting.due[0] = holdings.starts[member];
    waiting.put(member, weight);
  }

  private stopWaiting(member: number): void {
    this.waiting.remove(member);
    this.holdings.weights[member] = 0;
  }

  private fill(bytesPerNs: number, nowNs: number): void {
    // If the clock has jumped back, the bucket would get no tokens until the clock has caught up.
    if (nowNs < this.lastNs)
      this.bucket = new Bucket({ burst: this.burstBytes, tokens: this.bucket.tokens, nowNs });
    this.lastNs = nowNs;
    const { bucket } = this;
    bucket.setBurst(this.burstBytes);
    bucket.fill(nowNs);
    bucket.setRate(bytesPerNs);
  }

  private handOut(): void {
    const { bucket, waiting, holdings, tokenBytes } = this;
    if (!(tokenBytes > 0)) return;
    while (!waiting.isEmpty && bucket.tokens >= tokenBytes * (1 - 1e-9)) {
      const member = waiting.first();
      const weight = holdings.weights[member];
      this.virtual[0] = waiting.firstStart[0];
      holdings.starts[member] = this.virtual[0] + 1 / weight;
      holdings.handed[member] += tokenBytes;
      this.handedBytes.set(member, holdings.handed[member]);
      bucket.take(tokenBytes);
      this.stopWaiting(member);
      if (this.mayHold(member)) this.wait(member, weight);
    }
  }
}

/** The ruler that hands out tokens at the rates of the ruler of justitia. */
export const handedTokens: Ruler<HandingRules> = {
  name: 'justitia-tokens',
  reports: REPORTS,
  grants: GRANTS,
  rules: justitiaOptions.transform(({ paper, backlogBytes }) => ({ backlogBytes: paper ? 0 : backlogBytes })),
  isForBusy: true,
  begin: (members) => new HandedTokens(members),
};
