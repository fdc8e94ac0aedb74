/**
 * Tassel in one direction of a link: which queue pair with a rate may send now. Each rate, of a queue pair or of a limit
 * that several share, allows the next piece when the last one ends at that rate (WF2Q+, figure 1 of the paper). Of those
 * that may send, the one whose piece would end first goes first.
 *
 * System time advances by the clock while the rates fit on the link, and otherwise more slowly by their sum over its
 * capacity (Phi), so that each gets its rate over Phi. The formula printed in section 3.1.2 has the inverse, with which a
 * queue pair that joins would wait for long.
 */
import { mostLateNs } from '../../shim/limits/lateness.ts';
import { fitColumn } from '../../shim/tables.ts';
import { IndexHeap } from '../kit/index-heap.ts';
import { NONE, RunQueue } from '../kit/run-queue.ts';
import { ActiveRates } from './active-rates.ts';
import { LIMITS, type RateTable } from './rate-table.ts';
import { Timeline } from './timeline.ts';

/** What a queue pair does: it has nothing to send, and its rates allow the next piece; ... */
const IDLE = 0;
/** ... nothing to send, but the last piece has not ended at its rates, so that it still counts; ... */
const LINGERING = 1;
/** ... it waits for its own rate; for a limit, in the limit's queue; or only for the link. */
const DUE = 2;
const QUEUED = 3;
const ELIGIBLE = 4;

/** Words of the clock: system time, the time of the device at which it was that, and when to ask again. */
const SYSTEM_NS = 0;
const AT_NS = 1;
const WAKE_NS = 2;
/** The time by which the device has recently asked too late, which rates make up for. */
const LATE_NS = 3;
/** The capacity of the link in bytes per ns, what others send of it, and Phi. */
const CAPACITY = 4;
const OTHERS = 5;
const PHI = 6;
/** The system time from which queue pairs without a rate have a turn before all others. */
const REST_FREE_NS = 7;

/** Rates make up for at least this much of lost time; and limits that only some of their queue pairs use, for no more. */
const LEAST_LATE_NS = 5_000;
const MOST_LATE_NS = 50e6;
/** What is left of the last lateness each time that a timer is in time. */
const FORGET = 0.98;
/** A queue pair that could not send makes up for this many times the lateness of timers: polls may be later than these. */
const HELD_LATE = 64;
/** What a piece takes on the wire, as long as that of a queue pair is not known. */
const USUAL_BYTES = 4096;
/** A timer is at least this much later than the present, since sums of doubles are not exact. */
const LEAST_WAIT_NS = 0.5;
/** The part of the link that queue pairs without a rate have in any case. */
const REST_PART = 0.01;

/** The queue pairs with a rate, in one direction. */
export class Tags {
  /** The number of queue pairs that have joined. */
  count = 0;
  /** [0] The device's time, for `next` and `advance`. An array, because V8 allocates a double that is passed to a function. */
  readonly now = new Float64Array(1);
  private readonly rates: RateTable;
  private readonly active: ActiveRates;
  private readonly timeline = new Timeline();
  private readonly eligible = new IndexHeap();
  /** Queue pairs that wait for a limit, a queue for each. */
  private readonly queues = new RunQueue();
  private readonly clock = Float64Array.of(
    0,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    LEAST_LATE_NS,
    1,
    0,
    1,
    0,
  );
  private hasRest = false;
  // By queue pair, and by limit: the system time from which its rate allows the next piece.
  private freeNs: Float64Array = new Float64Array(64);
  private limitFreeNs: Float64Array = new Float64Array(16);
  /** By limit: bytes on the wire since they were last asked for. */
  private spent: Float64Array = new Float64Array(16);
  /** By queue pair: what its next piece probably takes on the wire: as much as the last one. */
  private lengths: Float64Array = new Float64Array(64);
  /** By queue pair: what it does. */
  private states: Uint8Array = new Uint8Array(64);
  /** By limit: the eligible queue pair that it has let go, plus one. */
  private holders: Int32Array = new Int32Array(16);

