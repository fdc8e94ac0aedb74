/**
 * The timers of a context: a 4-ary heap over typed arrays, ordered by (time, order of setting), and a hash table from
 * token to timer, so that a timer is moved and removed in O(log n). Only growing allocates.
 */

/** Words of a heap key: time and order. */
const KEY_WORDS = 2;
/** The first capacity, a power of two. Most policies have a few timers per context. */
const FIRST_BITS = 3;
/** Slots of the hash table per timer, as a power of two: at most half of the table is in use. */
const SPARE_BITS = 1;
/** 2^32 divided by the golden ratio: spreads neighbouring tokens over the table. */
const GOLDEN = 0x9e3779b1;

export class TimerHeap {
  /** Number of timers that are set. */
  size = 0;
  /** [0]: time of the soonest timer; Infinity without one. An array, because V8 allocates a double that crosses a call. */
  readonly headNs = new Float64Array([Number.POSITIVE_INFINITY]);
  /** For the next put(): [0] its time, [1] its order among timers of the same time. */
  readonly due = new Float64Array(2);
  private bits = FIRST_BITS;
  /** By position in the heap: time and order. */
  private keys = new Float64Array(KEY_WORDS << FIRST_BITS);
  /** By position in the heap: the timer. Unused timers are behind the heap. */
  private timers = Int32Array.from({ length: 1 << FIRST_BITS }, (_, i) => i);
  /** By timer: its token, its position in the heap, and its slot in the hash table. */
  private tokens = new Float64Array(1 << FIRST_BITS);
  private positions = new Int32Array(1 << FIRST_BITS);
  private slots = new Int32Array(1 << FIRST_BITS);
  /** The hash table, with linear probing: a timer plus 1; 0: free. */
  private table = new Int32Array(1 << (FIRST_BITS + SPARE_BITS));
  /** The slot where the last find() ended. */
  private slot = 0;

  /** Token of the soonest timer; there must be one. */
  get headToken(): number {
    return this.tokens[this.timers[0]];
  }

  /** Whether the soonest timer comes before that of `other`. */
  isBefore(other: TimerHeap): boolean {
    if (this.size === 0 || other.size === 0) return other.size === 0;
    const { keys } = this;
    const theirs = other.keys;
    return keys[0] < theirs[0] || (keys[0] === theirs[0] && keys[1] < theirs[1]);
  }

  /** Sets or moves a timer to the time and order in `due`, which must be finite. @returns whether it is new */
  put(token: number): boolean {
    let timer = this.find(token);
    if (timer >= 0) {
      const at = this.positions[timer];
      if (this.comesBefore(at)) this.rise(at, timer);
      else this.sink(at, timer);
      return false;
    }
    if (this.size === this.timers.length) {
      this.grow();
      this.find(token);
    }
    const last = this.size;
    timer = this.timers[last];
    this.tokens[timer] = token;
    this.takeSlot(timer);
    this.size = last + 1;
    this.rise(last, timer);
    return true;
  }

  /** Removes a timer. @returns whether it was set */
  remove(token: number): boolean {
    if (this.size === 0) return false;
    const timer = this.find(token);
    if (timer < 0) return false;
    this.freeSlot(this.slot);
    this.removeAt(this.positions[timer]);
    return true;
  }

  /** Removes the soonest timer; there must be one. */
  pop(): void {
    this.freeSlot(this.slots[this.timers[0]]);
    this.removeAt(0);
  }

  private home(token: number): number {
    return Math.imul(token | 0, GOLDEN) >>> (32 - this.bits - SPARE_BITS);
  }

  /** The timer with this token, or -1; `slot` is where it is in the table, or would be. */
  private find(token: number): number {
    const { table, tokens } = this;
    const mask = table.length - 1;
    let at = this.home(token);
    let timer = table[at] - 1;
    while (timer >= 0 && tokens[timer] !== token) {
      at = (at + 1) & mask;
      timer = table[at] - 1;
    }
    this.slot = at;
    return timer;
  }

  /** Puts a timer into the slot where find() ended. */
  private takeSlot(timer: number): void {
    this.table[this.slot] = timer + 1;
    this.slots[timer] = this.slot;
  }

