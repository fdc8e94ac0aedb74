/**
 * Which entity gets the next token (section 4.3.4 of the paper): weighted round robin over those that have something to
 * send, implemented as start-time fair queueing. A token is a number of bytes that an entity may send at any time.
 * Within an entity, queue pairs take turns.
 */
import { fitColumn } from '../../shim/tables.ts';
import type { Entities } from '../kit/entities.ts';
import type { Order } from '../kit/puller.ts';
import { NONE, RunQueue } from '../kit/run-queue.ts';
import { StartQueue } from './start-queue.ts';
import type { TokenClock } from './token-clock.ts';

/** The part of the rate at which the debt of an entity without queue pairs counts as repaid. */
const REPAID_PART = 1 / 16;

/** The entities of all devices, and their weights. */
export interface Sharers {
  readonly entities: Entities;
  weightOf(entity: number): number;
}

/**
 * Levels of entities with tokens left: those that were idle in between, and those that have just been given a token.
 */
const BACK = 0;
const SERVED = 1;

/** The entities of one device that have something to send, in the order in which they are served. */
export class TokenOrder implements Order {
  wakeNs = Number.POSITIVE_INFINITY;
  /**
   * Tokens that an entity may catch up on after it had nothing to send: those that the others get while its completions
   * arrive. What it did not use in a longer time is lost.
   */
  lagTokens = 0;
  private readonly sharers: Sharers;
  private readonly clock: TokenClock;
  /** Queue pairs with something to send, a queue for each entity. */
  private readonly qps = new RunQueue();
  /**
   * Entities with such queue pairs that have tokens left. An entity that comes back with tokens left goes before the
   * one that is being served, which would otherwise gain by the other's pause.
   */
  private readonly ready = new RunQueue(2);
  /**
   * Entities that wait for a token, by the start of their next one. Entities with tokens left may be here too, at an
   * old place: moving an entity takes less time than removing and adding it.
   */
  private readonly waiting = new StartQueue();
  // By entity: bytes of its tokens that are left (negative: a debt), and where its next token starts.
  private budget: Float64Array = new Float64Array(16);
  private starts: Float64Array = new Float64Array(16);
  /** By entity: when it was first found to have no queue pairs; NaN: it has some. */
  private leftNs: Float64Array = new Float64Array(16);
  /** [0] The start of the last token, in tokens for a unit of weight. */
  private readonly virtual = new Float64Array(1);
  /** The number of queue pairs that have something to send. */
  private joined = 0;
  /** The entity of the queue pair that `next` returned. */
  private served = NONE;

  constructor(sharers: Sharers, clock: TokenClock) {
    this.sharers = sharers;
    this.clock = clock;
  }

  /** A new entity has no tokens left and no debt. */
  reset(entity: number): void {
    this.budget = fitColumn(this.budget, entity);
    this.starts = fitColumn(this.starts, entity);
    this.leftNs = fitColumn(this.leftNs, entity);
    [this.budget[entity], this.starts[entity], this.leftNs[entity]] = [0, this.virtual[0], Number.NaN];
    this.waiting.remove(entity);
  }

  /**
   * The first queue pair of an entity comes from another one. The entity gets no token before the other one would, because
   * it would otherwise get all tokens if it took a new name with each.
   */
  inherit(from: number, entity: number): void {
    this.starts[entity] = Math.max(this.starts[entity], this.starts[from]);
    this.budget[entity] = Math.min(this.budget[entity], this.budget[from]);
  }

  /** An entity has queue pairs, so that its debt does not expire. */
  stay(entity: number): void {
    this.leftNs[entity] = Number.NaN;
  }