  /** @param capacity of the link, in bytes on the wire per ns */
  constructor(rates: RateTable, capacity: number) {
    this.rates = rates;
    this.active = new ActiveRates(rates);
    this.clock[CAPACITY] = capacity;
  }

  /** The sum of the rates of active queue pairs, in bytes per ns. */
  get activePerNs(): number {
    return this.active.perNs;
  }

  /** What system time is slowed down by; 1: not at all. */
  get phi(): number {
    return this.clock[PHI];
  }

  /** The number of entries in the timeline. */
  get entries(): number {
    return this.timeline.size;
  }

  /** `next` will be called after `wakeNs`, although the host is not late. */
  ignoreWake(): void {
    this.clock[WAKE_NS] = Number.POSITIVE_INFINITY;
  }

  /** The time by which `next` has recently been asked too late; 0: it has been in time. */
  get lateNs(): number {
    return this.clock[LATE_NS] > LEAST_LATE_NS ? this.clock[LATE_NS] : 0;
  }

  /** When `next` should be asked again after it returned NONE; Infinity: not before a queue pair joins. */
  get wakeNs(): number {
    return this.clock[WAKE_NS];
  }

  /** The rates of queue pairs elsewhere, in bytes per ns, for which the link has to leave room. */
  setOthers(perNs: number): void {
    this.clock[OTHERS] = perNs;
    this.fitPhi();
  }

  /** Whether queue pairs without a rate have something to send. */
  setRest(hasRest: boolean): void {
    if (hasRest === this.hasRest) return;
    this.hasRest = hasRest;
    this.fitPhi();
  }

  /** Whether queue pairs without a rate have had less than their part of the link. `next` must have been called. */
  get isRestDue(): boolean {
    return this.clock[REST_FREE_NS] <= this.clock[SYSTEM_NS];
  }

  /** Queue pairs without a rate have sent this many bytes on the wire. */
  chargeRest(wireBytes: number): void {
    const { clock } = this;
    const fromNs = Math.max(clock[REST_FREE_NS], clock[SYSTEM_NS] - LEAST_LATE_NS);
    clock[REST_FREE_NS] = fromNs + wireBytes / (REST_PART * clock[CAPACITY]);
  }

  private fitPhi(): void {
    const { clock } = this;
    const sum = this.active.perNs + clock[OTHERS] + (this.hasRest ? REST_PART * clock[CAPACITY] : 0);
    clock[PHI] = this.slowdownAt(sum / clock[CAPACITY]);
  }

  /** What system time is slowed down by when rates are this many times as high as the link's. */
  protected slowdownAt(load: number): number {
    return Math.max(1, load);
  }

  /** A queue pair was created. */
  add(qp: number): void {
    this.freeNs = fitColumn(this.freeNs, qp);
    this.lengths = fitColumn(this.lengths, qp);
    this.states = fitColumn(this.states, qp);
    this.freeNs[qp] = 0;
    this.lengths[qp] = USUAL_BYTES;
    this.states[qp] = IDLE;
  }

  /** A limit begins. */
  begin(limit: number): void {
    this.timeline.remove(itemOfLimit(limit));
    this.limitFreeNs = fitColumn(this.limitFreeNs, limit);
    this.holders = fitColumn(this.holders, limit);
    this.spent = fitColumn(this.spent, limit);
    this.spent[limit] = 0;
    this.limitFreeNs[limit] = 0;
    this.holders[limit] = 0;
    this.active.begin(limit);
  }

  /**
   * A queue pair that has left does not count any more: its last piece has ended, its rates are about to change, or it is
   * destroyed. Afterwards, it may join.
   */
  suspend(qp: number): void {
    this.timeline.remove(itemOf(qp));
    if (this.states[qp] === IDLE) return;
    this.states[qp] = IDLE;
    this.active.remove(qp);
    this.fitPhi();
  }

  /** The queue pair's own rate has changed: what is left of its last piece lasts for this many times as long. */
  rescale(qp: number, times: number): void {
    this.freeNs[qp] = this.rescaled(this.freeNs[qp], times);
  }

