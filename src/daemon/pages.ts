/**
 * The two pieces of memory shared by the daemon and one client: counters, which the client writes, and
 * grants, which it can only read. Both have one set of columns (src/coordinator/member-table.ts) for each
 * seat of the client.
 */
import { COUNTERS, GRANTS, type MemberPage } from '../coordinator/member-table.ts';

/** Contexts that one client may have at the daemon. */
export const SEATS_PER_CLIENT = 256;
export const COUNTERS_BYTES = SEATS_PER_CLIENT * COUNTERS * 8;
export const GRANTS_BYTES = SEATS_PER_CLIENT * GRANTS * 8;
/**
 * Reserved of each at creation: enough for the counters of 21 seats and the grants of 32. Few clients need
 * more, and there may be thousands of clients.
 */
export const RESERVED_BYTES = 4096;

export interface Pages {
  readonly counters: Float64Array;
  readonly grants: Float64Array;
}

/** The columns of one seat. */
export function columnsAt({ counters, grants }: Pages, seatNumber: number): Omit<MemberPage, 'row'> {
  return {
    counters: counters.subarray(seatNumber * COUNTERS, (seatNumber + 1) * COUNTERS),
    grants: grants.subarray(seatNumber * GRANTS, (seatNumber + 1) * GRANTS),
  };
}
