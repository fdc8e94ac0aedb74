/**
 * The contexts of clients at one device, by place, in columns: a pass goes over thousands of them, and what it touches
 * of each is what it costs.
 */
import type { Members } from '../coordinator/member-table.ts';
import * as M from '../coordinator/member-table.ts';
import { type ProcessState, Silences } from './liveness.ts';
import type { Pages } from './pages.ts';

/** What is copied as it is. Turns are for members of one process; statistics change nobody's grants, but for limits. */
const DECIDING = Uint8Array.of(
  M.MEAN_BYTES,
  M.QUEUE_LENGTH,
  M.ACTIVE_QPS,
  M.LARGE_QPS,
  M.WIRE_GBPS,
  M.AWAITS_ANSWERS,
  M.RATED_QPS,
);
const STATISTICS = [M.SENT_REQUESTS, M.SENT_BYTES, M.HELD_REQUESTS, M.LATENCY_NS, M.QPS];
const ALL = Uint8Array.of(...DECIDING, ...STATISTICS);
/** Places that are looked at together: what is read of them stays in the nearest cache. */
const TOGETHER = 64;
const NOBODY = new Float64Array(0);
/** What the coordinator has as SEEN_NS of who is silent. Of all others it has any time: who is silent is decided here. */
const NEVER_NS = Number.NEGATIVE_INFINITY;
export const ANY_NS = Number.MAX_VALUE;

export class Seats {
  private readonly members: Members;
  /** What clients write, and what they read. */
  private readonly counters: Float64Array[] = [];
  private readonly grants: Float64Array[] = [];
  /** SEEN_NS as the client wrote it last; and when it gave its last sign of life, in the daemon's own time. */
  private readonly seen: Float64Array;
  private readonly spokeNs: Float64Array;
  private readonly silences: Silences;
  private readonly pids: Int32Array;
  /** Classes as identities have them; IDLE: as they send. */
  private readonly declared: Uint8Array;
  private readonly silent: Uint8Array;
  /** 1: its silence would be news. */
  private readonly active: Uint8Array;
  /** How many those are. */
  actives = 0;

  /** @param look at a process that gives no sign of life; null: nothing is known of it */
  constructor(members: Members, look: (pid: number) => ProcessState | null) {
    const { capacity } = members;
    this.members = members;
    this.silences = new Silences(capacity, look);
    this.pids = new Int32Array(capacity);
    this.spokeNs = new Float64Array(capacity);
    this.seen = new Float64Array(capacity);
    this.declared = new Uint8Array(capacity);
    this.silent = new Uint8Array(capacity);
    this.active = new Uint8Array(capacity);
  }

  /** The pass writes its grants; until then the last ones stand there: a client that reads at any time finds some. */
  add(place: number, { counters, grants }: Pages, pid: number, declared: number, nowNs: number): void {
    while (this.counters.length <= place) {
      this.counters.push(NOBODY);
      this.grants.push(NOBODY);
    }
    this.counters[place] = counters;
    this.grants[place] = grants;
    this.members.marks[place] = M.OTHERS_CHANGED;
    this.seen[place] = 0;
    this.declared[place] = declared;
    this.silent[place] = 0;
    this.pids[place] = pid;
    this.spokeNs[place] = nowNs;
    this.silences.spoke(place);
    this.members.counters[place * M.COUNTERS + M.SEEN_NS] = nowNs;
  }

  remove(place: number): void {
    this.counters[place] = NOBODY;
    this.grants[place] = NOBODY;
    this.actives -= this.active[place];
    this.active[place] = 0;
  }

  /** Copies what all clients say. @returns whether there is something to decide */
  readAll(nowNs: number, isLimited: boolean): boolean {
    const all = this.counters;
    let isNews = false;
    this.silences.begin();
    for (let from = 0; from < all.length; from += TOGETHER) {
      const end = Math.min(all.length, from + TOGETHER);
      // In two loops: the first is short enough for the processor to wait for the memory of several pages at a time.
      for (let place = from; place < end; place++) {
        if (all[place] !== NOBODY && this.isOtherwiseAlive(place, nowNs)) isNews = true;
      }
      for (let place = from; place < end; place++) {
        if (all[place] !== NOBODY && this.copy(place, isLimited)) isNews = true;
      }
    }
    return isNews;
  }

  /**
   * Copies what a client says.
   * @param isLimited whether statistics are news, too
   * @returns whether there is something to decide
   */
  read(place: number, nowNs: number, isLimited: boolean): boolean {
    const isOtherwise = this.isOtherwiseAlive(place, nowNs);
    return this.copy(place, isLimited) || isOtherwise;
  }

  /** Whether it lives is told by its writing, in the daemon's own time. @returns whether it is news */
  private isOtherwiseAlive(place: number, nowNs: number): boolean {
    const from = this.counters[place];
    const { counters } = this.members;
    const at = place * M.COUNTERS;
    const beat = from[M.BEAT];
    const seenNs = from[M.SEEN_NS];
    if (!Object.is(beat, counters[at + M.BEAT]) || !Object.is(seenNs, this.seen[place])) {
      counters[at + M.BEAT] = beat;
      this.seen[place] = seenNs;
      this.spokeNs[place] = nowNs;
      this.silences.spoke(place);
      return this.setSilent(place, 0, nowNs);
    }
    // Who is silent is so until it gives a sign.
    if (this.silent[place] === 1) return false;
    const isSilent = this.silences.isSilent(place, this.pids[place], nowNs - this.spokeNs[place]);
    return isSilent && this.setSilent(place, 1, nowNs);
  }

  private setSilent(place: number, isSilent: number, nowNs: number): boolean {
    if (isSilent === this.silent[place]) return false;
    this.silent[place] = isSilent;
    this.members.counters[place * M.COUNTERS + M.SEEN_NS] = isSilent === 1 ? NEVER_NS : nowNs;
    return true;
  }

  private copy(place: number, isLimited: boolean): boolean {
    const columns = isLimited ? ALL : DECIDING;
    const from = this.counters[place];
    const { counters } = this.members;
    const at = place * M.COUNTERS;
    const declared = this.declared[place];
    let isNews = false;
    let kind = from[M.CLASS];
    if (declared !== M.IDLE && kind !== M.IDLE) kind = declared;
    if (counters[at + M.CLASS] !== kind) {
      counters[at + M.CLASS] = kind;
      isNews = true;
    }
    for (let i = 0; i < columns.length; i++) {
      const value = from[columns[i]];
      if (counters[at + columns[i]] === value) continue;
      counters[at + columns[i]] = value;
      isNews = true;
    }
    const isActive = counters[at + M.RATED_QPS] >= 1 || kind !== M.IDLE ? 1 : 0;
    if (isActive === this.active[place]) return isNews;
    this.actives += isActive - this.active[place];
    this.active[place] = isActive;
    return isNews;
  }

  /** The pages of thousands of clients are slow to reach: only those are that have another grant. */
  writeAll(): void {
    const { grants, marks } = this.members;
    for (let place = 0; place < this.grants.length; place++) {
      const mark = marks[place];
      if (mark === 0) continue;
      marks[place] = 0;
      const to = this.grants[place];
      if (to === NOBODY) continue;
      const at = place * M.GRANTS;
      if (mark === M.RATE_CHANGED) to[M.RATE_GBPS] = grants[at + M.RATE_GBPS];
      else for (let i = 0; i < M.GRANTS; i++) to[i] = grants[at + i];
    }
  }
}