  /** The rate of a limit, all of whose queue pairs are suspended, has changed. */
  rescaleLimit(limit: number, times: number): void {
    this.timeline.remove(itemOfLimit(limit));
    this.limitFreeNs[limit] = this.rescaled(this.limitFreeNs[limit], times);
  }

  private rescaled(ns: number, times: number): number {
    const nowNs = this.clock[SYSTEM_NS];
    // What is behind comes to no more bytes than before, and takes no longer.
    return nowNs + (ns - nowNs) * (ns > nowNs ? times : Math.min(times, 1));
  }

  /** Whether a limit has been used beyond the present, so that it must be remembered. */
  isAhead(limit: number): boolean {
    return this.limitFreeNs[limit] > this.clock[SYSTEM_NS];
  }

  /**
   * A queue pair has something to send.
   * @param wasHeld whether it has had something to send since it left, but could not send it
   * @param wireBytes what its next piece takes on the wire; 0: as much as the last one
   */
  join(qp: number, wasHeld: boolean, wireBytes = 0): void {
    this.count++;
    if (wireBytes > 0) this.lengths[qp] = wireBytes;
    this.activate(qp, wasHeld);
    this.place(qp, wasHeld);
  }

  /** A queue pair has nothing more to send, or cannot send it now. */
  leave(qp: number): void {
    if (--this.count === 0) this.ignoreWake();
    const state = this.states[qp];
    if (state === QUEUED) this.queues.remove(qp);
    if (state === ELIGIBLE) {
      this.eligible.remove(qp);
      this.letGo(qp);
    }
    this.linger(qp);
  }

  private activate(qp: number, wasHeld: boolean): void {
    const { states } = this;
    if (states[qp] === IDLE) {
      this.begins(qp, wasHeld);
      this.active.add(qp);
      this.fitPhi();
    } else if (states[qp] === LINGERING) this.timeline.remove(itemOf(qp));
    states[qp] = DUE;
  }

  /** What has not been used until now is not made up for, unless the host has been too late for the queue pair to use it. */
  private begins(qp: number, wasHeld: boolean): void {
    const { rates, freeNs, limitFreeNs, clock } = this;
    const lateNs = wasHeld ? Math.min(HELD_LATE * this.lateNs, mostLateNs(rates.lowestNsOf(qp))) : 0;
    const leastNs = clock[SYSTEM_NS] - lateNs;
    freeNs[qp] = Math.max(freeNs[qp], leastNs);
    for (let which = 0; which < LIMITS; which++) {
      const limit = rates.limitOf(qp, which);
      if (limit === NONE || this.active.isUsed(limit)) continue;
      limitFreeNs[limit] = Math.max(limitFreeNs[limit], leastNs);
    }
  }

  /** The queue pair counts as active until its last piece ends at its rates. */
  private linger(qp: number): void {
    const { timeline, states, clock } = this;
    const untilNs = this.allowedNs(qp);
    if (untilNs <= clock[SYSTEM_NS]) {
      this.suspend(qp);
      return;
    }
    states[qp] = LINGERING;
    timeline.due[0] = untilNs;
    timeline.put(itemOf(qp));
  }

  /** The system time from which all rates of a queue pair allow its next piece. */
  private allowedNs(qp: number): number {
    const { rates, limitFreeNs } = this;
    let ns = this.freeNs[qp];
    if (!rates.isLimited(qp)) return ns;
    for (let which = 0; which < LIMITS; which++) {
      const limit = rates.limitOf(qp, which);
      if (limit !== NONE) ns = Math.max(ns, limitFreeNs[limit]);
    }
    return ns;
  }

  /** What all rates of a queue pair allow it to send at once, in bytes. */
  dueBytes(qp: number): number {
    const { rates, clock } = this;
    return Math.floor((clock[SYSTEM_NS] - this.allowedNs(qp)) / rates.lowestNsOf(qp));
  }

