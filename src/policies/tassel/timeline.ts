/**
 * Tassel's timeline (section 3.2.2 of the paper), in software: what becomes due at a certain system time. As in the paper,
 * a timing wheel holds the near future and a heap what comes after it. A slot of the wheel is longer than the paper's 4 ns,
 * so what is in the present slot is sorted by another heap, and nothing is rounded.
 *
 * Items are small dense numbers. Putting and taking takes O(1) for those in the wheel, and an item may be moved or removed
 * at any time. Only growing allocates.
 */
import { fitColumn } from '../../shim/tables.ts';
import { ABSENT, addTo, atOrAfter, deleteFrom, SET_SIZE, SET_WORDS } from '../kit/bitmap.ts';
import { IndexHeap } from '../kit/index-heap.ts';
import { NONE, RunQueue } from '../kit/run-queue.ts';

/** Length of a slot, in ns. The wheel reaches 4.2 ms: pieces of 4 KiB at 8 Mbit/s or more. */
const SLOT_NS = 1024;
const SLOTS_PER_NS = 1 / SLOT_NS;
const MASK = SET_SIZE - 1;

/** Later times count as this one, in 36 years: numbers of slots must be exact. */
const LATEST_NS = 2 ** 60;

/** Up to this many items, a heap takes no longer than the wheel. */
const FEW = 16;

/** Where an item is: nowhere, in the heap of the present slot, in the heap of the far future, or in a slot of the wheel. */
const NOWHERE = 0;
const NEAR = 1;
const FAR = 2;
const IN_WHEEL = 3;

/** Items by the system time at which they are due. */
export class Timeline {
  /** The number of items. */
  size = 0;
  /** [0] The time for the next `put` or `seek`. An array, because V8 allocates a double that is passed to a function. */
  readonly due = new Float64Array(1);
  /** [0] The time of the item that `seek` has found, if it is due; otherwise a later time. */
  readonly firstNs: Float64Array;
  /** [0] Nothing is due before this time; [1] nothing outside of `near` is. */
  readonly quiet = Float64Array.of(Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY);
  private readonly near = new IndexHeap();
  private readonly far = new IndexHeap();
  private readonly wheel = new RunQueue(SET_SIZE);
  private readonly occupied = new Int32Array(SET_WORDS);
  private inWheel = 0;
  /** [0] The number of the present slot. Items of this slot and of earlier ones are in `near`. */
  private readonly slots = new Float64Array(1);
  // By item.
  private times: Float64Array = new Float64Array(64);
  private places: Uint8Array = new Uint8Array(64);

  constructor() {
    this.firstNs = this.near.firstNs;
  }

  /** Whether the item is here. */
  has(item: number): boolean {
    return item < this.places.length && this.places[item] !== NOWHERE;
  }

  /** Puts an item at the time in `due`, or moves it there. */
  put(item: number): void {
    if (item >= this.places.length) {
      this.times = fitColumn(this.times, item);
      this.places = fitColumn(this.places, item);
    }
    if (this.places[item] !== NOWHERE) this.remove(item);
    this.times[item] = Math.min(this.due[0], LATEST_NS);
    this.size++;
    this.place(item);
  }

  private place(item: number): void {
    const { quiet, near } = this;
    const slot = this.slots[0];
    const ns = this.times[item];
    const at = Math.floor(ns * SLOTS_PER_NS);
    if (ns < quiet[0]) quiet[0] = ns;
    if (at <= slot || (ns < quiet[1] && near.size < FEW)) {
      near.due[0] = ns;
      near.put(item);
      this.places[item] = NEAR;
      return;
    }
    quiet[1] = Math.min(quiet[1], at * SLOT_NS);
    if (at < slot + SET_SIZE) {
      this.wheel.push(item, at & MASK);
      addTo(this.occupied, 0, at & MASK);
      this.inWheel++;
      this.places[item] = IN_WHEEL;
      return;
    }
    this.far.due[0] = ns;
    this.far.put(item);
    this.places[item] = FAR;
  }

  /** Removes an item. It has no effect if the item is not here. */
  remove(item: number): void {
    if (!this.has(item)) return;
    const place = this.places[item];
    if (place === IN_WHEEL) this.takeOut(item, Math.floor(this.times[item] * SLOTS_PER_NS) & MASK);
    else (place === NEAR ? this.near : this.far).remove(item);
    this.places[item] = NOWHERE;
    this.size--;
  }

  private takeOut(item: number, slot: number): void {
    this.wheel.remove(item);
    this.inWheel--;
    if (this.wheel.first(slot) === NONE) deleteFrom(this.occupied, 0, slot);
  }

  /** Finds the first of the items that are due by the time in `due`, for `firstNs` and `shift`. */
  seek(): void {
    const { near, due, quiet } = this;
    while (quiet[1] <= due[0] && quiet[1] <= near.firstNs[0]) this.turn();
    quiet[0] = Math.min(near.firstNs[0], quiet[1]);
  }

  /** Removes and returns the item that `seek` has found. */
  shift(): number {
    const item = this.near.first;
    this.near.remove(item);
    this.places[item] = NOWHERE;
    this.size--;
    return item;
  }

  /** When the first of all items is due; Infinity if there is none. Takes O(1 + the number of items in its slot). */
  get nextNs(): number {
    const { near, quiet } = this;
    while (quiet[1] < Number.POSITIVE_INFINITY && quiet[1] <= near.firstNs[0]) this.turn();
    return near.firstNs[0];
  }

  /** Turns to the next slot with items, unless it comes later than `quiet` says, because items were removed. */
  private turn(): void {
    const slot = this.nextSlot();
    if (slot * SLOT_NS > this.quiet[1]) this.quiet[1] = slot * SLOT_NS;
    else this.turnTo(slot);
  }

  /** Turns the wheel to a slot, whose items then are in `near`. */
  private turnTo(slot: number): void {
    const { wheel, far } = this;
    this.slots[0] = slot;
    while (far.size > 0 && far.firstNs[0] < (slot + 1) * SLOT_NS) {
      const item = far.first;
      far.remove(item);
      this.place(item);
    }
    const at = slot & MASK;
    for (let item = wheel.first(at); item !== NONE; item = wheel.first(at)) {
      this.takeOut(item, at);
      this.place(item);
    }
    this.quiet[1] = this.nextSlot() * SLOT_NS;
  }

  /** The next slot with items; Infinity if there is none. */
  private nextSlot(): number {
    const farSlot = Math.floor(this.far.firstNs[0] * SLOTS_PER_NS);
    return this.inWheel === 0 ? farSlot : Math.min(farSlot, this.nextInWheel());
  }

  private nextInWheel(): number {
    const from = (this.slots[0] + 1) & MASK;
    const at = atOrAfter(this.occupied, 0, from);
    const next = at === ABSENT ? atOrAfter(this.occupied, 0, 0) : at;
    return this.slots[0] + 1 + ((next - from) & MASK);
  }
}
