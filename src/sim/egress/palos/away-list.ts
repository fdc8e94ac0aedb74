/**
 * The queue pairs of a port that have work but no packet: between two WQEs, or while a WQE or payload is on its way. The
 * first one has been away for the longest time. A doubly linked list over typed arrays; only growing allocates.
 */
import { fitColumn } from '../../../shim/tables.ts';

const NONE = -1;

export class AwayList {
  /** The member that has been away for the longest time, or -1. */
  first = NONE;
  private last = NONE;
  /** By member: the round in which it left. */
  since: Float64Array = new Float64Array(16);
  // By member: its neighbours, each plus one.
  private before: Int32Array = new Int32Array(16);
  private after: Int32Array = new Int32Array(16);
  private listed: Uint8Array = new Uint8Array(16);

  /** Makes room for a member. */
  fit(member: number): void {
    this.since = fitColumn(this.since, member);
    this.before = fitColumn(this.before, member);
    this.after = fitColumn(this.after, member);
    this.listed = fitColumn(this.listed, member);
  }

  /** Adds a member unless it is on the list. */
  add(member: number, round: number): void {
    if (this.listed[member] === 1) return;
    this.listed[member] = 1;
    this.since[member] = round;
    this.before[member] = this.last + 1;
    this.after[member] = 0;
    if (this.last === NONE) this.first = member;
    else this.after[this.last] = member + 1;
    this.last = member;
  }

  /** Removes a member if it is on the list. */
  remove(member: number): void {
    if (this.listed[member] === 0) return;
    this.listed[member] = 0;
    const before = this.before[member] - 1;
    const after = this.after[member] - 1;
    if (before === NONE) this.first = after;
    else this.after[before] = after + 1;
    if (after === NONE) this.last = before;
    else this.before[after] = before + 1;
  }
}
