/**
 * Logs misbehaving clients, with a limit, so that a client that misbehaves without pause cannot fill the
 * disk.
 */
import type { Logger } from 'pino';
import { Budget } from './budgets.ts';
import type { PeerCredentials } from './ipc/index.ts';

/** Budgets of lines per user and in total; the total matters because a user may have thousands of user IDs. */
const USER_LINES = { most: 20, perS: 1 };
const ALL_LINES = { most: 200, perS: 20 };
/** Interval at which the number of suppressed lines is logged. */
const SUMMARY_MS = 10_000;

interface Lines {
  readonly budget: Budget;
  suppressed: number;
  /** The client that caused the last line. */
  last: PeerCredentials;
}

export class ConnectionLog {
  private readonly log: Logger;
  private readonly nowNs: () => number;
  private readonly ownerOf: (uid: number) => number;
  private readonly allLines: Budget;
  private readonly byOwner = new Map<number, Lines>();
  private timer: NodeJS.Timeout | undefined;
  /** Lines suppressed since the daemon started. */
  suppressed = 0;

  /** @param ownerOf the user to whom a user ID belongs */
  constructor(log: Logger, nowNs: () => number, ownerOf: (uid: number) => number) {
    this.ownerOf = ownerOf;
    this.log = log;
    this.nowNs = nowNs;
    this.allLines = new Budget(ALL_LINES, nowNs());
  }

  /** Logs what a client did under a code that docs/operations.md lists, or counts the line as suppressed. */
  warn(event: string, credentials: PeerCredentials, what: string): void {
    const now = this.nowNs();
    const lines = this.linesOf(credentials, now);
    lines.last = credentials;
    this.timer ??= setTimeout(() => this.summarise(), SUMMARY_MS).unref();
    if (lines.budget.tryTake(now) && this.allLines.tryTake(now)) this.write(event, credentials, what);
    else {
      lines.suppressed++;
      this.suppressed++;
    }
  }

  /** Logs an error that no client caused. */
  warnError(event: string, what: string, err: Error): void {
    if (this.allLines.tryTake(this.nowNs())) this.log.warn({ event, err }, what);
  }

  private linesOf(credentials: PeerCredentials, nowNs: number): Lines {
    const owner = this.ownerOf(credentials.uid);
    const known = this.byOwner.get(owner);
    if (known !== undefined) return known;
    const lines = { budget: new Budget(USER_LINES, nowNs), suppressed: 0, last: credentials };
    this.byOwner.set(owner, lines);
    return lines;
  }

  private write(event: string, { pid, uid, gid }: PeerCredentials, what: string): void {
    const owner = this.ownerOf(uid);
    const user = owner === uid ? `user ${uid}` : `user ${uid} (of user ${owner})`;
    // In every log line, `pid` is the daemon's own.
    this.log.warn({ event, client: { pid, uid, gid, owner } }, `process ${pid} of ${user} ${what}`);
  }

  private summarise(): void {
    this.timer = undefined;
    const now = this.nowNs();
    let [users, lines] = [0, 0];
    for (const [owner, entry] of this.byOwner) {
      if (entry.suppressed === 0) {
        if (entry.budget.isFull(now)) this.byOwner.delete(owner);
      } else if (this.allLines.tryTake(now)) {
        this.write(
          'lines-suppressed',
          entry.last,
          `and other clients of this user: ${entry.suppressed} more lines were suppressed`,
        );
      } else {
        users++;
        lines += entry.suppressed;
      }
      entry.suppressed = 0;
    }
    if (lines > 0)
      this.log.warn(
        { event: 'lines-suppressed', users, lines },
        `${lines} more lines about ${users} users were suppressed`,
      );
    if (this.byOwner.size > 0) this.timer = setTimeout(() => this.summarise(), SUMMARY_MS).unref();
  }

  /** Logs what was suppressed so far. */
  close(): void {
    clearTimeout(this.timer);
    if (this.timer !== undefined) this.summarise();
    clearTimeout(this.timer);
    this.timer = undefined;
  }
}
