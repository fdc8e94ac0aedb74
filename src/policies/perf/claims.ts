/**
 * What members of other processes report, checked against the bytes and requests that their shims count: who reports
 * much and sends little must not take from others.
 */

import { MEMBER } from '../../coordinator/member-table.ts';
import type { MembersView } from '../../coordinator/ruler.ts';
import { IBV_WR_RDMA_WRITE } from '../../verbs/constants.ts';
import { egressBytes, ROCE } from '../kit/wire.ts';

/** Counters are written at least this often while a program sends, so an older value says that it does not. */
const COUNTED_NS = 50e6;
/** A member whose counters have not changed for this long is ignored, whatever it reports. */
const FORGOTTEN_NS = 1e9;
/** A report may be of a shorter time than the counters. */
const MARGIN = 2;
/** Bytes on the wire of a request, in addition to its message. */
const HEADER_BYTES = egressBytes(ROCE, IBV_WR_RDMA_WRITE, 0);

/** Bounds for the reports of members, from their counters. */
export class Claims {
  private readonly columns: ReturnType<typeof columnsOf>;
  // By member.
  /** Bytes on the wire as of the last change; NaN: unknown. */
  private sentBytes = new Float64Array(0);
  private changedNs = new Float64Array(0);
  private boundGbps = new Float64Array(0);

  constructor(members: MembersView) {
    this.columns = columnsOf(members);
  }

  /** Another member may take the row of one that left. */
  forget(member: number): void {
    if (member < this.sentBytes.length) this.sentBytes[member] = Number.NaN;
  }

  /** The most that a member may have sent on the wire, in Gbit/s. It is negative if the member is to be ignored. */
  boundOf(member: number, nowNs: number): number {
    this.fit(member);
    const { sentBytes, changedNs, boundGbps } = this;
    const { bytes, requests } = this.columns;
    const counted = bytes.of(member) + requests.of(member) * HEADER_BYTES;
    const known = sentBytes[member];
    const spanNs = nowNs - changedNs[member];
    if (Number.isNaN(known)) boundGbps[member] = Number.POSITIVE_INFINITY;
    else if (counted !== known) {
      const rate = (8 * (counted - known)) / Math.min(Math.max(1, spanNs), COUNTED_NS);
      boundGbps[member] = Math.max(0, MARGIN * rate);
    } else if (spanNs > FORGOTTEN_NS) return -1;
    else return spanNs > COUNTED_NS ? 0 : boundGbps[member];
    sentBytes[member] = counted;
    changedNs[member] = nowNs;
    return boundGbps[member];
  }

  private fit(member: number): void {
    const { sentBytes, changedNs, boundGbps } = this;
    if (member < sentBytes.length) return;
    const size = 2 * (member + 1);
    this.sentBytes = new Float64Array(size).fill(Number.NaN);
    this.sentBytes.set(sentBytes);
    this.changedNs = new Float64Array(size);
    this.changedNs.set(changedNs);
    this.boundGbps = new Float64Array(size);
    this.boundGbps.set(boundGbps);
  }
}

const columnsOf = (members: MembersView) => ({
  bytes: members.report('sentBytes', MEMBER),
  requests: members.report('sentRequests', MEMBER),
});
