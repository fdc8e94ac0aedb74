/** Limits of tenants as parts of their contexts at one device: queue pairs, and requests a second. */
import * as M from '../coordinator/member-table.ts';

/** Of a tenant, over all its contexts; 0: none. */
export interface TenantLimits {
  readonly maxQps: number;
  readonly maxRequestsPerS: number;
}

/** What there is to know of a context. */
export interface LimitedSeat {
  readonly page: M.MemberPage;
  /** Requests that it had sent when they were looked at last, and when they were others last. */
  sent: number;
  sentNs: number;
}

/** Who has sent nothing for so long, and holds nothing, leaves its part of the requests to others. */
const IDLE_NS = 200e6;
/** 0 says that there is no limit. */
const NOT_ONE = -1;

function isSending(seat: LimitedSeat, nowNs: number): boolean {
  const { counters } = seat.page;
  const sent = counters[M.SENT_REQUESTS];
  if (!Object.is(sent, seat.sent)) seat.sentNs = nowNs;
  seat.sent = sent;
  return counters[M.HELD_REQUESTS] > 0 || nowNs - seat.sentNs < IDLE_NS;
}

/**
 * Grants each context of a tenant what it may: of queue pairs those that it has and all that are left; of requests an
 * equal part among the contexts that send. One that does not has the part that it would have if all with queue pairs did:
 * until the next pass after it begins. `changed` is called with each that may something else now.
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
  const left = Math.max(0, maxQps - qps);
  for (const [i, seat] of seats.entries()) {
    const mayHave = maxQps === 0 ? 0 : qpsOf(seat) + left || NOT_ONE;
    const perS = maxRequestsPerS / (sends[i] ? sending : Math.max(1, present));
    const { grants } = seat.page;
    if (grants[M.MAX_QPS] === mayHave && grants[M.MAX_REQUESTS_PER_S] === perS) continue;
    grants[M.MAX_QPS] = mayHave;
    grants[M.MAX_REQUESTS_PER_S] = perS;
    changed(seat);
  }
}

/** What it says, as far as it can be so. */
function qpsOf({ page }: LimitedSeat): number {
  const qps = page.counters[M.QPS];
  return qps > 0 ? Math.min(Math.floor(qps), 2 ** 24) : 0;
}
