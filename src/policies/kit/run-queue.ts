/**
 * FIFO queues of queue pairs, or of anything else with small dense indices, such as the entities of entities.ts. Each
 * index is in at most one of the queues, which are called levels: priorities (0 is served first), or one queue for each
 * tenant. The links are typed columns, so that nothing is allocated and any index can be removed in O(1).
 */
import { fitColumn } from '../../shim/tables.ts';

/** Stands for no queue pair. */
export const NONE = -1;

/** FIFO queues over one set of indices. */
export class RunQueue {
  // Columns hold an index plus one, or a level plus one, so that 0 stands for none and new entries need not be filled.
  private firstOf: Int32Array;
  private lastOf: Int32Array;
  private nextOf: Int32Array = new Int32Array(64);
  private previousOf: Int32Array = new Int32Array(64);
  private levelOf: Int32Array = new Int32Array(64);

  /** @param levels the number of queues; `push` adds more as needed */
  constructor(levels = 1) {
    this.firstOf = new Int32Array(levels);
    this.lastOf = new Int32Array(levels);
  }

  /** Whether an index is in one of the queues. */
  has(index: number): boolean {
    return index < this.levelOf.length && this.levelOf[index] !== 0;
  }

  /** The first index of a level; NONE if the level is empty. */
  first(level = 0): number {
    return level < this.firstOf.length ? this.firstOf[level] - 1 : NONE;
  }

  /** The index that follows another one in its queue; NONE if it is the last. */
  next(index: number): number {
    return this.has(index) ? this.nextOf[index] - 1 : NONE;
  }

  /** The first level that is not empty; NONE if all are empty. Takes O(levels), so it is meant for a few priorities. */
  firstLevel(): number {
    for (let level = 0; level < this.firstOf.length; level++) if (this.firstOf[level] !== 0) return level;
    return NONE;
  }

  /** Appends an index to a level, unless it is already in a queue. */
  push(index: number, level = 0): void {
    this.fit(index, level);
    if (this.levelOf[index] !== 0) return;
    const last = this.lastOf[level];
    this.levelOf[index] = level + 1;
    this.previousOf[index] = last;
    this.nextOf[index] = 0;
    if (last === 0) this.firstOf[level] = index + 1;
    else this.nextOf[last - 1] = index + 1;
    this.lastOf[level] = index + 1;
  }

  /** Removes and returns the first index of a level; NONE if the level is empty. */
  shift(level = 0): number {
    const index = this.first(level);
    if (index !== NONE) this.remove(index);
    return index;
  }

  /** Removes an index from its queue. It has no effect if the index is not in any queue. */
  remove(index: number): void {
    if (!this.has(index)) return;
    const level = this.levelOf[index] - 1;
    const previous = this.previousOf[index];
    const next = this.nextOf[index];
    this.levelOf[index] = 0;
    if (previous === 0) this.firstOf[level] = next;
    else this.nextOf[previous - 1] = next;
    if (next === 0) this.lastOf[level] = previous;
    else this.previousOf[next - 1] = previous;
  }

  private fit(index: number, level: number): void {
    this.firstOf = fitColumn(this.firstOf, level);
    this.lastOf = fitColumn(this.lastOf, level);
    this.nextOf = fitColumn(this.nextOf, index);
    this.previousOf = fitColumn(this.previousOf, index);
    this.levelOf = fitColumn(this.levelOf, index);
  }
}
