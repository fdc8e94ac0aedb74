/**
 * Invariants of a shim's ledgers, checked on slow paths only: when a queue pair is created, modified, reset, flushed or
 * destroyed, when it begins to hold requests, and at its error completions. Off unless `setAssertions(true)` was called.
 */
import { LedgerError } from '../verbs/errors.ts';
import type { CqLedger } from './cq-ledger.ts';
import { AS_WRITES } from './cq-ledger.ts';
import type { QpLedger } from './qp-ledger.ts';

let isOn = false;

/** Switches the checks on or off for all shims of this thread. */
export function setAssertions(on: boolean): void {
  isOn = on;
}

/**
 * Checks the ledger of a queue pair, and that of its send CQ.
 * @param when the path, for the message
 * @throws LedgerError when a ledger contradicts itself
 */
export function assertLedger(qp: QpLedger, when: string): void {
  if (!isOn) return;
  checkNumbers(qp, when);
  if (qp.translated) checkRows(qp, when);
  checkCq(qp.sendCq, when);
}

/**
 * Checks that no list contains a destroyed queue pair, and checks the ledger of its send CQ. @throws LedgerError if a
 * list contains it
 */
export function assertDestroyed(qp: QpLedger, writing: QpLedger | null): void {
  if (!isOn) return;
  const when = 'destroyQp';
  for (const cq of new Set([qp.sendCq, qp.recvCq])) {
    const isListed = cq.users.includes(qp) || cq.backlogged.includes(qp) || cq.waiters.includes(qp);
    require(!isListed, qp, when, `a list of completion queue ${cq.handle} still has it`);
    checkCq(cq, when);
  }
  require(!qp.context.qps.has(qp), qp, when, 'its context still has it');
  require(writing !== qp, qp, when, 'requests were written for it and never posted');
}

/** Counts: none is negative, and no queue contains more requests than it has room for. */
function checkNumbers(qp: QpLedger, when: string): void {
  const app = (qp.appPosted - qp.appFreed) | 0;
  const real = (qp.realPosted - qp.realFreed) | 0;
  // A worker driver posts for untranslated queue pairs past this ledger, which then only sees completions.
  const least = qp.translated ? 0 : Number.NEGATIVE_INFINITY;
  requireRange(qp, when, 'application requests outstanding', app, least, qp.appDepth);
  requireRange(qp, when, 'device requests outstanding', real, least, qp.realDepth);
  requireRange(qp, when, 'internal completions (extra)', qp.extra, 0, qp.realDepth);
  requireRange(qp, when, 'reserved slots', qp.reserved, 0, qp.realDepth);
  requireRange(qp, when, 'receives kept', qp.recvsKept, 0, qp.recvDepth);
  requireRange(qp, when, 'unreported completions', qp.unreported, 0, Number.MAX_SAFE_INTEGER);
  require(qp.awaitedTokens.length % 2 === 0, qp, when, 'an awaited token has no real number');
  const [issued, completed, ofOldest] = qp.sums;
  requireRange(qp, when, 'bytes complete', completed, 0, issued);
  requireRange(qp, when, 'bytes issued of the oldest held request', ofOldest, 0, Number.MAX_SAFE_INTEGER);
}

/** Rows: head, issued and posted are in this order, and each real number belongs to at most one row. */
function checkRows(qp: QpLedger, when: string): void {
  const { mask } = qp;
  requireRange(qp, when, 'rows', (qp.appPosted - qp.head) | 0, 0, mask + 1);
  requireRange(qp, when, 'issued, counted from head', (qp.issued - qp.head) | 0, 0, mask + 1);
  requireRange(qp, when, 'held, counted from issued', (qp.appPosted - qp.issued) | 0, 0, mask + 1);
  if (qp.managed) {
    // There is no upper bound: in ERR, requests that no ENABLE has released are flushed, which leaves `enabled` behind.
    require(((qp.appPosted - qp.enabled) | 0) >= 0, qp, when, 'more requests are enabled than posted');
  }
  const isBegun = qp.partial || qp.lookupIssued || qp.executed;
  require(!isBegun || qp.backlog > 0, qp, when, 'a request is begun, but none is held');
  const row = qp.issued & mask;
  if (qp.partial && qp.split[row] !== AS_WRITES) {
    requireRange(qp, when, 'bytes issued of the oldest held request', qp.sums[2], 0, qp.bytes[row]);
  }
  for (let seq = qp.head; seq !== qp.issued; seq = (seq + 1) | 0) {
    const [first, last] = [qp.first[seq & mask], qp.last[seq & mask]];
    const text = `request ${seq} (real numbers ${first} to ${last})`;
    require(((last - first) | 0) >= -1, qp, when, `${text} ends before it begins`);
    require(((qp.realPosted - last) | 0) > 0, qp, when, `${text} ends after the last one posted`);
    const isOwned = seq === qp.head || ((first - qp.last[(seq - 1) & mask]) | 0) > 0;
    require(isOwned, qp, when, `${text} shares a real number with the request before it`);
  }
}

/**
 * A completion queue: its counts are the sums over its queue pairs, and each list contains a queue pair at most once.
 */
function checkCq(cq: CqLedger, when: string): void {
  let extra = 0;
  let awaited = 0;
  let translated = 0;
  for (const qp of cq.users) {
    if (qp.sendCq !== cq) continue;
    extra += qp.extra;
    awaited += qp.awaitedTokens.length / 2;
    if (qp.translated) translated++;
    const listed = cq.backlogged.filter((other) => other === qp).length;
    require(listed === (qp.inBacklogList ? 1 : 0), qp, when, `it is ${listed} times in the backlog list`);
  }
  requireCq(cq, when, 'internal completions (extra)', cq.extra, extra);
  requireCq(cq, when, 'awaited requests', cq.awaitedCount, awaited);
  requireCq(cq, when, 'queue pairs with rows', cq.translatedQps, translated);
  for (const qp of cq.waiters) {
    const listed = cq.waiters.filter((other) => other === qp).length;
    require(listed ===
      1, qp, when, `it is ${listed} times among the waiters of completion queue ${cq.handle}`);
  }
  for (const qp of cq.backlogged) {
    require(cq.users.includes(qp), qp, when, `completion queue ${cq.handle} lists it but does not know it`);
  }
}

function requireRange(
  qp: QpLedger,
  when: string,
  what: string,
  value: number,
  least: number,
  most: number,
): void {
  // NaN is outside every range.
  require(value >= least && value <= most, qp, when, `${what}: ${value} is not from ${least} to ${most}`);
}

function requireCq(cq: CqLedger, when: string, what: string, value: number, sum: number): void {
  if (value === sum) return;
  const text = `completion queue ${cq.handle}, ${when}: ${what}: ${value}, but its queue pairs have ${sum}`;
  throw new LedgerError(text);
}

function require(holds: boolean, qp: QpLedger, when: string, what: string): void {
  if (!holds) throw new LedgerError(`queue pair ${qp.handle}, ${when}: ${what}`);
}
