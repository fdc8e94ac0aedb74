/** The watchdog of MQSE (mqse.ts): a turn that takes far too long no longer blocks the other queue pairs. */
import type { Actions } from '../../shim/policy.ts';
import { type Group, OPEN, type TurnTaker } from './turn-takers.ts';

/** A turn is overdue after this many average turns. */
const LONG_TURN = 8;
/** Before any turn has ended, there is no average, and a turn is overdue after this many `watchdogNs`. */
const FIRST_TURN = 16;
/** The time without tickets doubles with each overdue turn in a row, up to this many. */
const MAX_STRIKES = 8;

/** Starts the timer of a group, unless it is running. */
export function startWatchdog(group: Group, watchdogNs: number, out: Actions): void {
  if (group.isWatched) return;
  group.isWatched = true;
  const { context } = group.resources;
  out.timer(context, out.nowNs(context) + watchdogNs, group.watchdogToken);
}

/** Releases a ticket in place of each overdue turn. Restarts the timer while queue pairs wait. */
export function checkTurns(group: Group, watchdogNs: number, out: Actions): void {
  group.isWatched = false;
  if (group.pendingWaits === 0 && group.queue.length === 0) return;
  const pcq = group.pcq!;
  const nowNs = out.nowNs(group.resources.context);
  const turnNs = group.turnNs[0];
  // The first turn also has to wait for requests that were posted before turns began.
  const limitNs = turnNs === 0 ? FIRST_TURN * watchdogNs : Math.max(watchdogNs, LONG_TURN * turnNs);
  let isAnyWaiting = false;
  let isAnyHolding = false;
  for (const taker of group.takers) {
    if (taker.pendingWaits > 0 && !pcq.isDue(taker.ticket)) isAnyWaiting = true;
    if (!isHolding(taker, nowNs, out)) continue;
    isAnyHolding = true;
    if (taker.lentTurns > 0 || taker.phase === OPEN || nowNs - taker.sinceNs <= limitNs) continue;
    taker.lentTurns++;
    taker.strikes = Math.min(taker.strikes + 1, MAX_STRIKES);
    taker.ticketlessUntilNs = nowNs + Math.max(watchdogNs, limitNs) * 2 ** taker.strikes;
    pcq.lend(out);
  }
  // An ENABLE was lost with its queue pair. Two checks must agree, as one may just be on its way.
  const isStalled = isAnyWaiting && !isAnyHolding;
  if (isStalled && group.wasStalled) pcq.forceNext(out);
  group.wasStalled = isStalled;
  startWatchdog(group, watchdogNs, out);
}

/** Whether a queue pair has its turn. Its time starts when its ticket is due and its older requests have drained. */
function isHolding(taker: TurnTaker, nowNs: number, out: Actions): boolean {
  if (taker.turns === 0) return false;
  if (taker.turns > taker.pendingWaits) return true;
  const isDue = taker.group.pcq!.isDue(taker.ticket);
  const inflightBytes = out.inflightBytes(taker.qp);
  if (!isDue || inflightBytes !== taker.inflightBytes) taker.sinceNs = nowNs;
  taker.inflightBytes = inflightBytes;
  return isDue;
}