  /**
   * Lets a queue pair with something to send wait for its own rate, or else for the others.
   * @param goesOn whether it has had something to send until now, so that its limits have been in use
   */
  private place(qp: number, goesOn: boolean): void {
    const { timeline, clock } = this;
    if (this.freeNs[qp] <= clock[SYSTEM_NS]) {
      this.check(qp, NONE, goesOn);
      return;
    }
    this.states[qp] = DUE;
    timeline.due[0] = this.freeNs[qp];
    timeline.put(itemOf(qp));
  }

  /**
   * Its own rate allows the next piece: lets the queue pair wait for the first limit that does not, or for the link.
   * @param opened a limit whose turn it is, so that its queue does not matter
   */
  private check(qp: number, opened: number, goesOn = false): boolean {
    const { rates, eligible } = this;
    if (rates.isLimited(qp) && !this.passesLimits(qp, opened, goesOn)) return false;
    this.states[qp] = ELIGIBLE;
    eligible.due[0] = this.allowedNs(qp) + this.lengths[qp] * rates.lowestNsOf(qp);
    eligible.put(qp);
    return true;
  }

  private passesLimits(qp: number, opened: number, goesOn: boolean): boolean {
    const { rates, queues, holders, limitFreeNs, freeNs } = this;
    const nowNs = this.clock[SYSTEM_NS];
    // What has not been used because another rate held the queue pair back is not made up for. From the time at which that
    // rate allowed a piece, it was only the link.
    const leastNs = nowNs - this.clock[LATE_NS];
    if (opened !== NONE)
      freeNs[qp] = Math.max(freeNs[qp], Math.min(nowNs, limitFreeNs[opened]) - this.clock[LATE_NS]);
    for (let which = 0; which < LIMITS; which++) {
      const limit = rates.limitOf(qp, which);
      if (limit === NONE) continue;
      const isUnwanted = queues.first(limit) === NONE && holders[limit] === 0;
      if (isUnwanted && limit !== opened && !goesOn)
        limitFreeNs[limit] = Math.max(limitFreeNs[limit], leastNs);
      if (limitFreeNs[limit] <= nowNs && (isUnwanted || (limit === opened && holders[limit] === 0))) continue;
      this.states[qp] = QUEUED;
      queues.push(qp, limit);
      this.arm(limit);
      return false;
    }
    for (let which = 0; which < LIMITS; which++) {
      const limit = rates.limitOf(qp, which);
      if (limit !== NONE) holders[limit] = qp + 1;
    }
    return true;
  }

  /** If queue pairs wait for a limit, its turn comes when its rate allows a piece. */
  private arm(limit: number): void {
    const { timeline, holders } = this;
    if (holders[limit] !== 0 || this.queues.first(limit) === NONE || timeline.has(itemOfLimit(limit))) return;
    timeline.due[0] = this.limitFreeNs[limit];
    timeline.put(itemOfLimit(limit));
  }

  /** A queue pair that limits have let go is done: their queues continue. */
  private letGo(qp: number): void {
    const { rates, holders } = this;
    if (!rates.isLimited(qp)) return;
    for (let which = 0; which < LIMITS; which++) {
      const limit = rates.limitOf(qp, which);
      if (limit === NONE || holders[limit] !== qp + 1) continue;
      holders[limit] = 0;
      this.arm(limit);
    }
  }

  /** The queue pair that may send now (`now`) and would end first; NONE: none before `wakeNs`. */
  next(): number {
    const { clock, eligible } = this;
    const nowNs = this.now[0];
    if (nowNs >= clock[WAKE_NS]) {
      const lateNs = Math.min(nowNs - clock[WAKE_NS], MOST_LATE_NS);
      clock[LATE_NS] = Math.max(LEAST_LATE_NS, lateNs, FORGET * clock[LATE_NS]);
    }
    clock[WAKE_NS] = Number.POSITIVE_INFINITY;
    this.advance();
    if (eligible.size > 0) return eligible.first;
    if (this.count > 0) {
      const waitNs = (this.timeline.nextNs - clock[SYSTEM_NS]) * clock[PHI];
      clock[WAKE_NS] = nowNs + Math.max(waitNs, LEAST_WAIT_NS);
    }
    return NONE;
  }

