/**
 * The members that share a device, one row for each (a context of a tenant), in typed columns over one buffer that
 * threads may share. A member writes its counters and the coordinator its grants, so each element has one writer.
 */

import { SUM_NAMES } from '../shim/counters.ts';
import type { Labels } from '../verbs/labels.ts';
import {
  type Columned,
  type Directory,
  Layout,
  MAX_RULERS,
  type Place,
  type Position,
  type RowWidth,
} from './layout.ts';
import type { TargetRates } from './rates.ts';
import type { Column, MemberColumns } from './ruler.ts';
import { tenantId } from './tenants.ts';

/**
 * The columns that every member has, whatever its policy: signs of life, usage, and what the shim enforces. Those of
 * rulers follow behind (layout.ts).
 */
/** When it last wrote. */
export const WRITTEN_NS = 0;
/** Changes with each write: a member whose heartbeat stands still is stopped or dead, whatever its clock says. */
export const HEARTBEAT = 1;
/** Requests that the application has posted since the context was opened, and the bytes of their messages. */
export const SENT_REQUESTS = 2;
export const SENT_BYTES = 3;
/** Requests held at present. */
export const HELD_REQUESTS = 4;
/** Time from post to the poll that returns the completion, smoothed over sampled requests. */
export const LATENCY_NS = 5;
/** Number of queue pairs, including one that is about to be created under a limit. */
export const QPS = 6;
/**
 * What was taken from the buckets of the member's tenant since the context was opened: requests under a limit, and bytes
 * on the wire under a rate.
 */
export const PAID_REQUESTS = 7;
export const PAID_BYTES = 8;
/** Sums for monitoring, in the order of SUM_NAMES; no ruler reads them. */
export const SUMS = 9;

/** Columns of grants, which the coordinator writes. */
/**
 * Limits; 0: none, negative: nothing at all. The total number of queue pairs that the member may have, and its part of
 * the requests that its tenant may issue per second.
 */
export const MAX_QPS = 0;
export const MAX_REQUESTS_PER_S = 1;
/** The number of queue pairs (QPS) for which MAX_QPS holds. */
export const COUNTED_QPS = 2;
/** The requests that all members of the tenant together may issue per second, which is the most that a process may issue. */
export const TENANT_REQUESTS_PER_S = 3;
/** Granted instead of 0, which means no limit. */
export const NONE_ALLOWED = -1;

const ANY = { min: Number.NEGATIVE_INFINITY, max: Number.POSITIVE_INFINITY, default: 0 };
const count = (name: string, unit: string): Column => ({ name, unit, min: 0, max: 2 ** 53, default: 0 });

/** The columns of every member, in the order of the numbers above. */
export const MEMBER: Columned = {
  name: 'member',
  reports: [
    { name: 'writtenNs', unit: 'ns', ...ANY },
    { name: 'heartbeat', unit: 'any number', ...ANY },
    count('sentRequests', 'requests'),
    count('sentBytes', 'bytes'),
    count('heldRequests', 'requests'),
    count('latencyNs', 'ns'),
    count('qps', 'queue pairs'),
    count('paidRequests', 'requests'),
    count('paidBytes', 'bytes on the wire'),
    ...SUM_NAMES.map((name) => count(name, name === 'latencySumNs' ? 'ns' : 'requests')),
  ],
  grants: [
    { name: 'maxQps', unit: 'queue pairs', ...ANY },
    { name: 'maxRequestsPerS', unit: 'requests/s', ...ANY, joining: NONE_ALLOWED },
    { name: 'countedQps', unit: 'queue pairs', ...ANY, joining: 0 },
    { name: 'tenantRequestsPerS', unit: 'requests/s', ...ANY },
  ],
};

/**
 * What is declared of a member's tenant, in columns that only the owner of the table writes. Rulers read them by name,
 * as `members.report('weight', TENANT)`. All members of a tenant have the same values in a daemon; in a process, each
 * has the labels of its context.
 */
