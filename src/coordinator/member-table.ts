/**
 * Who shares a device: one page for each member (a context of a tenant), in typed columns over one buffer, which
 * may be shared between threads. A member writes its counters, the coordinator its grants; each element has one
 * writer. Numbers only.
 */

/** Columns of counters, which the member writes. */
export const CLASS = 0;
/** Why it is of that class (policies/perf/classifier.ts): average message, longest queue. */
export const MEAN_BYTES = 1;
export const QUEUE_LENGTH = 2;
/** Queue pairs that sent within the window; of them, those whose messages are large on average. */
export const ACTIVE_QPS = 3;
export const LARGE_QPS = 4;
/** What it sends on the wire, headers included. */
export const WIRE_GBPS = 5;
/** What it has to send in a slot of its tenant's, and the slot (TURN_SLOT) that it is done with. */
export const SLOT_DEMAND = 6;
export const DRAINED_SLOT = 7;
/** When it last wrote. */
export const WRITTEN_NS = 8;
/** 1: small messages of it come back from a peer, of which a queue pair has only so many outstanding (rd_atomic). */
export const AWAITS_ANSWERS = 9;
/** Queue pairs that a rate is wanted for. */
export const RATED_QPS = 10;
/** Another number each time: whoever writes none for long is stopped or dead, whatever its clock says. */
export const HEARTBEAT = 11;
/** Since it was opened: requests of the application that were posted, and bytes of their messages. */
export const SENT_REQUESTS = 12;
export const SENT_BYTES = 13;
/** Requests that are held just now. */
export const HELD_REQUESTS = 14;
/** From post to the poll that finds the completion: smoothed over requests picked now and then. */
export const LATENCY_NS = 15;
/** Queue pairs that it has. */
export const QPS = 16;
export const COUNTERS = 24;

/** Columns of grants, which the coordinator writes. */
/** Whether large messages are split and have 0_WAITs behind them. */
export const SPLIT = 0;
/** Queue pairs of a tenant that may send at a time; 0: all. */
export const QNUM_ALLOW = 1;
/** Large queue pairs on this device that may send at a time. */
export const BUSY_LARGE_QPS = 2;
/** What small tenants of the device send on the wire. */
export const SMALL_GBPS = 3;
/** Tenants on this device by class, as far as they are active. */
export const D_TENANTS = 4;
export const M_TENANTS = 5;
export const B_TENANTS = 6;
/** Why (master.ts: REASONS). */
export const REASON = 7;
/** Rotation: whose turn it is, as the member sees it; of its tenant's slot: its number, and when it ends. */
export const SLOT_STATE = 8;
export const SLOT_NUMBER = 9;
export const SLOT_END_NS = 10;
/** Small tenants whose time or rate depends on what stands in the FIFO: D_TENANTS, and others that await answers. */
export const QUEUE_TENANTS = 11;
/** Static rates: what it may send on the wire. */
export const RATE_GBPS = 12;
/**
 * Limits; 0: there is none. Queue pairs that it may have, those it has included (below 0: not one); and its part of the
 * requests that its tenant may issue a second.
 */
export const MAX_QPS = 13;
export const MAX_REQUESTS_PER_S = 14;
export const GRANTS = 16;

// What is marked of a place: its rate, or any other grant.
export const RATE_CHANGED = 1;
export const ISOLATION_CHANGED = 2;

// WANTS_TURN: nothing; only what is in flight; requests that are held.
export const NO_DEMAND = 0;
export const IN_FLIGHT_DEMAND = 1;
export const HELD_DEMAND = 2;

// TURN: nobody rotates; its tenant's; another's.
export const NO_ROTATION = 0;
export const OWN_SLOT = 1;
export const OTHERS_SLOT = 2;

// Classes: a tenant is what the largest of its members is.
/** Nothing sent within the window. */
export const IDLE = 0;
/** Waits for each answer; many messages at a time; large messages. */
export const DELAY = 1;
export const MESSAGES = 2;
export const BANDWIDTH = 3;

// Words of the header.
/** Odd while somebody decides; another number each time. */
const LOCK = 0;
/** Raised at each join and leave. */
const VERSION = 1;
/** One more than the highest place that was ever taken. */
const ROW_LIMIT = 2;
/** Rotation: one more than the place of a member whose tenant had the last slot, and that slot's number. */
const LAST_SLOT_MEMBER = 3;
const LAST_SLOT_NUMBER = 4;
const HEADER_WORDS = 16;

/** Places that a device's members have when nothing is said. */
export const DEFAULT_CAPACITY = 4096;

/** Who has been deciding for so many nanoseconds died while it did. */
const LOCK_TIMEOUT_NS = 1e8;

/**
 * What one member and its coordinator say to each other. The columns of a member whose coordinator is elsewhere are
 * others after it has come or gone: nobody keeps them.
 */
export interface MemberPage {
  readonly row: number;
  readonly counters: Float64Array;
  readonly grants: Float64Array;
  /** Of one whose coordinator is elsewhere: its program runs now, whether or not its event loop turns. */
  poll?(): void;
}

/** Bytes of the buffer for so many members. */
export function memberTableBytes(capacity: number): number {
  return (HEADER_WORDS + 2 * capacity) * 4 + (1 + COUNTERS + GRANTS) * 8 * capacity;
}

export class MemberTable {
  readonly buffer: ArrayBufferLike;
  readonly capacity: number;
  private readonly header: Int32Array;
  /** By place: 0 free, 1 taken. */
  private readonly rowStates: Int32Array;
  /** By place: the tenant's number. */
  readonly tenantIds: Float64Array;
  readonly counters: Float64Array;
  readonly grants: Float64Array;
  /** By place: which grants became others by this view, until whoever copies them has. Turns are not marked. */
  readonly marks: Uint8Array;
  /** The lock as this view took it last; as it found it held by somebody else, and since when. */
  private lock = 0;
  private heldLock = 0;
  private heldNs = 0;

  /** @param buffer zeros, or what another thread's Members of the same capacity stand on */
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

  /** Takes a place for a member of a tenant, or of one of its own (null); null: there is none. */
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

  /** All places that may be taken are below this. */
  get rowLimit(): number {
    return Atomics.load(this.header, ROW_LIMIT);
  }

  /** Changes when somebody joins or leaves. */
  get version(): number {
    return Atomics.load(this.header, VERSION);
  }

  /** A member whose tenant had the last slot; -1: nobody had one. */
  get lastSlotMember(): number {
    return Atomics.load(this.header, LAST_SLOT_MEMBER) - 1;
  }

  get slotNumber(): number {
    return Atomics.load(this.header, LAST_SLOT_NUMBER);
  }

  /** The next slot belongs to the tenant of this member; returns its number, which is never 0. */
  beginSlot(member: number): number {
    Atomics.store(this.header, LAST_SLOT_MEMBER, member + 1);
    // 32 bits, as `slot` reads them.
    const slot = (Atomics.add(this.header, LAST_SLOT_NUMBER, 1) + 1) | 0;
    return slot !== 0 ? slot : this.beginSlot(member);
  }

  /** Only one thread at a time decides; false: another one does. One that died while it did is not waited for. */
  tryLock(nowNs: number): boolean {
    const seen = Atomics.load(this.header, LOCK);
    if ((seen & 1) === 1 && !this.isAbandoned(seen, nowNs)) return false;
    const own = (seen + ((seen & 1) === 1 ? 2 : 1)) | 0;
    if (Atomics.compareExchange(this.header, LOCK, seen, own) !== seen) return false;
    this.lock = own;
    return true;
  }

  /** Whether the same one has been deciding for so long that it will never be done. */
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
