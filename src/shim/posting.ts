/** postSend and postRecv: which requests go straight to the device, and which are held. */
import { EINVAL, ENOMEM, ISO_SEND_INTERNAL, ISO_WR_ENABLE, ISO_WR_WAIT } from '../verbs/constants.ts';
import { PolicyError, shown } from '../verbs/errors.ts';
import { handleIndex } from '../verbs/handles.ts';
import * as L from '../verbs/layout.ts';
import type { Provider } from '../verbs/provider.ts';
import { BYTES, HELD, SEEN } from './counters.ts';
import type { Feeder } from './feeder.ts';
import { plainBytes, plainBytesOf } from './plain-requests.ts';
import type { Policy } from './policy.ts';
import type { QpLedger } from './qp-ledger.ts';
import type { KnownRing, Tables } from './tables.ts';
import type { Timers } from './timers/timers.ts';
import { crossChannelReason, fixTarget, isCrossChannel } from './wait/cross-channel.ts';

// Used in each post; a module's own constants cost nothing (plain-requests.ts).
const indexOf = handleIndex;
const { within } = L;
const sum = plainBytesOf;
const IN_SEEN = SEEN;
const { REASON_NONE } = L;

export class Posting {
  private readonly policy: Policy;
  private readonly next: Provider;
  private readonly tables: Tables;
  private readonly feeder: Feeder;
  private readonly timers: Timers;
  private isLimiting = false;
  private readonly qps: Tables['qps'];
  private readonly rings: Tables['wrRings'];
  private readonly countsBytes: boolean;
  /** Whether `onload` counts the bytes of the requests that it passes. */
  private readonly policyCountsBytes: boolean;

  constructor(policy: Policy, next: Provider, tables: Tables, feeder: Feeder) {
    this.policy = policy;
    this.next = next;
    this.tables = tables;
    this.qps = tables.qps;
    this.rings = tables.wrRings;
    this.feeder = feeder;
    this.timers = feeder.timers;
    this.countsBytes = policy.statistics === true;
    this.policyCountsBytes = policy.statistics === 'itself';
    this.limits();
  }

  /** Notes whether the policy limits posts at present. */
  limits(): void {
    this.isLimiting = this.policy.admit !== undefined;
  }

  postSend(handle: number, ring: number, start: number, count: number): number {
    const qp = this.qps[indexOf(handle)];
    const known = this.rings[indexOf(ring)];
    if (qp === undefined || known === undefined || qp.handle !== handle || known.handle !== ring) {
      return this.next.postSend(handle, ring, start, count);
    }
    if (!within(known.capacity, start, count)) return this.next.postSend(handle, ring, start, count);
    if (this.timers.isCheckDueIn(qp.context)) {
      this.timers.check(qp.context);
      if (qp.context.latencyProbe.isArmed) return this.postProbed(qp, ring, known, start, count);
    }
    const freeSlots = (qp.appDepth - (qp.appPosted - qp.appFreed)) | 0;
    if (qp.plainBelow > 0 && count > 0 && count <= freeSlots) {
      const left = (qp.plainLeft - count) | 0;
      const bytes = left < 0 ? -1 : sum(known.words, start, count, qp.plainBelow, qp.plainMask, qp.plainOp);
      if (bytes >= 0) {
        qp.plainLeft = left;
        const taken = this.next.postSend(handle, ring, start, count);
        qp.countPlain(known.words, start, taken, bytes);
        if (taken < count) qp.counts[BYTES] -= bytes - plainBytes(known.words, start, taken);
        return taken;
      }
    }
    return this.decide(qp, ring, known, start, count, freeSlots);
  }

  /** The latency of one request of this post may be measured. */
  private postProbed(qp: QpLedger, ring: number, { words }: KnownRing, start: number, count: number): number {
    const { handle, latencyProbe } = qp.context;
    latencyProbe.beginPost(qp, words, start, count, this.next.nowNs(handle));
    const taken = this.postSend(qp.handle, ring, start, count);
    latencyProbe.endPost();
    return taken;
  }

