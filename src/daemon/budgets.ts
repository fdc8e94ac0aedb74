/**
 * The work that a connection, and all connections of a user together, may cause the daemon. There is no clock here:
 * times are arguments.
 */
import { Bucket } from '../shim/limits/bucket.ts';

/** A budget of `most` at once, refilled at `perS` per second. */
export class Budget {
  private readonly bucket: Bucket;

  constructor({ most, perS }: { most: number; perS: number }, nowNs: number) {
    this.bucket = new Bucket({ burst: most, perNs: perS / 1e9, nowNs });
  }

  /** Takes an amount, in advance if necessary. @returns the nanoseconds until it is available */
  take(count: number, nowNs: number): number {
    const { bucket } = this;
    bucket.fill(nowNs);
    bucket.take(count);
    return Math.max(0, bucket.readyNs(0) - nowNs);
  }

  /** Takes one unit if it is available. */
  tryTake(nowNs: number): boolean {
    if (this.bucket.fill(nowNs) < 1) return false;
    this.bucket.take(1);
    return true;
  }

  /** Whether the budget is unused. */
  isFull(nowNs: number): boolean {
    return this.bucket.isFull(nowNs);
  }
}

// Per connection. A program sends a handful of messages for each context. Signals are served at most a
// thousand times per second, because that is the resolution of the daemon's timers.
export const MESSAGES_PER_S = 2000;
export const MESSAGES = { most: 2048, perS: MESSAGES_PER_S };
export const SIGNALS = { most: 100, perS: 1000 };

/** Messages to agents from the contexts of a thread: half of a connection's budget, which leaves room for others. */
export const TELLS = { most: 1000, perS: MESSAGES_PER_S / 2 };

// Per user. A thousand programs that start at once are not held back. Beyond that, each of these three
// budgets takes at most a twentieth of a core: a message costs the daemon some ten microseconds, a connection
// two hundred.
const USER_MESSAGES = { most: 8192, perS: 4000 };
const USER_SIGNALS = { most: 4096, perS: 4000 };
const USER_CONNECTIONS = { most: 1024, perS: 200 };
/** The bytes that may be queued for a user's clients that do not read: several lists of all tenants. */
export const MAX_UNREAD_BYTES = 16 << 20;

/** All connections of one user. */
export class User {
  connections = 0;
  /** Bytes written to the connections and not yet sent. */
  unreadBytes = 0;
  readonly messages: Budget;
  readonly signals: Budget;
  readonly connects: Budget;

  constructor(nowNs: number) {
    this.messages = new Budget(USER_MESSAGES, nowNs);
    this.signals = new Budget(USER_SIGNALS, nowNs);
    this.connects = new Budget(USER_CONNECTIONS, nowNs);
  }

  /** Whether a new object would be in the same state. */
  isPristine(nowNs: number): boolean {
    return (
      this.connections === 0 && [this.messages, this.signals, this.connects].every((one) => one.isFull(nowNs))
    );
  }
}

/** There may be thousands of users, so idle ones are evicted from time to time. */
const EVICT_FROM = 256;

/** Something for each user, for as long as it differs from what a new user would have. */
export class PerUser<T extends { isPristine(nowNs: number): boolean }> {
  private readonly byUser = new Map<number, T>();
  private readonly create: (nowNs: number) => T;
  private evictAt = EVICT_FROM;

  constructor(create: (nowNs: number) => T) {
    this.create = create;
  }

  /** What a user has. */
  of(user: number, nowNs: number): T {
    let found = this.byUser.get(user);
    if (found === undefined) {
      if (this.byUser.size >= this.evictAt) this.evictIdle(nowNs);
      found = this.create(nowNs);
      this.byUser.set(user, found);
    }
    return found;
  }

  private evictIdle(nowNs: number): void {
    for (const [user, one] of this.byUser) if (one.isPristine(nowNs)) this.byUser.delete(user);
    this.evictAt = Math.max(EVICT_FROM, 2 * this.byUser.size);
  }
}

export class Users extends PerUser<User> {
  constructor() {
    super((nowNs) => new User(nowNs));
  }
}