  /**
   * Whether an entity without queue pairs owes no more than the rest of its last chunk. It cannot send to repay a larger
   * debt, so the debt expires when a small part of the device's rate would have repaid it. An entity that comes back
   * while it is still another's turn is not new either: it would get all tokens if it came back with each.
   */
  isEven(entity: number, nowNs: number): boolean {
    const { budget, leftNs, clock, starts, virtual } = this;
    this.pause(entity);
    if (clock.isFree) return true;
    // A clock that jumps back begins anew.
    if (!(leftNs[entity] <= nowNs)) leftNs[entity] = nowNs;
    const repaid = REPAID_PART * clock.bytesPerNs * (nowNs - leftNs[entity]);
    const isDue = starts[entity] <= virtual[0] || repaid >= clock.tokenBytes;
    return isDue && budget[entity] + repaid >= -clock.tokenBytes;
  }

  /** What an entity had in flight is gone, so its debt costs the others no more tokens until it sends again. */
  pause(entity: number): void {
    if (this.qps.first(entity) === NONE) this.waiting.remove(entity);
  }

  /** Bytes that an entity may send at once; 0 while any of its queue pairs waits. */
  available(entity: number): number {
    if (this.qps.first(entity) !== NONE) return 0;
    return this.clock.isFree ? Number.POSITIVE_INFINITY : this.budget[entity];
  }

  /** An entity has sent `bytes` of what was available. */
  spend(entity: number, bytes: number): void {
    if (!this.clock.isFree) this.budget[entity] -= bytes;
  }

  join(qp: number): void {
    const entity = this.sharers.entities.of({ index: qp });
    if (entity === NONE) return;
    const isFirst = this.qps.first(entity) === NONE;
    if (!this.qps.has(qp)) this.joined++;
    this.qps.push(qp, entity);
    if (isFirst) this.enqueue(entity, BACK);
  }

  leave(qp: number): void {
    const entity = this.sharers.entities.of({ index: qp });
    if (this.qps.has(qp) && --this.joined === 0) this.clock.rest();
    this.qps.remove(qp);
    if (entity === NONE || this.qps.first(entity) !== NONE) return;
    this.ready.remove(entity);
    if (!this.owesToken(entity)) this.waiting.remove(entity);
  }

  /**
   * Whether an entity owes a token or more: it has sent a long message that could not be cut. Its tokens repay the debt
   * even while it has nothing to send, or waits for completions. It would otherwise be charged for the time that the
   * message takes, and then for its bytes.
   */
  private owesToken(entity: number): boolean {
    return this.budget[entity] <= -this.clock.tokenBytes;
  }

  next(nowNs: number): number {
    this.wakeNs = Number.POSITIVE_INFINITY;
    const { ready } = this;
    while (ready.first(BACK) === NONE && ready.first(SERVED) === NONE) {
      if (this.waiting.isEmpty) return NONE;
      if (!this.clock.take(nowNs)) {
        this.wakeNs = this.clock.readyNs;
        return NONE;
      }
      this.giveToken();
    }
    this.served = ready.first(ready.first(BACK) === NONE ? SERVED : BACK);
    return this.qps.first(this.served);
  }

  private giveToken(): void {
    const { waiting, starts, virtual } = this;
    const entity = waiting.first();
    const start = waiting.firstStart[0];
    if (start > virtual[0]) virtual[0] = start;
    starts[entity] = start + 1 / this.sharers.weightOf(entity);
    this.budget[entity] += this.clock.tokenBytes;
    if (this.qps.first(entity) !== NONE) this.enqueue(entity, SERVED);
    else if (this.owesToken(entity)) this.wait(entity);
    else waiting.remove(entity);
  }

  charge(qp: number, wireBytes: number): void {
    const { served: entity, budget } = this;
    budget[entity] -= Math.max(wireBytes, this.clock.messageBytes);
    this.qps.moveToEnd(qp);
    if (budget[entity] > 0) return;
    this.ready.remove(entity);
    this.wait(entity);
  }

  /** Lets an entity wait for its turn or for a token. */
  private enqueue(entity: number, level: number): void {
    if (this.budget[entity] > 0) this.ready.push(entity, level);
    else this.wait(entity);
  }

  private wait(entity: number): void {
    const { waiting } = this;
    const weight = this.sharers.weightOf(entity);
    waiting.due[0] = Math.max(this.virtual[0] - this.lagTokens / weight, this.starts[entity]);
    waiting.put(entity, weight);
  }
}