  /** Advances system time to the device's time (`now`). What becomes due on the way changes its pace. */
  advance(): void {
    const { clock, timeline } = this;
    const nowNs = this.now[0];
    // The device's time may jump back, or this is the first event.
    if (!(nowNs >= clock[AT_NS])) clock[AT_NS] = nowNs;
    for (;;) {
      const untilNs = clock[SYSTEM_NS] + (nowNs - clock[AT_NS]) / clock[PHI];
      timeline.due[0] = untilNs;
      if (untilNs >= timeline.quiet[0]) timeline.seek();
      const firstNs = timeline.firstNs[0];
      if (firstNs > untilNs) {
        clock[SYSTEM_NS] = untilNs;
        clock[AT_NS] = nowNs;
        return;
      }
      if (firstNs > clock[SYSTEM_NS]) {
        clock[AT_NS] += (firstNs - clock[SYSTEM_NS]) * clock[PHI];
        clock[SYSTEM_NS] = firstNs;
      }
      this.onDue(timeline.shift());
    }
  }

  private onDue(item: number): void {
    const index = item >> 1;
    if (item !== itemOf(index)) this.open(index);
    else if (this.states[index] === LINGERING) this.suspend(index);
    else this.check(index, NONE);
  }

  /** A limit allows a piece: the first queue pair in its queue that no other limit holds back may send. */
  private open(limit: number): void {
    const { queues } = this;
    if (this.limitFreeNs[limit] > this.clock[SYSTEM_NS] || this.holders[limit] !== 0) {
      this.arm(limit);
      return;
    }
    for (let qp = queues.shift(limit); qp !== NONE; qp = queues.shift(limit))
      if (this.check(qp, limit)) return;
  }

  /** The queue pair that `next` returned has sent this many bytes on the wire, and may have more. */
  charge(qp: number, wireBytes: number): void {
    this.eligible.remove(qp);
    this.lengths[qp] = wireBytes;
    this.take(qp, wireBytes);
    this.letGo(qp);
    this.place(qp, true);
  }

  /** Moves the times from which the rates of a queue pair allow the next piece. */
  private take(qp: number, wireBytes: number): void {
    const { rates, clock, freeNs, limitFreeNs } = this;
    const nowNs = clock[SYSTEM_NS];
    const ownNs = rates.ownNsOf(qp);
    freeNs[qp] = Math.max(freeNs[qp], nowNs - mostLateNs(ownNs)) + wireBytes * ownNs;
    if (!rates.isLimited(qp)) return;
    for (let which = 0; which < LIMITS; which++) {
      const limit = rates.limitOf(qp, which);
      if (limit === NONE) continue;
      const ns = rates.nsOf(limit);
      limitFreeNs[limit] = Math.max(limitFreeNs[limit], nowNs - mostLateNs(ns)) + wireBytes * ns;
      this.spent[limit] += wireBytes;
    }
  }

  /** The bytes on the wire that the queue pairs of a limit have sent since the last call. */
  takeSpentBytes(limit: number): number {
    const bytes = this.spent[limit];
    this.spent[limit] = 0;
    return bytes;
  }

  /**
   * Whether a queue pair with nothing that waits may send this many bytes on the wire now, which are then charged. Time
   * must have been advanced.
   */
  pass(qp: number, wireBytes: number): boolean {
    const { rates, clock, holders, queues } = this;
    if (this.states[qp] > LINGERING || this.allowedNs(qp) > clock[SYSTEM_NS]) return false;
    for (let which = 0; which < LIMITS; which++) {
      const limit = rates.limitOf(qp, which);
      if (limit !== NONE && (holders[limit] !== 0 || queues.first(limit) !== NONE)) return false;
    }
    this.activate(qp, false);
    this.take(qp, wireBytes);
    this.linger(qp);
    return true;
  }
}

const itemOf = (qp: number) => qp << 1;
const itemOfLimit = (limit: number) => (limit << 1) | 1;