  /** Lets the limiter and the policy decide about a post. */
  private decide(
    qp: QpLedger,
    ring: number,
    known: KnownRing,
    start: number,
    count: number,
    freeSlots: number,
  ): number {
    const { words } = known;
    const free = count < freeSlots ? count : freeSlots;
    const most = this.isLimiting ? this.admitted(qp, words, start, free) : free;
    let n = 0;
    const { limiter } = qp.context;
    const allowed = limiter === null ? most : limiter.admit(qp, words, start, most);
    const { share } = qp;
    if (share !== null && share.group !== null) this.feeder.sharing!.lanes.prepare(qp);
    if (qp.mayBypass && share?.holdsPosts !== true) {
      const { issuer } = this.feeder;
      // Pieces of earlier requests may fill the device's queue, while the application's has room.
      const passable = qp.translated ? Math.max(0, Math.min(allowed, issuer.freeSlots(qp))) : allowed;
      const straight = this.policy.onload(qp, words, start, passable, issuer);
      if (straight >>> 0 !== straight || straight > passable)
        throw wrongCount(this.policy, straight, passable);
      if (share === null || share.carrier === null)
        n = this.straight(qp, ring, words, known, start, straight);
      else n = this.carry(qp, words, known, start, straight);
      if (n < 0) {
        qp.counts[SEEN] += -1 - n;
        limiter?.posted(qp);
        return -1 - n;
      }
    }
    if (n < most) n += this.holdRest(qp, words, known, start + n, most - n);
    qp.counts[IN_SEEN] += n;
    limiter?.posted(qp);
    if (n === count) refuse(words, 0, REASON_NONE);
    else if (n === most) refuse(words, ENOMEM, most < free ? L.REASON_LIMIT : L.REASON_QUEUE_FULL);
    return n;
  }

  private admitted(qp: QpLedger, words: Uint32Array, start: number, count: number): number {
    const n = this.policy.admit?.(qp, words, start, count, this.feeder.issuer) ?? count;
    return Math.max(0, Math.min(n, count));
  }

  /** Straight to the device, but receives whose completions the shim keeps still occupy their slots. */
  postRecv(handle: number, ring: number, start: number, count: number): number {
    const qp = this.tables.qps[handleIndex(handle)];
    const known = this.tables.wrRings[handleIndex(ring)];
    if (qp === undefined || qp.handle !== handle || qp.hasSrq || known === undefined) {
      return this.next.postRecv(handle, ring, start, count);
    }
    const { words } = known;
    if (known.handle !== ring || !L.within(known.capacity, start, count)) {
      return this.next.postRecv(handle, ring, start, count);
    }
    if (qp.share?.exchange?.held != null) {
      return this.feeder.sharing!.twoSided.postRecv(qp, qp.share.exchange, known, start, count);
    }
    const freeSlots = qp.recvsKept === 0 ? count : (qp.recvDepth - (qp.recvPosted - qp.recvFreed)) | 0;
    const taken = this.next.postRecv(handle, ring, start, Math.min(freeSlots, count));
    qp.recvPosted = (qp.recvPosted + taken) | 0;
    qp.recvCq.soleSender = null;
    if (qp.inbox !== null) qp.inbox.note(words, start, taken);
    if (taken === freeSlots && taken < count) refuse(words, ENOMEM, L.REASON_QUEUE_FULL);
    return taken;
  }

  /** Posts requests from the application's own ring; -1 - n when the device took only n. */
  private straight(
    qp: QpLedger,
    ring: number,
    words: Uint32Array,
    known: KnownRing,
    start: number,
    count: number,
  ): number {
    if (count === 0) return 0;
    const taken = this.next.postSend(qp.handle, ring, start, count);
    if (qp.outbox !== null) qp.outbox.countStraight(words, start, taken);
    qp.share?.exchange?.countStraight(words, start, taken);
    if (!qp.translated) {
      qp.countStraight(words, start, taken);
      if (this.countsBytes) qp.countBytes(words, start, taken, known.capacity, known.extBytes);
    } else {
      for (let i = 0; i < taken; i++) {
        const ext = L.extAt(start + i, known.capacity, known.extBytes);
        qp.passThrough(words, L.HEADER_WORDS + (start + i) * L.SLOT_WORDS, ext, !this.policyCountsBytes);
      }
    }
    if (this.policyCountsBytes && taken < count) {
      qp.countBytes(words, start + taken, count - taken, known.capacity, known.extBytes, -1);
    }
    qp.countDepth();
    return taken === count ? taken : -1 - taken;
  }

