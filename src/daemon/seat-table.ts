/**
 * The seats at one device as columns, indexed by row. A pass visits thousands of seats, so its cost is the
 * memory it touches for each.
 */
import type { MemberTable } from '../coordinator/member-table.ts';
import * as M from '../coordinator/member-table.ts';
import { LivenessMonitor, type ProcessState } from './liveness.ts';
import type { Pages } from './pages.ts';

/**
 * Columns that are copied unchanged. Tenant slots concern members of one process only. Statistics affect
 * grants only where limits exist.
 */
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
/** Seats processed together, so that their data stays in the nearest cache. */
const BATCH = 64;
const EMPTY = new Float64Array(0);
/**
 * SEEN_NS as the coordinator sees it for a silent client; for all others it is an arbitrary time, because
 * silence is decided here.
 */
const NEVER_NS = Number.NEGATIVE_INFINITY;
export const ANY_NS = Number.MAX_VALUE;

export class SeatTable {
  private readonly members: MemberTable;
  /** What clients write, and what they read. */
  private readonly counters: Float64Array[] = [];
  private readonly grants: Float64Array[] = [];
  /** SEEN_NS as the client last wrote it, and the last sign of life in the daemon's own time. */
  private readonly clientSeenNs: Float64Array;
  private readonly lastSignNs: Float64Array;
  private readonly liveness: LivenessMonitor;
  private readonly pids: Int32Array;
  /** Classes as identities declare them; IDLE means that the class follows from what is sent. */
  private readonly declared: Uint8Array;
  private readonly silent: Uint8Array;
  /** 1 if silence of this seat would change grants. */
  private readonly active: Uint8Array;
  /** Number of active seats. */
  activeCount = 0;

  /**
   * @param inspectProcess returns the state of a process that gives no sign of life, or null if nothing is
   * known of it
   */
  constructor(members: MemberTable, inspectProcess: (pid: number) => ProcessState | null) {
    const { capacity } = members;
    this.members = members;
    this.liveness = new LivenessMonitor(capacity, inspectProcess);
    this.pids = new Int32Array(capacity);
    this.lastSignNs = new Float64Array(capacity);
    this.clientSeenNs = new Float64Array(capacity);
    this.declared = new Uint8Array(capacity);
    this.silent = new Uint8Array(capacity);
    this.active = new Uint8Array(capacity);
  }

  /**
   * Adds a seat. The next pass writes its grants; until then the previous grants stay in row, so a client
   * always reads valid ones.
   */
  add(row: number, { counters, grants }: Pages, pid: number, declared: number, nowNs: number): void {
    while (this.counters.length <= row) {
      this.counters.push(EMPTY);
      this.grants.push(EMPTY);
    }
    this.counters[row] = counters;
    this.grants[row] = grants;
    this.members.marks[row] = M.ISOLATION_CHANGED;
    this.clientSeenNs[row] = 0;
    this.declared[row] = declared;
    this.silent[row] = 0;
    this.pids[row] = pid;
    this.lastSignNs[row] = nowNs;
    this.liveness.markAlive(row);
    this.members.counters[row * M.COUNTERS + M.WRITTEN_NS] = nowNs;
  }

  remove(row: number): void {
    this.counters[row] = EMPTY;
    this.grants[row] = EMPTY;
    this.activeCount -= this.active[row];
    this.active[row] = 0;
  }

  /** Copies the counters of all clients. @returns whether there is something to decide */
  readAll(nowNs: number, isLimited: boolean): boolean {
    const all = this.counters;
    let hasChanged = false;
    this.liveness.beginPass();
    for (let from = 0; from < all.length; from += BATCH) {
      const end = Math.min(all.length, from + BATCH);
      // Two loops: the first one is short enough for the processor to fetch several pages in parallel.
      for (let row = from; row < end; row++) {
        if (all[row] !== EMPTY && this.updateLiveness(row, nowNs)) hasChanged = true;
      }
      for (let row = from; row < end; row++) {
        if (all[row] !== EMPTY && this.copy(row, isLimited)) hasChanged = true;
      }
    }
    return hasChanged;
  }

  /**
   * Copies the counters of one client.
   * @param isLimited whether changed statistics require a decision too
   * @returns whether there is something to decide
   */
  read(row: number, nowNs: number, isLimited: boolean): boolean {
    const hasStateChanged = this.updateLiveness(row, nowNs);
    return this.copy(row, isLimited) || hasStateChanged;
  }

  /** A client is alive if it writes; the time is the daemon's own. @returns whether its state has changed */
  private updateLiveness(row: number, nowNs: number): boolean {
    const from = this.counters[row];
    const { counters } = this.members;
    const at = row * M.COUNTERS;
    const beat = from[M.HEARTBEAT];
    const seenNs = from[M.WRITTEN_NS];
    if (!Object.is(beat, counters[at + M.HEARTBEAT]) || !Object.is(seenNs, this.clientSeenNs[row])) {
      counters[at + M.HEARTBEAT] = beat;
      this.clientSeenNs[row] = seenNs;
      this.lastSignNs[row] = nowNs;
      this.liveness.markAlive(row);
      return this.setSilent(row, 0, nowNs);
    }
    // A silent client stays silent until it gives a sign of life.
    if (this.silent[row] === 1) return false;
    const isSilent = this.liveness.isSilent(row, this.pids[row], nowNs - this.lastSignNs[row]);
    return isSilent && this.setSilent(row, 1, nowNs);
  }

  private setSilent(row: number, isSilent: number, nowNs: number): boolean {
    if (isSilent === this.silent[row]) return false;
    this.silent[row] = isSilent;
    this.members.counters[row * M.COUNTERS + M.WRITTEN_NS] = isSilent === 1 ? NEVER_NS : nowNs;
    return true;
  }

  private copy(row: number, isLimited: boolean): boolean {
    const columns = isLimited ? ALL : DECIDING;
    const from = this.counters[row];
    const { counters } = this.members;
    const at = row * M.COUNTERS;
    const declared = this.declared[row];
    let hasChanged = false;
    let kind = from[M.CLASS];
    if (declared !== M.IDLE && kind !== M.IDLE) kind = declared;
    if (counters[at + M.CLASS] !== kind) {
      counters[at + M.CLASS] = kind;
      hasChanged = true;
    }
    for (let i = 0; i < columns.length; i++) {
      const value = from[columns[i]];
      if (counters[at + columns[i]] === value) continue;
      counters[at + columns[i]] = value;
      hasChanged = true;
    }
    const isActive = counters[at + M.RATED_QPS] >= 1 || kind !== M.IDLE ? 1 : 0;
    if (isActive === this.active[row]) return hasChanged;
    this.activeCount += isActive - this.active[row];
    this.active[row] = isActive;
    return hasChanged;
  }

  /** Writes only changed grants, because the pages of thousands of clients are slow to reach. */
  writeAll(): void {
    const { grants, marks } = this.members;
    for (let row = 0; row < this.grants.length; row++) {
      const mark = marks[row];
      if (mark === 0) continue;
      marks[row] = 0;
      const to = this.grants[row];
      if (to === EMPTY) continue;
      const at = row * M.GRANTS;
      if (mark === M.RATE_CHANGED) to[M.RATE_GBPS] = grants[at + M.RATE_GBPS];
      else for (let i = 0; i < M.GRANTS; i++) to[i] = grants[at + i];
    }
  }
}
