/**
 * The order of Palos (section IV-A): in each round, every queue pair with something to send may send a chunk, which is
 * the product of its weight and the granularity of its group. Whole packets and whole SENDs may exceed a chunk; the
 * excess is deducted from the next chunks. What is left of a chunk may be sent until the round ends, even by a queue pair
 * that has been idle meanwhile, so that no queue pair gains or loses by pausing.
 */
import type { ChunkWeights } from '../../chunk-weights/chunk-weights.ts';
import { fitColumn } from '../../shim/tables.ts';
import { NONE, RunQueue } from '../kit/run-queue.ts';
import type { TurnOrder } from '../link/turn-order.ts';

/** Words of a queue pair, as a power of two: the bytes that it may still send in the round ROUND; a debt if negative ... */
const BITS = 2;
const CREDIT = 0;
/** ... the round in which it last got a chunk, and the bytes that it has sent since they were last asked for. */
const ROUND = 1;
const SENT = 2;
/** 1 if the queue pair has something to send, but cannot send it now. */
const HELD = 3;

/** Serves queue pairs in rounds. A queue pair must be added to the weights before it joins. */
export class ChunkOrder implements TurnOrder {
  readonly wakeNs = Number.POSITIVE_INFINITY;
  readonly ignoresTime = true;
  /** The order of the other direction with the same weights, where a queue pair may wait at the same time. */
  other: ChunkOrder | null = null;
  private readonly weights: ChunkWeights;
  /** Queue pairs that have joined: on one level those that may send in this round, on the other those of the next. */
  private readonly ready = new RunQueue(2);
  private level = 0;
  /** The number of the round. */
  round = 1;
  /** The number of queue pairs that have joined. */
  private count = 0;
  /** By queue pair. One array takes fewer loads than four. */
  private states: Float64Array = new Float64Array(64 << BITS);
  /** [0] what all queue pairs have sent. */
  private readonly total = new Float64Array(1);

  constructor(weights: ChunkWeights) {
    this.weights = weights;
  }

  /** Whether no queue pair waits to be served. */
  get isEmpty(): boolean {
    return this.count === 0;
  }

  /** Whether several queue pairs wait to be served. */
  get isShared(): boolean {
    return this.count > 1;
  }

  /** Whether a queue pair waits to be served, or has something to send that it cannot send now. */
  waits(qp: number): boolean {
    return this.ready.has(qp) || this.states[(qp << BITS) + HELD] === 1;
  }

  /** Whether a queue pair waits to be served. */
  isReady(qp: number): boolean {
    return this.ready.has(qp);
  }

  /** A queue pair begins without credit or debt. */
  reset(qp: number): void {
    this.states = fitColumn(this.states, (qp << BITS) + HELD);
    this.states.fill(0, qp << BITS, (qp + 1) << BITS);
  }

  /** What the queue pair may still send in this round, in bytes. */
  creditOf(qp: number): number {
    return this.states[(qp << BITS) + CREDIT];
  }

  /** Marks a queue pair that is about to leave although it has something to send, so that it still counts as active. */
  hold(qp: number): void {
    this.states[(qp << BITS) + HELD] = 1;
  }

  /** The queue pair has nothing to send any more, even if it was held. */
  release(qp: number): void {
    if (this.states[(qp << BITS) + HELD] !== 1) return;
    this.states[(qp << BITS) + HELD] = 0;
    if (!this.ready.has(qp)) this.rest(qp);
  }

  join(qp: number): void {
    this.weights.setActive(qp, true);
    this.count++;
    if (this.states[(qp << BITS) + ROUND] < this.round) this.grant(qp);
    this.states[(qp << BITS) + HELD] = 0;
    this.ready.push(qp, this.states[(qp << BITS) + CREDIT] > 0 ? this.level : 1 - this.level);
  }

  leave(qp: number): void {
    this.ready.remove(qp);
    this.count--;
    if (this.states[(qp << BITS) + HELD] === 0) this.rest(qp);
  }

  /** The queue pair no longer waits here. */
  private rest(qp: number): void {
    if (this.other?.waits(qp) !== true) this.weights.setActive(qp, false);
  }

  next(): number {
    for (let rounds = 0; ; rounds++) {
      const { ready, level } = this;
      for (let qp = ready.first(level); qp !== NONE; qp = ready.first(level)) {
        if (this.states[(qp << BITS) + ROUND] < this.round) this.grant(qp);
        if (this.states[(qp << BITS) + CREDIT] > 0) return qp;
        this.postpone(qp);
      }
      if (this.count === 0) return NONE;
      // All of them owe more than a chunk.
      if (rounds > 0) this.skipRounds();
      this.level = 1 - level;
      this.round++;
    }
  }

  charge(qp: number, wireBytes: number): void {
    this.states[(qp << BITS) + SENT] += wireBytes;
    this.total[0] += wireBytes;
  }

  /** Bytes on the wire that all queue pairs have sent. */
  get totalBytes(): number {
    return this.total[0];
  }

  /** The bytes on the wire that a queue pair has sent since the last call. */
  takeSentBytes(qp: number): number {
    const bytes = this.states[(qp << BITS) + SENT];
    this.states[(qp << BITS) + SENT] = 0;
    return bytes;
  }

  /** Charges the queue pair that `next` returned for this many bytes of its chunk. */
  spend(qp: number, bytes: number): void {
    this.states[(qp << BITS) + CREDIT] -= bytes;
    if (this.states[(qp << BITS) + CREDIT] <= 0) this.postpone(qp);
  }

  /** Lets the others of this round go before the rest of the queue pair's chunk. */
  yield(qp: number): void {
    this.ready.moveToEnd(qp);
  }

  /** The queue pair waits for the next round. */
  private postpone(qp: number): void {
    this.ready.remove(qp);
    this.ready.push(qp, 1 - this.level);
  }

  /** Gives a queue pair the chunk of this round. It keeps unused credit only if it was held, and at most one chunk. */
  private grant(qp: number): void {
    const { states } = this;
    const at = qp << BITS;
    const chunkBytes = this.weights.chunkBytes(qp);
    const most = states[at + HELD] === 1 ? chunkBytes : 0;
    states[at + CREDIT] = Math.min(states[at + CREDIT], most) + chunkBytes;
    states[at + ROUND] = this.round;
  }

  /** Skips the rounds in which no queue pair would have credit. */
  private skipRounds(): void {
    const { ready, states, weights } = this;
    const first = ready.first(1 - this.level);
    let rounds = Number.POSITIVE_INFINITY;
    for (let qp = first; qp !== NONE; qp = ready.next(qp))
      rounds = Math.min(rounds, Math.ceil(-states[(qp << BITS) + CREDIT] / weights.chunkBytes(qp)) - 1);
    if (rounds <= 0) return;
    for (let qp = first; qp !== NONE; qp = ready.next(qp))
      states[(qp << BITS) + CREDIT] += rounds * weights.chunkBytes(qp);
  }
}
