/** How much a connection, and all of a user's together, may ask of the daemon. No clock: times are arguments. */

/** So much at once, and so much more each second. */
export class Budget {
  private readonly perS: number;
  private readonly most: number;
  private left: number;
  private atNs: number;

  constructor({ most, perS }: { most: number; perS: number }, nowNs: number) {
    this.perS = perS;
    this.most = most;
    this.left = most;
    this.atNs = nowNs;
  }

  /** Takes some, if need be in advance: how long it is until they are there, in nanoseconds. */
  take(count: number, nowNs: number): number {
    this.earn(nowNs);
    this.left -= count;
    return this.left >= 0 ? 0 : (-this.left / this.perS) * 1e9;
  }

  /** Takes one if it is there. */
  tryTake(nowNs: number): boolean {
    this.earn(nowNs);
    if (this.left < 1) return false;
    this.left--;
    return true;
  }

  private earn(nowNs: number): void {
    this.left = Math.min(this.most, this.left + ((nowNs - this.atNs) / 1e9) * this.perS);
    this.atNs = nowNs;
  }

  /** Whether it is as it was in the beginning. */
  isFull(nowNs: number): boolean {
    this.earn(nowNs);
    return this.left === this.most;
  }
}

// Of one connection. A program says a handful of messages for each context; whoever rings is heard a thousand times a
// second at most, since that is how fine the daemon's timers are.
export const MESSAGES_PER_S = 2000;
export const MESSAGES = { most: 2048, perS: MESSAGES_PER_S };
export const RINGS = { most: 100, perS: 1000 };

// Of a user: a thousand programs that start at once are not held; afterwards a message costs the daemon some ten
// microseconds, a connection two hundred: each of these three takes a twentieth of a core at most.
const USER_MESSAGES = { most: 8192, perS: 4000 };
const USER_RINGS = { most: 4096, perS: 4000 };
const USER_CONNECTIONS = { most: 1024, perS: 200 };
/** What may wait for a user's clients that do not read: some lists of all tenants. */
export const MOST_UNREAD_BYTES = 16 << 20;

/** All connections of a user. */
export class User {
  connections = 0;
  /** Bytes that were written to them and have not gone. */
  unreadBytes = 0;
  readonly messages: Budget;
  readonly rings: Budget;
  readonly connects: Budget;

  constructor(nowNs: number) {
    this.messages = new Budget(USER_MESSAGES, nowNs);
    this.rings = new Budget(USER_RINGS, nowNs);
    this.connects = new Budget(USER_CONNECTIONS, nowNs);
  }

  /** Whether nothing would be lost if it were made anew. */
  isAnew(nowNs: number): boolean {
    return (
      this.connections === 0 && [this.messages, this.rings, this.connects].every((one) => one.isFull(nowNs))
    );
  }
}

/** A user may have thousands of numbers (user namespaces): those that are gone are forgotten now and then. */
const FORGET_FROM = 256;

export class Users {
  private readonly byUid = new Map<number, User>();
  private forgetAt = FORGET_FROM;

  of(uid: number, nowNs: number): User {
    let user = this.byUid.get(uid);
    if (user === undefined) {
      if (this.byUid.size >= this.forgetAt) this.forget(nowNs);
      user = new User(nowNs);
      this.byUid.set(uid, user);
    }
    return user;
  }

  private forget(nowNs: number): void {
    for (const [uid, user] of this.byUid) if (user.isAnew(nowNs)) this.byUid.delete(uid);
    this.forgetAt = Math.max(FORGET_FROM, 2 * this.byUid.size);
  }
}
