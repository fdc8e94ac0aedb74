/**
 * The members that share a device, one row for each (a context of a tenant), in typed columns over one buffer that
 * threads may share. A member writes its counters and the coordinator its grants, so each element has one writer.
 */

/** Columns of counters, which the member writes. */
export const CLASS = 0;
/** What the class is based on (policies/perf/classifier.ts): mean message size and longest queue. */
export const MEAN_BYTES = 1;
export const QUEUE_LENGTH = 2;
/** Queue pairs that sent within the window, and how many of them send messages that are large on average. */
export const ACTIVE_QPS = 3;
export const LARGE_QPS = 4;
/** Rate on the wire, headers included. */
export const WIRE_GBPS = 5;
/** What it has to send in its tenant's slot (NO_DEMAND ...), and the last slot (SLOT_NUMBER) that it has finished. */
export const SLOT_DEMAND = 6;
export const DRAINED_SLOT = 7;
/** When it last wrote. */
export const WRITTEN_NS = 8;
/** 1: its small messages wait for answers of a peer (READs, atomics), whose number is limited by rd_atomic. */
export const AWAITS_ANSWERS = 9;
/** Queue pairs that require a rate. */
export const RATED_QPS = 10;
/** Changes with each write: a member whose heartbeat stands still is stopped or dead, whatever its clock says. */
export const HEARTBEAT = 11;
/** Requests that the application has posted since the context was opened, and the bytes of their messages. */
export const SENT_REQUESTS = 12;
export const SENT_BYTES = 13;
/** Requests held at present. */
export const HELD_REQUESTS = 14;
/** Time from post to the poll that returns the completion, smoothed over sampled requests. */
export const LATENCY_NS = 15;
/** Number of queue pairs. */
export const QPS = 16;
export const COUNTERS = 24;

/** Columns of grants, which the coordinator writes. */
/** 1: large messages are split, with 0_WAITs between the pieces. */
export const SPLIT = 0;
/** Queue pairs of a tenant that may send at the same time; 0: all. */
export const QNUM_ALLOW = 1;
/** Large queue pairs on this device that may send at the same time. */
export const BUSY_LARGE_QPS = 2;
/** Rate on the wire of the device's small tenants. */
export const SMALL_GBPS = 3;
/** Active tenants on this device, by class. */
export const D_TENANTS = 4;
export const M_TENANTS = 5;
export const B_TENANTS = 6;
/** The reason for the grants (an index of REASONS in master.ts). */
export const REASON = 7;
/**
 * Rotation: who has the slot, as the member sees it (NO_ROTATION ...), and the number and end of its tenant's slot.
 */
export const SLOT_STATE = 8;
export const SLOT_NUMBER = 9;
export const SLOT_END_NS = 10;
/** Small tenants whose latency or rate depends on the queue in the FIFO: D_TENANTS, and others that await answers. */
export const QUEUE_TENANTS = 11;
/** Static rates: the permitted rate on the wire. */
export const RATE_GBPS = 12;
/**
 * Limits; 0: none. The total number of queue pairs that the member may have (negative: none at all), and its part of
 * the requests that its tenant may issue per second.
 */
export const MAX_QPS = 13;
export const MAX_REQUESTS_PER_S = 14;
export const GRANTS = 16;

// Marks of a row: its rate changed, or any other grant.
export const RATE_CHANGED = 1;
export const ISOLATION_CHANGED = 2;

// SLOT_DEMAND: nothing, only requests in flight, or held requests.
export const NO_DEMAND = 0;
export const IN_FLIGHT_DEMAND = 1;
export const HELD_DEMAND = 2;

// SLOT_STATE: no rotation, its own tenant's slot, or another tenant's.
export const NO_ROTATION = 0;
export const OWN_SLOT = 1;
export const OTHERS_SLOT = 2;

// Classes. A tenant has the highest class of its members.
/** Nothing sent within the window. */
export const IDLE = 0;
/** Waits for each answer; sends many messages at a time; sends large messages. */
export const DELAY = 1;
export const MESSAGES = 2;
export const BANDWIDTH = 3;

