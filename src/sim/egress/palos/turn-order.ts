/**
 * The queue pairs of a port that have a packet, in the order of their turns: by the round in which each is due, and then
 * in the order of arrival. A binary heap over typed arrays; only growing allocates.
 */
import { fitColumn } from '../../../shim/tables.ts';

const NOWHERE = -1;

export class TurnOrder {
  /** Number of members in the order. */
  size = 0;
  // By member: the round in which its turn is, and its place among those of that round.
  due: Float64Array = new Float64Array(16);
  place: Float64Array = new Float64Array(16);
  /** By position: the member. */
  private members: Int32Array = new Int32Array(16);
  /** By member: its position plus one; 0: it is not in the order. */
  private positions: Int32Array = new Int32Array(16);

  /** Makes room for a member. */
  fit(member: number): void {
    this.due = fitColumn(this.due, member);
    this.place = fitColumn(this.place, member);
    this.members = fitColumn(this.members, member);
    this.positions = fitColumn(this.positions, member);
  }

  /** The member whose turn comes first, or -1. */
  get first(): number {
    return this.size === 0 ? NOWHERE : this.members[0];
  }

  has(member: number): boolean {
    return this.positions[member] !== 0;
  }

  /** Adds a member that is not in the order. */
  add(member: number): void {
    const last = this.size;
    this.size = last + 1;
    this.rise(last, member);
  }

  /** Moves a member to where it belongs after `due` or `place` changed. */
  moved(member: number): void {
    const at = this.positions[member] - 1;
    if (at > 0 && this.comesBefore(member, this.members[(at - 1) >> 1])) this.rise(at, member);
    else this.sink(at, member);
  }

  remove(member: number): void {
    const at = this.positions[member] - 1;
    if (at < 0) return;
    this.positions[member] = 0;
    this.size--;
    if (at === this.size) return;
    const last = this.members[this.size];
    this.positions[last] = at + 1;
    this.members[at] = last;
    this.moved(last);
  }

  private comesBefore(a: number, b: number): boolean {
    const { due, place } = this;
    return due[a] < due[b] || (due[a] === due[b] && place[a] < place[b]);
  }

  private rise(from: number, member: number): void {
    const { members, positions } = this;
    let at = from;
    while (at > 0) {
      const above = (at - 1) >> 1;
      const other = members[above];
      if (!this.comesBefore(member, other)) break;
      members[at] = other;
      positions[other] = at + 1;
      at = above;
    }
    members[at] = member;
    positions[member] = at + 1;
  }

  private sink(from: number, member: number): void {
    const { members, positions, size } = this;
    let at = from;
    for (let below = 2 * at + 1; below < size; below = 2 * at + 1) {
      const right = below + 1;
      const next = right < size && this.comesBefore(members[right], members[below]) ? right : below;
      const other = members[next];
      if (!this.comesBefore(other, member)) break;
      members[at] = other;
      positions[other] = at + 1;
      at = next;
    }
    members[at] = member;
    positions[member] = at + 1;
  }
}
