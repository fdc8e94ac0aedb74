/** What the log says of clients that do wrong: whoever does so without end fills no disk. */
import type { Logger } from 'pino';
import { Budget } from './budgets.ts';
import type { PeerCredentials } from './ipc/index.ts';

/** Lines about one user, and about all: a user may have thousands of numbers. */
const OF_A_USER = { most: 20, perS: 1 };
const OF_ALL = { most: 200, perS: 20 };
/** How often it is said how many were left out. */
const SUMMARY_MS = 10_000;

interface Lines {
  readonly budget: Budget;
  leftOut: number;
  /** Who did it last. */
  last: PeerCredentials;
}

export class Complaints {
  private readonly log: Logger;
  private readonly nowNs: () => number;
  private readonly all: Budget;
  private readonly byUid = new Map<number, Lines>();
  private timer: NodeJS.Timeout | undefined;
  /** Lines that were left out since the beginning. */
  leftOut = 0;

  constructor(log: Logger, nowNs: () => number) {
    this.log = log;
    this.nowNs = nowNs;
    this.all = new Budget(OF_ALL, nowNs());
  }

  /** Logs who did it and what, or counts it. */
  about(credentials: PeerCredentials, what: string): void {
    const now = this.nowNs();
    const lines = this.of(credentials, now);
    lines.last = credentials;
    this.timer ??= setTimeout(() => this.summarise(), SUMMARY_MS).unref();
    if (lines.budget.tryTake(now) && this.all.tryTake(now)) this.write(credentials, what);
    else {
      lines.leftOut++;
      this.leftOut++;
    }
  }

  /** Something of nobody's went wrong. */
  failed(what: string, error: Error): void {
    if (this.all.tryTake(this.nowNs())) this.log.warn(error, what);
  }

  private of(credentials: PeerCredentials, nowNs: number): Lines {
    const known = this.byUid.get(credentials.uid);
    if (known !== undefined) return known;
    const lines = { budget: new Budget(OF_A_USER, nowNs), leftOut: 0, last: credentials };
    this.byUid.set(credentials.uid, lines);
    return lines;
  }

  private write({ pid, uid, gid }: PeerCredentials, what: string): void {
    // `pid` itself is the daemon's in every line.
    this.log.warn({ client: { pid, uid, gid } }, `process ${pid} of user ${uid} ${what}`);
  }

  private summarise(): void {
    this.timer = undefined;
    const now = this.nowNs();
    let [users, lines] = [0, 0];
    for (const [uid, one] of this.byUid) {
      if (one.leftOut === 0) {
        if (one.budget.isFull(now)) this.byUid.delete(uid);
      } else if (this.all.tryTake(now)) {
        this.write(one.last, `and others of this user: ${one.leftOut} more lines were left out`);
      } else {
        users++;
        lines += one.leftOut;
      }
      one.leftOut = 0;
    }
    if (lines > 0) this.log.warn({ users, lines }, `${lines} more lines about ${users} users were left out`);
    if (this.byUid.size > 0) this.timer = setTimeout(() => this.summarise(), SUMMARY_MS).unref();
  }

  /** Says what was left out. */
  close(): void {
    clearTimeout(this.timer);
    if (this.timer !== undefined) this.summarise();
    clearTimeout(this.timer);
    this.timer = undefined;
  }
}
