/** pollCq, and the shim's own polls: completions are rewritten, dropped, or kept for the application. */
import {
  IBV_QPS_ERR,
  IBV_QPT_RC,
  IBV_WC_RECV,
  IBV_WC_SUCCESS,
  IBV_WC_WR_FLUSH_ERR,
} from '../verbs/constants.ts';
import { handleIndex } from '../verbs/handles.ts';
import * as L from '../verbs/layout.ts';
import type { Provider } from '../verbs/provider.ts';
import { assertLedger } from './assertions.ts';
import { BUFFERED, countFailure, HIDDEN } from './counters.ts';
import { ARM_ANY, ARM_NONE, type CqLedger, settleSend } from './cq-ledger.ts';
import type { Feeder } from './feeder.ts';
import type { CompletionBudget } from './limits/completion-limits.ts';
import type { QpLedger } from './qp-ledger.ts';
import { type KnownRing, scratchRing, type Tables } from './tables.ts';
import type { Timers } from './timers/timers.ts';
import { syntheticCompletion } from './wait/cross-channel.ts';

// Used in each poll; a module's own constants cost nothing (plain-requests.ts).
const indexOf = handleIndex;
const { within, SLOT_WORDS, WC_OP, WC_QP, WC_SEQ } = L;
const FIRST = L.slotAt(0);
/** These bits are 0 in WC_OP of a successful send. */
const RECEIVED_OR_FAILED = L.WC_RECV_SIDE | 0xff;

const SCRATCH_SLOTS = 64;
const MISSES_PER_POLL = 8;

export class Polling {
  private readonly next: Provider;
  private readonly tables: Tables;
  private readonly cqs: Tables['cqs'];
  private readonly rings: Tables['wcRings'];
  private readonly feeder: Feeder;
  private scratch: KnownRing | null = null;
  /** Polls of the application that found nothing, modulo MISSES_PER_LOOK. */
  private misses = 0;
  private readonly timers: Timers;
  private readonly reportsPassed: boolean;

  constructor(next: Provider, tables: Tables, feeder: Feeder) {
    this.next = next;
    this.tables = tables;
    this.cqs = tables.cqs;
    this.rings = tables.wcRings;
    this.feeder = feeder;
    this.timers = feeder.timers;
    this.reportsPassed = feeder.reportsPassed;
  }

  pollCq(handle: number, ring: number, start: number, max: number): number {
    const cq = this.cqs[indexOf(handle)];
    const known = this.rings[indexOf(ring)];
    if (cq === undefined || known === undefined || cq.handle !== handle || known.handle !== ring) {
      return this.next.pollCq(handle, ring, start, max);
    }
    if (!within(known.capacity, start, max)) return this.next.pollCq(handle, ring, start, max);
    if (this.timers.isCheckDueIn(cq.owner)) {
      this.timers.check(cq.owner);
      if (cq.owner.latencyProbe.isUnderway) return this.pollProbed(cq, handle, ring, start, max);
    }
    if (cq.owner.carriage !== null) cq.owner.carriage.poll();
    if (cq.owner.completions !== null) return this.pollLimited(cq, known, start, max, cq.owner.completions);
    if (cq.fifoCount > 0 || max === 0) return this.pollKept(cq, known, start, max);
    const raw = this.next.pollCq(handle, ring, start, max);
    const { soleSender } = cq;
    if (raw > 0 && soleSender !== null) {
      // The last one stands for all: every send before a successful one succeeded.
      const { words } = known;
      const at = FIRST + (start + raw - 1) * SLOT_WORDS;
      if ((words[at + WC_OP] & RECEIVED_OR_FAILED) === 0 && words[at + WC_QP] === soleSender.handle) {
        freedUpTo(soleSender, words, at);
        cq.produced = (cq.produced + raw) | 0;
        return raw;
      }
    }
    return this.pollOn(cq, known, start, max, 0, raw);
  }