// Words of the header.
/** Odd while a thread holds the lock; changes each time. */
const LOCK = 0;
/** Incremented at each join and leave. */
const VERSION = 1;
/** One more than the highest row ever taken. */
const ROW_LIMIT = 2;
/** Rotation: one more than the row of a member whose tenant had the last slot, and that slot's number. */
const LAST_SLOT_MEMBER = 3;
const LAST_SLOT_NUMBER = 4;
const HEADER_WORDS = 16;

/** Default number of rows. */
export const DEFAULT_CAPACITY = 4096;

/** A thread that has held the lock for this long is taken to have died with it. */
const LOCK_TIMEOUT_NS = 1e8;

/**
 * The columns that one member shares with its coordinator. Where the coordinator is elsewhere, the arrays are replaced
 * when the connection comes or goes, so callers must not keep references to them.
 */
export interface MemberPage {
  readonly row: number;
  readonly counters: Float64Array;
  readonly grants: Float64Array;
  /** Serves the connection of a coordinator elsewhere, for programs that do not turn their event loop. */
  poll?(): void;
}

/** The size of the buffer for `capacity` members, in bytes. */
export function memberTableBytes(capacity: number): number {
  return (HEADER_WORDS + 2 * capacity) * 4 + (1 + COUNTERS + GRANTS) * 8 * capacity;
}

export class MemberTable {
  readonly buffer: ArrayBufferLike;
  readonly capacity: number;
  private readonly header: Int32Array;
  /** By row: 0 free, 1 taken, 2 being initialised. */
  private readonly rowStates: Int32Array;
  /** By row: the tenant's number. */
  readonly tenantIds: Float64Array;
  readonly counters: Float64Array;
  readonly grants: Float64Array;
  /** By row: which grants this view has changed since they were last copied. Slots are not marked. */
  readonly marks: Uint8Array;
  /**
   * The lock value of this view's last acquisition; the value another holder had when first seen, and when that was.
   */
  private lock = 0;
  private heldLock = 0;
  private heldNs = 0;

  /** @param buffer zeros, or the buffer of another thread's MemberTable of the same capacity */
  constructor(buffer: ArrayBufferLike, capacity: number = DEFAULT_CAPACITY) {
    this.buffer = buffer;
    this.capacity = capacity;
    this.marks = new Uint8Array(capacity);
    this.header = new Int32Array(buffer, 0, HEADER_WORDS);
    this.rowStates = new Int32Array(buffer, HEADER_WORDS * 4, capacity);
    let at = (HEADER_WORDS + 2 * capacity) * 4;
    this.tenantIds = new Float64Array(buffer, at, capacity);
    at += 8 * capacity;
    this.counters = new Float64Array(buffer, at, COUNTERS * capacity);
    at += 8 * COUNTERS * capacity;
    this.grants = new Float64Array(buffer, at, GRANTS * capacity);
  }

  /** Takes a row for a member of a tenant, or of a tenant of its own (null). Returns null if the table is full. */
  join(tenant: number | null): MemberPage | null {
    for (let i = 0; i < this.capacity; i++) {
      if (Atomics.compareExchange(this.rowStates, i, 0, 2) !== 0) continue;
      const page = this.page(i);
      page.counters.fill(0);
      page.grants.fill(0);
      this.tenantIds[i] = tenant ?? -1 - i;
      Atomics.store(this.rowStates, i, 1);
      this.raiseRowLimit(i + 1);
      Atomics.add(this.header, VERSION, 1);
      return page;
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

  page(index: number): MemberPage {
    const { counters, grants } = this;
    return {
      row: index,
      counters: counters.subarray(index * COUNTERS, (index + 1) * COUNTERS),
      grants: grants.subarray(index * GRANTS, (index + 1) * GRANTS),
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

  /** The row of a member whose tenant had the last slot; -1 before the first slot. */
  get lastSlotMember(): number {
    return Atomics.load(this.header, LAST_SLOT_MEMBER) - 1;
  }

  get slotNumber(): number {
    return Atomics.load(this.header, LAST_SLOT_NUMBER);
  }

  /** Begins a slot of this member's tenant. Returns its number, which is never 0. */
  beginSlot(member: number): number {
    Atomics.store(this.header, LAST_SLOT_MEMBER, member + 1);
    // 32 bits, as `slotNumber` reads them.
    const slot = (Atomics.add(this.header, LAST_SLOT_NUMBER, 1) + 1) | 0;
    return slot !== 0 ? slot : this.beginSlot(member);
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
