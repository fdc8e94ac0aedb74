/**
 * The two pieces of memory between the daemon and one client: counters, which the client writes, and grants, which it
 * can only read. Each has a place of columns (src/coordinator/member-table.ts) for every context of the client.
 */
import { COUNTERS, GRANTS, type MemberPage } from '../coordinator/member-table.ts';

/** Contexts of one client. */
export const SLOTS = 256;
export const COUNTERS_BYTES = SLOTS * COUNTERS * 8;
export const GRANTS_BYTES = SLOTS * GRANTS * 8;
/** Of either, there from the beginning: thirty-two places. Few clients need more, and there may be thousands of them. */
export const FIRST_BYTES = 4096;

export interface Pages {
  readonly counters: Float64Array;
  readonly grants: Float64Array;
}

/** The columns of one place. */
export function columnsAt({ counters, grants }: Pages, slot: number): Omit<MemberPage, 'index'> {
  return {
    counters: counters.subarray(slot * COUNTERS, (slot + 1) * COUNTERS),
    grants: grants.subarray(slot * GRANTS, (slot + 1) * GRANTS),
  };
}