  /** The request whose latency is measured may end in this poll. */
  private pollProbed({ owner }: CqLedger, handle: number, ring: number, start: number, max: number): number {
    const { latencyProbe } = owner;
    latencyProbe.beginPoll();
    const n = this.pollCq(handle, ring, start, max);
    latencyProbe.endPoll(this.next.nowNs(owner.handle));
    return n;
  }

  /** Fetches all completions, and delivers as many as the application may have. */
  private pollLimited(
    cq: CqLedger,
    known: KnownRing,
    start: number,
    max: number,
    budget: CompletionBudget,
  ): number {
    const limits = this.feeder.completionLimits!;
    const arrived = this.pollForShim(cq);
    const n = this.drain(cq, known.words, start, limits.take(cq, budget, max));
    limits.polled(cq, budget);
    if (arrived === 0 && this.feeder.resources.any) this.missed(cq);
    this.feeder.drain();
    return n;
  }

  /** Kept completions are delivered first. */
  private pollKept(cq: CqLedger, known: KnownRing, start: number, max: number): number {
    const n = this.drain(cq, known.words, start, max);
    const raw = n < max ? this.next.pollCq(cq.handle, known.handle, start + n, max - n) : 0;
    return this.pollOn(cq, known, start, max, n, raw);
  }

  /** Continues a poll for `max`: `n` completions are the application's already, and `raw` new ones follow them. */
  private pollOn(cq: CqLedger, known: KnownRing, start: number, max: number, n: number, raw: number): number {
    let given = n;
    let arrived = raw;
    let wanted = max - n;
    let last = raw;
    if (raw > 0) given += this.settle(cq, known.words, start + n, raw, true);
    while (last === wanted && given < max && cq.fifoCount === 0) {
      wanted = max - given;
      last = this.next.pollCq(cq.handle, known.handle, start + given, wanted);
      arrived += last;
      given += this.settle(cq, known.words, start + given, last, true);
    }
    if (arrived > 0) {
      this.feeder.feedAll(cq);
      if (given < max && cq.fifoCount > 0) given += this.drain(cq, known.words, start + given, max - given);
    } else if (this.feeder.resources.any) {
      this.missed(cq);
    }
    if (!this.reportsPassed) cq.findSoleSender();
    return given;
  }

  /** A poll found nothing. A program that only polls never runs the events of the policy's own queues. */
  private missed(cq: CqLedger): void {
    this.misses = (this.misses + 1) & (MISSES_PER_POLL - 1);
    if (this.misses !== 0) return;
    this.feeder.resources.pollAll(cq.owner);
    this.feeder.drain();
  }

  /** Polls for the shim itself; the application's completions are kept for its next poll. Returns how many there were. */
  pollForShim(cq: CqLedger): number {
    this.scratch ??= scratchRing(this.next, SCRATCH_SLOTS);
    const { handle, words } = this.scratch;
    let raw = SCRATCH_SLOTS;
    let arrived = 0;
    while (raw === SCRATCH_SLOTS) {
      raw = this.next.pollCq(cq.handle, handle, 0, SCRATCH_SLOTS);
      arrived += raw;
      this.settle(cq, words, 0, raw, false);
      if (raw > 0) this.feeder.feedAll(cq);
    }
    return arrived;
  }

  /** A completion of a request that another queue pair has carried is in slot `index`: keeps it for the application. */
  settleCarried(cq: CqLedger, words: Uint32Array, index: number): void {
    this.settle(cq, words, index, 1, false);
  }