export const TENANT: Columned = {
  name: 'tenant',
  reports: [
    { name: 'weight', unit: 'share relative to other tenants', min: 1e-6, max: 1e6, default: 1 },
    { name: 'gbps', unit: 'fixed rate in Gbit/s; 0: a share', min: 0, max: 1e6, default: 0 },
    { name: 'traffic', unit: 'ISO_TRAFFIC_*', min: 0, max: 3, default: 0 },
    { name: 'maxQps', unit: 'queue pairs; 0: no limit', min: 0, max: 2 ** 53, default: 0 },
    { name: 'maxRequestsPerS', unit: 'requests/s; 0: no limit', min: 0, max: 1e15, default: 0 },
  ],
  grants: [],
};

/** Indices of the reports of TENANT. */
export const WEIGHT = 0;
export const GBPS = 1;
export const TRAFFIC = 2;
export const QP_LIMIT = 3;
export const REQUEST_LIMIT = 4;

// Words of the header.
/** Odd while a thread holds the lock; changes each time. */
const LOCK = 0;
/** Incremented at each join and leave. */
const VERSION = 1;
/** One more than the highest row ever taken. */
const ROW_LIMIT = 2;
const HEADER_WORDS = 16;

/** An entry of the directory of rulers: a hash of its names, then its numbers of reports and of grants. */
const COUNT_BITS = 10n;
const COUNT_MASK = 1023n;
const HASH_BITS = 43;

/** Default number of rows, and of columns in each. */
export const DEFAULT_CAPACITY = 4096;
const DEFAULT_WIDTH: RowWidth = { reports: 96, grants: 64 };
/** Behind the members: a row of all columns' defaults, and the device's own row, for what all threads must know. */
const EXTRA_ROWS = 2;

/** A thread that has held the lock for this long is taken to have died with it. */
const LOCK_TIMEOUT_NS = 1e8;

/**
 * The columns that one member shares with its coordinator. Where the coordinator is elsewhere, the arrays are replaced
 * when the connection comes or goes, so callers must not keep references to them.
 */
export interface MemberPage {
  readonly row: number;
  /** The columns of every member. */
  readonly counters: Float64Array;
  readonly grants: Float64Array;
  /** The columns of a ruler. Returns one object for each ruler. */
  columns(ruler: Columned): MemberColumns;
  /** Labels that a coordinator elsewhere gives to the member. */
  readonly labels?: Partial<Labels>;
  /** Weights of groups of the member's tenant that a coordinator elsewhere gives to it. */
  readonly groups?: ReadonlyMap<string, number>;
  /** Rates of groups and queue pairs that a coordinator elsewhere gives to the member. */
  readonly rates?: TargetRates;
  /** Tells that coordinator how many queue pairs of the member have each of these rates, in their order. */
  countRated?(qps: readonly number[]): void;
  /** The tenant to which a coordinator elsewhere has assigned the member; absent: it has assigned none. */
  readonly assignedTenant?: string;
  /**
   * Waits until a coordinator elsewhere has granted something to the member or its tenant, or is known not to. Absent:
   * the coordinator is in this process.
   * @throws NoResourcesError if the coordinator has no seat for the member
   */
  awaitGrants?(): void;
  /**
   * Called from time to time between the program's calls: as `beat`, also for a policy that does not call it. Returns
   * whether grants may have changed that the event loop, which is blocked, has not announced.
   */
  pulse?(): boolean;
  /** Waits until a coordinator elsewhere has read the number of queue pairs in the counters. */
  awaitCounted?(): void;
  /** Whether a coordinator elsewhere has stopped to change the grants that are its signs of life (Column.orphaned). */
  readonly isStalled?: boolean;
  /**
   * Gives a sign of life, and receives grants of a coordinator elsewhere. A policy calls it when it reads its grants,
   * because the event loop of a program that polls may never run.
   */
  beat(): void;
}

/** The size of the buffer for `capacity` members, in bytes. Two more rows are no members'. */
export function memberTableBytes(capacity: number, width: RowWidth = DEFAULT_WIDTH): number {
  const rowBytes = (1 + width.reports + width.grants) * 8;
  return HEADER_WORDS * 4 + MAX_RULERS * 8 + 2 * capacity * 4 + rowBytes * (capacity + EXTRA_ROWS);
}

