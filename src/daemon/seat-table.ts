/**
 * The seats at one device as columns, indexed by row. A pass visits thousands of seats, so its cost is the
 * memory it touches for each.
 */
import type { Place } from '../coordinator/layout.ts';
import type { MemberTable } from '../coordinator/member-table.ts';
import * as M from '../coordinator/member-table.ts';
import { NEVER_NS } from '../coordinator/members.ts';
import { LivenessMonitor, type ProcessState } from './liveness.ts';
import type { Row } from './pages.ts';

/** Reports that every member has, whose changes require a decision only where limits exist. */
const STATISTICS = [M.SENT_REQUESTS, M.SENT_BYTES, M.HELD_REQUESTS, M.LATENCY_NS, M.QPS];
/** Those of the rulers lie behind them, and behind what only the daemon writes. */
const FIRST_DECIDING = M.MEMBER.reports.length + M.TENANT.reports.length;
/** Grants of every ruler. */
const ALL_MARKS = 0xffff;
/** Seats processed together, so that their data stays in the nearest cache. */
const BATCH = 64;
const EMPTY = new Float64Array(0);

export class SeatTable {
  private readonly members: MemberTable;
  private readonly places: readonly Place[];
  /** The numbers of columns of a row. */
  private readonly reportCount: number;
  private readonly grantCount: number;
  /** By column of reports. */
  private readonly defaults: Float64Array;
  /** The number of reports that require a decision, and all that are copied unchanged: those first, then statistics. */
  private readonly decidingCount: number;
  private readonly all: Uint8Array;
  /** Reports to rulers of busy mode. */
  private readonly busy: Uint8Array;
  /** What clients write, and what they read. */
  private readonly counters: Float64Array[] = [];
  private readonly grants: Float64Array[] = [];
  /** The time of its last write, as the client wrote it. */
  private readonly clientSeenNs: Float64Array;
  private readonly liveness: LivenessMonitor;
  private readonly pids: Int32Array;
  private readonly silent: Uint8Array;
  /** 1 if the seat reports something to a ruler, so that its silence would change grants. */
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
    this.places = members.layout.places;
    this.reportCount = members.width.reports;
    this.grantCount = members.width.grants;
    this.defaults = Float64Array.from(
      this.places.flatMap(({ reports }) => reports.map((column) => column.default)),
    );
    const columnsOf = (places: readonly Place[]) =>
      Uint8Array.from(
        places.flatMap(({ reports, reportsAt }) => reports.map((_, i) => reportsAt + i)),
      ).filter((column) => column >= FIRST_DECIDING);
    const deciding = columnsOf(this.places.filter(({ isForBusy }) => !isForBusy));
    this.decidingCount = deciding.length;
    this.busy = columnsOf(this.places.filter(({ isForBusy }) => isForBusy));
    this.all = Uint8Array.of(...deciding, ...STATISTICS);
    this.liveness = new LivenessMonitor(capacity, inspectProcess);
    this.pids = new Int32Array(capacity);
    this.clientSeenNs = new Float64Array(capacity);
    this.silent = new Uint8Array(capacity);
    this.active = new Uint8Array(capacity);
  }

  /**
   * Adds a seat. The next pass writes its grants; until then the previous grants stay in row, so a client
   * always reads valid ones.
   */
  add(row: number, { counters, grants }: Row, pid: number, nowNs: number): void {
    while (this.counters.length <= row) {
      this.counters.push(EMPTY);
      this.grants.push(EMPTY);
    }
    this.counters[row] = counters;
    this.grants[row] = grants;
    this.members.marks[row] = ALL_MARKS;
    this.clientSeenNs[row] = 0;
    this.silent[row] = 0;
    this.pids[row] = pid;
    this.liveness.advance(nowNs);
    this.liveness.markAlive(row);
    this.members.counters[row * this.reportCount + M.WRITTEN_NS] = nowNs;
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
    this.liveness.advance(nowNs);
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
    this.liveness.advance(nowNs);
    const hasStateChanged = this.updateLiveness(row, nowNs);
    return this.copy(row, isLimited) || hasStateChanged;
  }

  /**
   * Copies the counters of all clients, those for rulers of busy mode included, and ignores signs of life.
   * @returns whether there is something to decide for other rulers
   */
  readBusy(isLimited: boolean): boolean {
    const all = this.counters;
    const { counters } = this.members;
    let hasChanged = false;
    for (let row = 0; row < all.length; row++) {
      const from = all[row];
      if (from === EMPTY) continue;
      if (this.copy(row, isLimited)) hasChanged = true;
      const at = row * this.reportCount;
      for (let i = 0; i < this.busy.length; i++) counters[at + this.busy[i]] = from[this.busy[i]];
    }
    return hasChanged;
  }

  /** A client is alive if it writes; the time is the daemon's own. @returns whether its state has changed */
  private updateLiveness(row: number, nowNs: number): boolean {
    const from = this.counters[row];
    const { counters } = this.members;
    const at = row * this.reportCount;
    const beat = from[M.HEARTBEAT];
    const seenNs = from[M.WRITTEN_NS];
    if (!Object.is(beat, counters[at + M.HEARTBEAT]) || !Object.is(seenNs, this.clientSeenNs[row])) {
      counters[at + M.HEARTBEAT] = beat;
      this.clientSeenNs[row] = seenNs;
      this.liveness.markAlive(row);
      return this.setSilent(row, 0, nowNs);
    }
    // A silent client stays silent until it gives a sign of life.
    if (this.silent[row] === 1) return false;
    const isSilent = this.liveness.isSilent(row, this.pids[row]);
    return isSilent && this.setSilent(row, 1, nowNs);
  }

  private setSilent(row: number, isSilent: number, nowNs: number): boolean {
    if (isSilent === this.silent[row]) return false;
    this.silent[row] = isSilent;
    this.members.counters[row * this.reportCount + M.WRITTEN_NS] = isSilent === 1 ? NEVER_NS : nowNs;
    return true;
  }

  private copy(row: number, isLimited: boolean): boolean {
    const { defaults } = this;
    const columns = this.all;
    const from = this.counters[row];
    const { counters } = this.members;
    const at = row * this.reportCount;
    const { decidingCount } = this;
    let hasChanged = false;
    let isActive = 0;
    for (let i = 0; i < columns.length; i++) {
      const column = columns[i];
      const value = from[column];
      if (i < decidingCount && value !== defaults[column]) isActive = 1;
      if (counters[at + column] === value) continue;
      counters[at + column] = value;
      if (i < decidingCount || isLimited) hasChanged = true;
    }
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
      const at = row * this.grantCount;
      for (const { mark: ruler, grantsAt, grants: columns } of this.places) {
        if ((mark & ruler) === 0) continue;
        for (let i = grantsAt; i < grantsAt + columns.length; i++) to[i] = grants[at + i];
      }
    }
  }
}
