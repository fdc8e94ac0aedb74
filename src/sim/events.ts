/**
 * The event queue: a 4-ary heap over typed arrays, ordered by (time, order of insertion). An event is a
 * kind and three integers; nothing is allocated per event.
 */

export class EventQueue {
  /** Of the event that the last pop() took out. */
  kind = 0;
  a = 0;
  b = 0;
  c = 0;
  /** Events in the queue, stale timers included. */
  size = 0;
  private capacity = 1024;
  private times = new Float64Array(this.capacity);
  private orders = new Float64Array(this.capacity);
  private slots = new Int32Array(this.capacity);
  private kinds = new Uint8Array(this.capacity);
  private as = new Int32Array(this.capacity);
  private bs = new Int32Array(this.capacity);
  private cs = new Int32Array(this.capacity);
  /** Slots not in use: a stack. */
  private free = Int32Array.from({ length: this.capacity }, (_, i) => i);
  /** [0] time of the popped event, [1] running order; in an array so that both stay doubles. */
  private readonly numbers = new Float64Array(2);

  /**
   * Of the next push: [0] when it is due, [1] its place among those due at the same time, which push() sets.
   * An array, because V8 allocates a double that is handed to a function.
   */
  readonly due = new Float64Array(2);

  /** Time of the event that the last pop() took out. */
  get time(): number {
    return this.numbers[0];
  }

  /** Puts in an event for the time in `due[0]`, behind those that are there for the same time. */
  push(kind: number, a: number, b: number, c: number): void {
    this.reserve();
    this.insert(kind, a, b, c);
  }

  /** Takes the next place for a later insert(): `due[1]`. */
  reserve(): void {
    const order = this.numbers[1];
    this.numbers[1] = order + 1;
    this.due[1] = order;
  }

  /** Puts in an event for the time in `due[0]` at the place in `due[1]`. */
  insert(kind: number, a: number, b: number, c: number): void {
    const time = this.due[0];
    const order = this.due[1];
    const at = this.size;
    if (at === this.capacity) this.grow();
    const slot = this.free[at];
    this.kinds[slot] = kind;
    this.as[slot] = a;
    this.bs[slot] = b;
    this.cs[slot] = c;
    this.size = (at + 1) | 0;
    const { times, orders, slots } = this;
    let hole = at;
    while (hole > 0) {
      const parent = (hole - 1) >> 2;
      const before = times[parent];
      if (before < time || (before === time && orders[parent] < order)) break;
      times[hole] = times[parent];
      orders[hole] = orders[parent];
      slots[hole] = slots[parent];
      hole = parent;
    }
    times[hole] = time;
    orders[hole] = order;
    slots[hole] = slot;
  }

  /** Time of the first event; Infinity when there is none. */
  headTime(): number {
    return this.size === 0 ? Number.POSITIVE_INFINITY : this.times[0];
  }

  headKind(): number {
    return this.kinds[this.slots[0]];
  }

  headA(): number {
    return this.as[this.slots[0]];
  }

  /** Takes the first event out, into kind, a, b, c and time. The queue must not be empty. */
  pop(): void {
    const slot = this.slots[0];
    this.numbers[0] = this.times[0];
    this.kind = this.kinds[slot];
    this.a = this.as[slot];
    this.b = this.bs[slot];
    this.c = this.cs[slot];
    const last = (this.size - 1) | 0;
    this.size = last;
    this.free[last] = slot;
    if (last > 0) this.sink(last);
  }

  /** Puts the entry at `from` where it belongs, beginning at the hole that the root left. */
  private sink(from: number): void {
    const { times, orders, slots } = this;
    const time = times[from];
    const order = orders[from];
    const slot = slots[from];
    let hole = 0;
    for (;;) {
      let child = (hole << 2) + 1;
      if (child >= from) break;
      const end = Math.min(child + 4, from);
      let best = child;
      let bestTime = times[child];
      for (child++; child < end; child++) {
        const t = times[child];
        if (t < bestTime || (t === bestTime && orders[child] < orders[best])) {
          best = child;
          bestTime = t;
        }
      }
      if (bestTime > time || (bestTime === time && orders[best] > order)) break;
      times[hole] = bestTime;
      orders[hole] = orders[best];
      slots[hole] = slots[best];
      hole = best;
    }
    times[hole] = time;
    orders[hole] = order;
    slots[hole] = slot;
  }

  private grow(): void {
    const old = this.capacity;
    const capacity = old * 2;
    const f64 = (from: Float64Array) => {
      const to = new Float64Array(capacity);
      to.set(from);
      return to;
    };
    const i32 = (from: Int32Array) => {
      const to = new Int32Array(capacity);
      to.set(from);
      return to;
    };
    this.times = f64(this.times);
    this.orders = f64(this.orders);
    this.slots = i32(this.slots);
    const kinds = new Uint8Array(capacity);
    kinds.set(this.kinds);
    this.kinds = kinds;
    this.as = i32(this.as);
    this.bs = i32(this.bs);
    this.cs = i32(this.cs);
    this.free = i32(this.free);
    for (let i = old; i < capacity; i++) this.free[i] = i;
    this.capacity = capacity;
  }
}