  /**
   * Rewrites `raw` completions in place; returns how many of them the application gets. Its other completions are kept:
   * all if the poll is not `delivered` to it, and those after a completion that the shim makes itself.
   */
  private settle(cq: CqLedger, words: Uint32Array, start: number, raw: number, delivered: boolean): number {
    let kept = 0;
    let raisesEvent = false;
    const mayRaiseEvent = cq.appArmed !== ARM_NONE && cq.isPolledByShim;
    const { feeder } = this;
    const { reportsCompletions, reportsPassed } = feeder;
    if (delivered && !reportsPassed && cq.translatedQps === 0 && cq.fifoCount === 0) {
      kept = this.settlePlain(cq, words, start, raw);
    }
    for (let i = kept; i < raw; i++) {
      const at = L.HEADER_WORDS + (start + i) * L.SLOT_WORDS;
      const op = words[at + L.WC_OP];
      const inPlace = delivered && cq.fifoCount === 0;
      let failed: QpLedger | undefined;
      if ((op & L.WC_RECV_SIDE) === 0) {
        const handle = words[at + L.WC_QP];
        const qp = this.tables.qps[handleIndex(handle)];
        if (qp !== undefined && qp.handle === handle) {
          if (qp.share !== null) words[at + L.WC_SEQ] += qp.share.shift;
          if (reportsPassed || (reportsCompletions && (qp.translated || qp.isWatched)))
            feeder.countCompletion(qp);
          if ((op & 0xff) !== IBV_WC_SUCCESS) this.sendFailed(qp, words[at + L.WC_SEQ] | 0, op);
          if (qp.awaitedTokens.length > 0) feeder.reportTokens(qp, words[at + L.WC_SEQ] | 0, op & 0xff);
          if (qp.translated) {
            if (!settleSend(qp, words, at)) {
              qp.counts[HIDDEN]++;
              if ((op & 0xff) !== IBV_WC_SUCCESS) flushConsumed(cq, qp);
              continue;
            }
            if ((op & 0xff) !== IBV_WC_SUCCESS) failed = qp;
          } else {
            qp.realFreed = (words[at + L.WC_SEQ] + 1) | 0;
          }
          if (inPlace) qp.appFreed = (words[at + L.WC_SEQ] + 1) | 0;
        }
      } else {
        const qp = this.tables.qps[handleIndex(words[at + L.WC_QP])];
        const isKnown = qp !== undefined && qp.handle === words[at + L.WC_QP];
        if (isKnown) {
          qp.recvTaken = (qp.recvTaken + 1) | 0;
          if (qp.share !== null) feeder.sharing!.twoSided.completed(qp, qp.share, words, at);
        }
        if ((op & 0xff) !== IBV_WC_SUCCESS) {
          this.receiveFailed(words[at + L.WC_QP], op);
        } else if (isKnown && qp.inbox !== null) {
          const isSend = ((op >>> 8) & 0xff) === IBV_WC_RECV;
          const bytes = qp.inbox.take(words[at + L.WC_SEQ], isSend);
          // To the device, a message in pieces ends with an empty message.
          if (bytes >= 0 && words[at + L.WC_BYTE_LEN] === 0) words[at + L.WC_BYTE_LEN] = bytes;
        }
      }
      // A completion does not show whether it was solicited: one event too many is better than one too few.
      if (mayRaiseEvent) raisesEvent ||= cq.appArmed === ARM_ANY || (op & (L.WC_RECV_SIDE | 0xff)) !== 0;
      cq.produced = (cq.produced + 1) | 0;
      if (inPlace) {
        const to = L.HEADER_WORDS + (start + kept) * L.SLOT_WORDS;
        if (to !== at) words.copyWithin(to, at, at + L.SLOT_WORDS);
        kept++;
      } else {
        this.keep(cq, words, at);
      }
      if (failed !== undefined) {
        flushConsumed(cq, failed);
        assertLedger(failed, 'error completion');
      }
    }
    if (raisesEvent) cq.isEventDue = true;
    return kept;
  }

  /**
   * Counts the leading completions that need no other handling: successful sends of queue pairs without rows. Handles
   * consecutive completions of one queue pair together. Returns how many; settle() handles the rest.
   */
  private settlePlain(cq: CqLedger, words: Uint32Array, start: number, raw: number): number {
    const { qps } = this.tables;
    let handle = 0;
    let qp: QpLedger | undefined;
    let i = 0;
    let at = L.HEADER_WORDS + start * L.SLOT_WORDS;
    for (; i < raw; i++, at += L.SLOT_WORDS) {
      if ((words[at + L.WC_OP] & (L.WC_RECV_SIDE | 0xff)) !== 0) break;
      const of = words[at + L.WC_QP] | 0;
      if (of === handle) continue;
      if (qp !== undefined) freedUpTo(qp, words, at - L.SLOT_WORDS);
      handle = of;
      qp = qps[handleIndex(handle)];
      if (
        qp === undefined ||
        qp.handle !== handle ||
        qp.translated ||
        qp.isWatched ||
        qp.awaitedTokens.length > 0
      ) {
        qp = undefined;
        break;
      }
    }
    if (qp !== undefined) freedUpTo(qp, words, at - L.SLOT_WORDS);
    cq.produced = (cq.produced + i) | 0;
    return i;
  }

