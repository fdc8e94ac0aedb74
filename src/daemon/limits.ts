/** Divides a tenant's limits among its contexts at one device: queue pairs, and requests per second. */
import * as M from '../coordinator/member-table.ts';

/** Limits of a tenant over all its contexts; 0 means no limit. */
export interface TenantLimits {
  readonly maxQps: number;
  readonly maxRequestsPerS: number;
}

/** What a limit needs to know of a context. */
export interface LimitedSeat {
  readonly page: M.MemberPage;
  /** The requests sent as of the last pass, and when that number last changed. */
  lastSentRequests: number;
  lastSentNs: number;
}

/**
 * A context that has sent nothing for this long, and holds nothing, leaves its part of the requests to
 * others.
 */
const IDLE_NS = 200e6;
/** Granted instead of 0, which means no limit. */
const NONE_ALLOWED = -1;

function isSending(seat: LimitedSeat, nowNs: number): boolean {
  const { counters } = seat.page;
  const sent = counters[M.SENT_REQUESTS];
  if (!Object.is(sent, seat.lastSentRequests)) seat.lastSentNs = nowNs;
  seat.lastSentRequests = sent;
  return counters[M.HELD_REQUESTS] > 0 || nowNs - seat.lastSentNs < IDLE_NS;
}

/**
 * Grants each context of a tenant its part. Of the queue pairs, a context may have those it has and all that
 * are unused. The requests are divided equally among the contexts that send. A context that does not send
 * gets the part it would have if all contexts with queue pairs sent; this holds until the first pass after it
 * starts to send. `changed` is called with each seat whose limits have changed.
 */
export function limit<Seat extends LimitedSeat>(
  seats: readonly Seat[],
  { maxQps, maxRequestsPerS }: TenantLimits,
  nowNs: number,
  changed: (seat: Seat) => void,
): void {
  let qps = 0;
  let sending = 0;
  let present = 0;
  const sends = seats.map((seat) => isSending(seat, nowNs));
  for (const [i, seat] of seats.entries()) {
    qps += qpsOf(seat);
    if (qpsOf(seat) > 0) present++;
    if (sends[i]) sending++;
  }
  const unused = Math.max(0, maxQps - qps);
  for (const [i, seat] of seats.entries()) {
    const maxSeatQps = maxQps === 0 ? 0 : qpsOf(seat) + unused || NONE_ALLOWED;
    const perS = maxRequestsPerS / (sends[i] ? sending : Math.max(1, present));
    const { grants } = seat.page;
    if (grants[M.MAX_QPS] === maxSeatQps && grants[M.MAX_REQUESTS_PER_S] === perS) continue;
    grants[M.MAX_QPS] = maxSeatQps;
    grants[M.MAX_REQUESTS_PER_S] = perS;
    changed(seat);
  }
}

/** The reported number, within the range of possible values. */
function qpsOf({ page }: LimitedSeat): number {
  const qps = page.counters[M.QPS];
  return qps > 0 ? Math.min(Math.floor(qps), 2 ** 24) : 0;
}