/**
 * Allocates memory for the coordinator of one device, to be passed to `shareCoordinator` in each thread. Few of its
 * megabytes are ever touched. V8 reserves growable memory page by page, so that the rest costs nothing, even if it can
 * grow no further. It is shared even within one thread, because V8 would count all bytes of an ArrayBuffer as used, and
 * collect garbage after every few devices.
 */
export function coordinatorMemory(): SharedArrayBuffer {
  const bytes = memberTableBytes(DEFAULT_CAPACITY);
  return new SharedArrayBuffer(bytes, { maxByteLength: bytes });
}

export class MemberTable implements Directory {
  readonly buffer: ArrayBufferLike;
  readonly capacity: number;
  readonly width: RowWidth;
  readonly layout: Layout;
  private readonly header: Int32Array;
  /** By ruler, in the order of their columns; 0: none yet. */
  private readonly directory: BigUint64Array;
  /** By row: 0 free, 1 taken, 2 being initialised. */
  private readonly rowStates: Int32Array;
  /** By row: the tenant's number. */
  readonly tenantIds: Float64Array;
  readonly counters: Float64Array;
  readonly grants: Float64Array;
  /** By row: the rulers (Place.mark) whose grants this view has changed since they were last copied. */
  readonly marks: Uint16Array;
  /**
   * The lock value of this view's last acquisition; the value another holder had when first seen, and when that was.
   */
  private lock = 0;
  private heldLock = 0;
  private heldNs = 0;
  /** The rate of the device's link in Gbit/s; 0: unknown. */
  linkGbps = 0;

  /** @param buffer zeros, or the buffer of another thread's MemberTable of the same capacity and width */
  constructor(buffer: ArrayBufferLike, capacity: number = DEFAULT_CAPACITY, width: RowWidth = DEFAULT_WIDTH) {
    this.buffer = buffer;
    this.capacity = capacity;
    this.width = width;
    this.marks = new Uint16Array(capacity + EXTRA_ROWS);
    this.header = new Int32Array(buffer, 0, HEADER_WORDS);
    let at = HEADER_WORDS * 4;
    this.directory = new BigUint64Array(buffer, at, MAX_RULERS);
    at += 8 * MAX_RULERS;
    this.rowStates = new Int32Array(buffer, at, capacity);
    at += 2 * capacity * 4;
    const rows = capacity + EXTRA_ROWS;
    this.tenantIds = new Float64Array(buffer, at, rows);
    at += 8 * rows;
    this.counters = new Float64Array(buffer, at, width.reports * rows);
    at += 8 * width.reports * rows;
    this.grants = new Float64Array(buffer, at, width.grants * rows);
    this.layout = new Layout(this);
    this.layout.add(MEMBER);
    this.layout.add(TENANT);
  }

  /** The row of the device itself. */
  get deviceRow(): number {
    return this.capacity + 1;
  }

  /** Threads claim entries of the directory by compare-and-exchange, so all see the same order. */
  claim(ruler: Columned): Position | null {
    const { directory, width } = this;
    const { reports, grants } = ruler;
    const entry = entryOf(ruler);
    let [reportsAt, grantsAt] = [0, 0];
    for (let index = 0; index < MAX_RULERS; index++) {
      if (reportsAt + reports.length > width.reports || grantsAt + grants.length > width.grants) return null;
      const known = Atomics.compareExchange(directory, index, 0n, entry);
      const position = { index, reportsAt, grantsAt };
      if (known === 0n) this.fillDefaults(ruler, position);
      if (known === 0n || known === entry) return position;
      reportsAt += Number((known >> COUNT_BITS) & COUNT_MASK);
      grantsAt += Number(known & COUNT_MASK);
    }
    return null;
  }

  /** Members that joined before a ruler was added have the defaults of its columns, too. */
  private fillDefaults({ reports, grants }: Columned, { reportsAt, grantsAt }: Position): void {
    const { width, capacity } = this;
    for (const row of [capacity, this.deviceRow, ...Array(this.rowLimit).keys()]) {
      for (const [i, column] of reports.entries())
        this.counters[row * width.reports + reportsAt + i] = column.default;
      for (const [i, column] of grants.entries())
        this.grants[row * width.grants + grantsAt + i] = column.default;
    }
  }

