/** The connections to the metrics. A new one is never refused: the one that has been idle for longest makes room. */
import type { Duplex } from 'node:stream';
import { Budget } from '../budgets.ts';

/** Answers, and connections on which something arrives, of all visitors that share the budgets. */
export class VisitorBudgets {
  readonly answers: Budget;
  readonly connects: Budget;

  constructor(nowNs: number) {
    this.answers = new Budget({ most: 50, perS: 20 }, nowNs);
    // Limited separately, because one received piece of 64 KiB can carry thousands of requests and is parsed to its end.
    this.connects = new Budget({ most: 20, perS: 5 }, nowNs);
  }

  /** Whether a new object would be in the same state. */
  isPristine(nowNs: number): boolean {
    return this.answers.isFull(nowNs) && this.connects.isFull(nowNs);
  }
}

/** A connection. */
export interface Visitor {
  readonly stream: Duplex;
  /** The user at its other end; null: unknown. */
  readonly user: number | null;
  readonly budgets: VisitorBudgets;
  /** Whether further requests are ignored: one was rejected, or only one is answered. */
  isOver: boolean;
}

export interface VisitorLimits {
  readonly all: number;
  readonly ofUser: number;
}

export class Visitors {
  private readonly limits: VisitorLimits;
  /** The one that has been idle for longest comes first. */
  private readonly all = new Set<Visitor>();

  constructor(limits: VisitorLimits) {
    this.limits = limits;
  }

  add(visitor: Visitor): void {
    const { all, limits } = this;
    const own = visitor.user === null ? [] : [...all].filter(({ user }) => user === visitor.user);
    if (own.length >= limits.ofUser) this.remove(own[0]);
    else if (all.size >= limits.all) for (const first of [...all].slice(0, 1)) this.remove(first);
    all.add(visitor);
    visitor.stream.on('error', () => this.remove(visitor));
    visitor.stream.once('close', () => all.delete(visitor));
  }

  /** A request has arrived. */
  touch(visitor: Visitor): void {
    if (this.all.delete(visitor)) this.all.add(visitor);
  }

  close(): void {
    for (const visitor of [...this.all]) this.remove(visitor);
  }

  private remove(visitor: Visitor): void {
    this.all.delete(visitor);
    visitor.stream.destroy();
  }
}