  /** Issues requests that may go straight, which another queue pair carries. */
  private carry(qp: QpLedger, words: Uint32Array, known: KnownRing, start: number, count: number): number {
    const n = this.hold(qp, words, known, start, count);
    qp.counts[HELD] -= n;
    if (this.policyCountsBytes) {
      for (let i = 1; i <= n; i++) qp.counts[BYTES] -= qp.bytes[(qp.appPosted - i) & qp.mask];
    }
    this.feeder.issueWhole(qp, n);
    return n;
  }

  private holdRest(qp: QpLedger, words: Uint32Array, known: KnownRing, start: number, count: number): number {
    const n = this.hold(qp, words, known, start, count);
    if (n > 0) this.feeder.feed(qp);
    return n;
  }

  private hold(qp: QpLedger, words: Uint32Array, known: KnownRing, start: number, count: number): number {
    let n = 0;
    while (n < count) {
      if (this.validateSend(qp.handle, known.handle, start + n) !== 0) {
        // The queue pair fails, as at a post whose memory was detached.
        if (words[L.HDR_REASON] === L.REASON_DETACHED) this.feeder.fail(qp);
        break;
      }
      if (!qp.translated) this.feeder.beginTranslating(qp);
      const row = qp.appPosted & qp.mask;
      qp.hold(words, start + n, known.capacity, known.extBytes);
      this.noteWait(qp, row * qp.stride);
      n++;
    }
    return n;
  }

  /** The target of a WAIT or ENABLE is fixed when it is posted. */
  private noteWait(qp: QpLedger, at: number): void {
    const op = qp.held[at + L.WR_OP];
    if (qp.share !== null) this.feeder.sharing!.lanes.note(qp, op & 0xff);
    if ((op & 0xff) < ISO_WR_WAIT || this.policy.crossChannel !== true) return;
    if ((op & (ISO_SEND_INTERNAL << 8)) === 0) qp.usesWaits = true;
    if (isCrossChannel(qp.held, at)) fixTarget(this.tables, qp, at);
  }

  /** Validates as the device would; requests that the shim executes itself never reach the device. */
  validateSend(handle: number, ring: number, index: number): number {
    const known = this.tables.wrRings[handleIndex(ring)];
    const qp = this.tables.qp(handle);
    if (known?.handle !== ring || qp === undefined || !L.within(known.capacity, index, 1)) {
      return this.next.validateSend(handle, ring, index);
    }
    const { words } = known;
    const at = L.slotAt(index);
    if (!this.executes(words, at)) return this.next.validateSend(handle, ring, index);
    const reason = crossChannelReason(this.tables, qp, words, at);
    if (reason === L.REASON_NONE) return 0;
    refuse(words, EINVAL, reason);
    return EINVAL;
  }

  private executes(words: Uint32Array, at: number): boolean {
    const opcode = words[at + L.WR_OP] & 0xff;
    if (opcode !== ISO_WR_WAIT && opcode !== ISO_WR_ENABLE) return false;
    return isCrossChannel(words, at) ? this.policy.crossChannel === true : this.policy.zeroWaits === true;
  }
}

function refuse(words: Uint32Array, errno: number, reason: number): void {
  words[L.HDR_ERRNO] = errno;
  words[L.HDR_REASON] = reason;
}

function wrongCount({ name }: Policy, count: unknown, most: number): PolicyError {
  return new PolicyError(
    `policy '${name}': onload must return the number of requests to pass, from 0 to ${most}, got ${shown(count)}`,
  );
}