  /** Takes a row for a member of a tenant, or of a tenant of its own (null). Returns null if the table is full. */
  join(tenant: number | null): MemberPage | null {
    const { counters, grants, width, capacity } = this;
    for (let i = 0; i < capacity; i++) {
      if (Atomics.compareExchange(this.rowStates, i, 0, 2) !== 0) continue;
      counters.copyWithin(i * width.reports, capacity * width.reports, (capacity + 1) * width.reports);
      grants.copyWithin(i * width.grants, capacity * width.grants, (capacity + 1) * width.grants);
      this.tenantIds[i] = tenant ?? -1 - i;
      Atomics.store(this.rowStates, i, 1);
      this.raiseRowLimit(i + 1);
      Atomics.add(this.header, VERSION, 1);
      return new RowPage(this, i);
    }
    return null;
  }

  leave(index: number): void {
    Atomics.store(this.rowStates, index, 0);
    Atomics.add(this.header, VERSION, 1);
  }

  private raiseRowLimit(high: number): void {
    let known = Atomics.load(this.header, ROW_LIMIT);
    while (known < high) {
      const was = Atomics.compareExchange(this.header, ROW_LIMIT, known, high);
      if (was === known) return;
      known = was;
    }
  }

  /** The columns of a ruler in a row. */
  columnsAt(row: number, { reportsAt, grantsAt, reports, grants }: Place): MemberColumns {
    const { width } = this;
    const [fromReport, fromGrant] = [row * width.reports + reportsAt, row * width.grants + grantsAt];
    return {
      reports: this.counters.subarray(fromReport, fromReport + reports.length),
      grants: this.grants.subarray(fromGrant, fromGrant + grants.length),
    };
  }

  isMember(index: number): boolean {
    return Atomics.load(this.rowStates, index) === 1;
  }

  /** Every row in use is below this. */
  get rowLimit(): number {
    return Atomics.load(this.header, ROW_LIMIT);
  }

  /** Changes when a member joins or leaves. */
  get version(): number {
    return Atomics.load(this.header, VERSION);
  }

  /** Takes the lock. False: another thread holds it. A lock whose holder died is taken over. */
  tryLock(nowNs: number): boolean {
    const seen = Atomics.load(this.header, LOCK);
    if ((seen & 1) === 1 && !this.isAbandoned(seen, nowNs)) return false;
    const own = (seen + ((seen & 1) === 1 ? 2 : 1)) | 0;
    if (Atomics.compareExchange(this.header, LOCK, seen, own) !== seen) return false;
    this.lock = own;
    return true;
  }

  /** Whether the same holder has had the lock for so long that it must have died. */
  private isAbandoned(seen: number, nowNs: number): boolean {
    if (seen === this.heldLock) return nowNs - this.heldNs >= LOCK_TIMEOUT_NS;
    this.heldLock = seen;
    this.heldNs = nowNs;
    return false;
  }

  unlock(): void {
    Atomics.compareExchange(this.header, LOCK, this.lock, (this.lock + 1) | 0);
  }
}

function entryOf({ name, reports, grants }: Columned): bigint {
  const names = [name, ...reports, '', ...grants].map((one) => (typeof one === 'string' ? one : one.name));
  const hash = BigInt.asUintN(HASH_BITS, BigInt(tenantId(names.join('\0'))));
  return (((hash << COUNT_BITS) | BigInt(reports.length)) << COUNT_BITS) | BigInt(grants.length);
}

/** A row of a table in this process. */
class RowPage implements MemberPage {
  readonly row: number;
  readonly counters: Float64Array;
  readonly grants: Float64Array;
  private readonly table: MemberTable;
  private readonly byRuler = new Map<string, MemberColumns>();

  constructor(table: MemberTable, row: number) {
    this.table = table;
    this.row = row;
    const { reports, grants } = this.columns(MEMBER);
    this.counters = reports;
    this.grants = grants;
  }

  beat(): void {
    this.counters[HEARTBEAT]++;
  }

  columns(ruler: Columned): MemberColumns {
    const known = this.byRuler.get(ruler.name);
    if (known !== undefined) return known;
    const columns = this.table.columnsAt(this.row, this.table.layout.add(ruler));
    this.byRuler.set(ruler.name, columns);
    return columns;
  }
}