  /** Ignores requests that a RESET has dropped, and failures from before the queue pair left SQE. */
  private sendFailed(qp: QpLedger, seq: number, status: number): void {
    countFailure(qp.counts, status);
    if (((seq - qp.realFreed) | 0) < 0) return;
    if (qp.staleErrorsUntil === null) this.feeder.markFailed(qp);
    else if (seq === qp.staleErrorsUntil) qp.staleErrorsUntil = null;
  }

  /**
   * A failed receive may move the whole queue pair to ERR without a send completion. That of a reliable one always
   * does; for other types the device is queried.
   */
  private receiveFailed(handle: number, status: number): void {
    const qp = this.tables.qp(handle);
    if (qp === undefined) return;
    countFailure(qp.counts, status);
    if (qp.broken) return;
    if (qp.type !== IBV_QPT_RC && this.next.queryQp(handle).attr.qpState !== IBV_QPS_ERR) return;
    this.feeder.markFailed(qp);
    if (qp.backlog > 0) this.feeder.feed(qp);
  }

  /** Gives the application kept completions, from slot `start` on; returns how many. */
  private drain(cq: CqLedger, words: Uint32Array, start: number, max: number): number {
    const n = cq.shift(words, L.HEADER_WORDS + start * L.SLOT_WORDS, max);
    for (let i = 0; i < n; i++) {
      const at = L.HEADER_WORDS + (start + i) * L.SLOT_WORDS;
      const qp = this.tables.qp(words[at + L.WC_QP]);
      if (qp === undefined) continue;
      const freed = (words[at + L.WC_SEQ] + 1) | 0;
      if ((words[at + L.WC_OP] & L.WC_RECV_SIDE) === 0) {
        qp.appFreed = freed;
      } else if (!qp.hasSrq) {
        qp.recvFreed = freed;
        qp.recvsKept--;
      }
    }
    return n;
  }

  /** Keeps a completion. A receive occupies its slot until the application has polled it. */
  private keep(cq: CqLedger, words: Uint32Array, at: number): void {
    cq.push(words, at);
    const qp = this.tables.qp(words[at + L.WC_QP]);
    if (qp !== undefined) qp.counts[BUFFERED]++;
    if (qp === undefined || qp.hasSrq || (words[at + L.WC_OP] & L.WC_RECV_SIDE) === 0) return;
    if (qp.recvsKept === 0) qp.recvFreed = words[at + L.WC_SEQ] | 0;
    qp.recvsKept++;
  }
}

/** Completes requests that ended without the device, after an earlier one failed: a device would flush them. */
function flushConsumed(cq: CqLedger, qp: QpLedger): void {
  while (qp.head !== qp.issued && qp.consumed[qp.head & qp.mask] !== 0) {
    if (((qp.last[qp.head & qp.mask] - qp.realFreed) | 0) >= 0) return;
    cq.push(syntheticCompletion(qp, qp.head, IBV_WC_WR_FLUSH_ERR, 0), 0);
    cq.produced = (cq.produced + 1) | 0;
    qp.head = (qp.head + 1) | 0;
  }
}

/** In a queue pair without rows, frees all requests up to the one that the completion at `at` belongs to. */
function freedUpTo(qp: QpLedger, words: Uint32Array, at: number): void {
  const freed = (words[at + WC_SEQ] + 1) | 0;
  qp.realFreed = freed;
  qp.appFreed = freed;
}
