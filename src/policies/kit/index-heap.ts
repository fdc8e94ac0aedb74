/**
 * A binary heap of small dense numbers, by a time and, among equal times, by the order in which they were put. Each may be
 * moved or removed at any time. Unlike the heap of timers (shim/timers/timer-heap.ts) it needs no hash table. Only growing
 * allocates.
 */
import { fitColumn } from '../../shim/tables.ts';
import { NONE } from './run-queue.ts';

/** Words of an item: its time, and its order. */
const BITS = 1;

/** Items by time. */
export class IndexHeap {
  /** The number of items. */
  size = 0;
  /** [0] The time for the next `put`. An array, because V8 allocates a double that is passed to a function. */
  readonly due = new Float64Array(1);
  /** [0] The time of the first item; Infinity if there is none. */
  readonly firstNs = Float64Array.of(Number.POSITIVE_INFINITY);
  private order = 0;
  private heap: Int32Array = new Int32Array(16);
  // By item: the words above, and its place in the heap plus one.
  private keys: Float64Array = new Float64Array(64 << BITS);
  private places: Int32Array = new Int32Array(64);

  /** The first item; NONE: there is none. */
  get first(): number {
    return this.size === 0 ? NONE : this.heap[0];
  }

  /** Whether an item is here. */
  has(item: number): boolean {
    return item < this.places.length && this.places[item] !== 0;
  }

  /** Puts an item at the time in `due`, or moves it there. */
  put(item: number): void {
    if (item >= this.places.length || this.size >= this.heap.length) this.fit(item);
    const { keys } = this;
    keys[item << BITS] = this.due[0];
    keys[(item << BITS) + 1] = this.order++;
    const place = this.places[item] - 1;
    if (place < 0) this.rise(this.size++, item);
    else this.settle(place, item);
    this.firstNs[0] = keys[this.heap[0] << BITS];
  }

  private fit(item: number): void {
    this.places = fitColumn(this.places, item);
    this.keys = fitColumn(this.keys, (item << BITS) + 1);
    this.heap = fitColumn(this.heap, this.size);
  }

  /** Removes an item. It has no effect if the item is not here. */
  remove(item: number): void {
    if (!this.has(item)) return;
    const { heap, places } = this;
    const place = places[item] - 1;
    places[item] = 0;
    const last = heap[--this.size];
    if (last !== item) this.settle(place, last);
    this.firstNs[0] = this.size === 0 ? Number.POSITIVE_INFINITY : this.keys[heap[0] << BITS];
  }

  private comesBefore(one: number, other: number): boolean {
    const { keys } = this;
    const mine = keys[one << BITS];
    const theirs = keys[other << BITS];
    return mine < theirs || (mine === theirs && keys[(one << BITS) + 1] < keys[(other << BITS) + 1]);
  }

  /** Puts an item at a place that is free, or further up or down. */
  private settle(place: number, item: number): void {
    if (place > 0 && this.comesBefore(item, this.heap[(place - 1) >> 1])) this.rise(place, item);
    else this.sink(place, item);
  }

  private rise(from: number, item: number): void {
    const { heap, places } = this;
    let place = from;
    while (place > 0) {
      const parent = (place - 1) >> 1;
      const above = heap[parent];
      if (!this.comesBefore(item, above)) break;
      heap[place] = above;
      places[above] = place + 1;
      place = parent;
    }
    heap[place] = item;
    places[item] = place + 1;
  }

  private sink(from: number, item: number): void {
    const { heap, places, size } = this;
    let place = from;
    for (let child = 2 * place + 1; child < size; child = 2 * place + 1) {
      if (child + 1 < size && this.comesBefore(heap[child + 1], heap[child])) child++;
      const below = heap[child];
      if (!this.comesBefore(below, item)) break;
      heap[place] = below;
      places[below] = place + 1;
      place = child;
    }
    heap[place] = item;
    places[item] = place + 1;
  }
}
