/**
 * FIFO queues of queue pairs, or of anything else with small dense indices, such as the entities of entities.ts. Each
 * index is in at most one of the queues, which are called levels: priorities (0 is served first), or one queue for each
 * tenant. The links are typed columns, so that nothing is allocated and any index can be removed in O(1).
 */
import { fitColumn } from '../../shim/tables.ts';

/** Stands for no queue pair. */
export const NONE = -1;

/** Words of an index: the next one and the previous one in its queue, and its level. A fourth one keeps them together. */
const LINK_BITS = 2;
const PREVIOUS = 1;
const LEVEL = 2;
/** Words of a level: its first and its last index. */
const LAST = 1;

/** FIFO queues over one set of indices. */
export class RunQueue {
  // An index plus one, or a level plus one, so that 0 stands for none and new entries need not be filled.
  private links: Int32Array = new Int32Array(64 << LINK_BITS);
  private ends: Int32Array;

  /** @param levels the number of queues; `push` adds more as needed */
  constructor(levels = 1) {
    this.ends = new Int32Array(2 * levels);
  }

  /** Whether an index is in one of the queues. */
  has(index: number): boolean {
    const { links } = this;
    const at = (index << LINK_BITS) + LEVEL;
    return at < links.length && links[at] !== 0;
  }

  /** The first index of a level; NONE if the level is empty. */
  first(level = 0): number {
    const { ends } = this;
    return 2 * level < ends.length ? ends[2 * level] - 1 : NONE;
  }

  /** The last index of a level; NONE if the level is empty. */
  last(level = 0): number {
    const { ends } = this;
    return 2 * level < ends.length ? ends[2 * level + LAST] - 1 : NONE;
  }

  /** The index that follows another one in its queue; NONE if it is the last. */
  next(index: number): number {
    return this.has(index) ? this.links[index << LINK_BITS] - 1 : NONE;
  }

  /** The first level that is not empty; NONE if all are empty. Takes O(levels), so it is meant for a few priorities. */
  firstLevel(): number {
    const { ends } = this;
    for (let at = 0; at < ends.length; at += 2) if (ends[at] !== 0) return at >> 1;
    return NONE;
  }

  /** Appends an index to a level, unless it is already in a queue. */
  push(index: number, level = 0): void {
    if (this.has(index)) return;
    // Checked here, because it is false nearly always.
    if ((index << LINK_BITS) + LEVEL >= this.links.length || 2 * level + LAST >= this.ends.length)
      this.fit(index, level);
    this.append(index, level);
  }

  /** Removes and returns the first index of a level; NONE if the level is empty. */
  shift(level = 0): number {
    const index = this.first(level);
    if (index !== NONE) this.remove(index);
    return index;
  }

  /** Removes an index from its queue. It has no effect if the index is not in any queue. */
  remove(index: number): void {
    if (this.has(index)) this.unlink(index);
  }

  /** Moves an index to the end of its queue. It has no effect if the index is not in any queue. */
  moveToEnd(index: number): void {
    if (!this.has(index) || this.links[index << LINK_BITS] === 0) return;
    const level = this.links[(index << LINK_BITS) + LEVEL] - 1;
    this.unlink(index);
    this.append(index, level);
  }

  private append(index: number, level: number): void {
    const { links, ends } = this;
    const at = index << LINK_BITS;
    const last = ends[2 * level + LAST];
    links[at] = 0;
    links[at + PREVIOUS] = last;
    links[at + LEVEL] = level + 1;
    if (last === 0) ends[2 * level] = index + 1;
    else links[(last - 1) << LINK_BITS] = index + 1;
    ends[2 * level + LAST] = index + 1;
  }

  private unlink(index: number): void {
    const { links, ends } = this;
    const at = index << LINK_BITS;
    const next = links[at];
    const previous = links[at + PREVIOUS];
    const end = 2 * (links[at + LEVEL] - 1);
    links[at + LEVEL] = 0;
    if (previous === 0) ends[end] = next;
    else links[(previous - 1) << LINK_BITS] = next;
    if (next === 0) ends[end + LAST] = previous;
    else links[((next - 1) << LINK_BITS) + PREVIOUS] = previous;
  }

  private fit(index: number, level: number): void {
    this.ends = fitColumn(this.ends, 2 * level + LAST);
    this.links = fitColumn(this.links, (index << LINK_BITS) + LEVEL);
  }
}