  /** Frees a slot, and closes the gap that this leaves in the probes of others. */
  private freeSlot(slot: number): void {
    const { table, tokens, slots } = this;
    const mask = table.length - 1;
    let gap = slot;
    for (let at = (gap + 1) & mask; table[at] !== 0; at = (at + 1) & mask) {
      const distance = (at - this.home(tokens[table[at] - 1])) & mask;
      if (distance < ((at - gap) & mask)) continue;
      table[gap] = table[at];
      slots[table[gap] - 1] = gap;
      gap = at;
    }
    table[gap] = 0;
  }

  /** Removes the timer at this position: the last one takes its place. */
  private removeAt(at: number): void {
    const { due, keys, timers } = this;
    const removed = timers[at];
    const last = this.size - 1;
    this.size = last;
    if (at !== last) {
      due[0] = keys[last * KEY_WORDS];
      due[1] = keys[last * KEY_WORDS + 1];
      const moved = timers[last];
      if (this.comesBefore(at)) this.rise(at, moved);
      else this.sink(at, moved);
    }
    timers[last] = removed;
    if (last === 0) this.headNs[0] = Number.POSITIVE_INFINITY;
  }

  /** Whether `due` comes before the timer at this position. */
  private comesBefore(at: number): boolean {
    const time = this.keys[at * KEY_WORDS];
    const due = this.due[0];
    return due < time || (due === time && this.due[1] < this.keys[at * KEY_WORDS + 1]);
  }

  /** Moves a timer with the key `due` up from this position, which is free. */
  private rise(from: number, timer: number): void {
    const { keys, timers, positions } = this;
    let gap = from;
    while (gap > 0) {
      const parent = (gap - 1) >> 2;
      if (!this.comesBefore(parent)) break;
      keys[gap * KEY_WORDS] = keys[parent * KEY_WORDS];
      keys[gap * KEY_WORDS + 1] = keys[parent * KEY_WORDS + 1];
      timers[gap] = timers[parent];
      positions[timers[gap]] = gap;
      gap = parent;
    }
    this.place(gap, timer);
  }

  /** Moves a timer with the key `due` down from this position, which is free. */
  private sink(from: number, timer: number): void {
    const { due, keys, timers, positions, size } = this;
    const dueNs = due[0];
    const order = due[1];
    let gap = from;
    for (;;) {
      let child = (gap << 2) + 1;
      if (child >= size) break;
      const end = Math.min(child + 4, size);
      let best = child;
      let bestNs = keys[child * KEY_WORDS];
      for (child++; child < end; child++) {
        const ns = keys[child * KEY_WORDS];
        if (ns < bestNs || (ns === bestNs && keys[child * KEY_WORDS + 1] < keys[best * KEY_WORDS + 1])) {
          best = child;
          bestNs = ns;
        }
      }
      if (dueNs < bestNs || (dueNs === bestNs && order < keys[best * KEY_WORDS + 1])) break;
      keys[gap * KEY_WORDS] = bestNs;
      keys[gap * KEY_WORDS + 1] = keys[best * KEY_WORDS + 1];
      const lifted = timers[best];
      timers[gap] = lifted;
      positions[lifted] = gap;
      gap = best;
    }
    this.place(gap, timer);
  }

  private place(at: number, timer: number): void {
    const { keys, due } = this;
    keys[at * KEY_WORDS] = due[0];
    keys[at * KEY_WORDS + 1] = due[1];
    this.timers[at] = timer;
    this.positions[timer] = at;
    this.headNs[0] = keys[0];
  }

  private grow(): void {
    const old = this.timers.length;
    this.bits++;
    const capacity = 1 << this.bits;
    const keys = new Float64Array(capacity * KEY_WORDS);
    const tokens = new Float64Array(capacity);
    const timers = new Int32Array(capacity);
    const positions = new Int32Array(capacity);
    keys.set(this.keys);
    tokens.set(this.tokens);
    timers.set(this.timers);
    positions.set(this.positions);
    for (let i = old; i < capacity; i++) timers[i] = i;
    this.keys = keys;
    this.tokens = tokens;
    this.timers = timers;
    this.positions = positions;
    this.slots = new Int32Array(capacity);
    this.table = new Int32Array(capacity << SPARE_BITS);
    for (let timer = 0; timer < old; timer++) {
      this.find(tokens[timer]);
      this.takeSlot(timer);
    }
  }
}
