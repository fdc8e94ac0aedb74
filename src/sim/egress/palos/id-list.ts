/** A doubly linked list of small numbers over typed arrays. The number added first is the head. Only growing allocates. */
import { fitColumn } from '../../../shim/tables.ts';

const NONE = -1;

export class IdList {
  /** The number that has been on the list longest, or -1. */
  first = NONE;
  private last = NONE;
  // By number: its neighbours, each plus one.
  private before: Int32Array = new Int32Array(16);
  private after: Int32Array = new Int32Array(16);
  private listed: Uint8Array = new Uint8Array(16);

  /** Makes room for a number. */
  fit(id: number): void {
    this.before = fitColumn(this.before, id);
    this.after = fitColumn(this.after, id);
    this.listed = fitColumn(this.listed, id);
  }

  has(id: number): boolean {
    return this.listed[id] === 1;
  }

  /** Appends a number that is not on the list. */
  add(id: number): void {
    this.listed[id] = 1;
    this.before[id] = this.last + 1;
    this.after[id] = 0;
    if (this.last === NONE) this.first = id;
    else this.after[this.last] = id + 1;
    this.last = id;
  }

  /** Removes a number if it is on the list. */
  remove(id: number): void {
    if (this.listed[id] === 0) return;
    this.listed[id] = 0;
    const before = this.before[id] - 1;
    const after = this.after[id] - 1;
    if (before === NONE) this.first = after;
    else this.after[before] = after + 1;
    if (after === NONE) this.last = before;
    else this.before[after] = before + 1;
  }
}
