/**
 * The event queue: a 4-ary heap over typed arrays, ordered by (time, order of insertion). An event is a kind
 * and three integers. Nothing is allocated per event.
 *
 * Most events insert another one at once. So pop() leaves the root empty, and the next insert() starts there
 * and sinks, which saves half the work. Without such an insert, the last entry fills the root before the head
 * is read.
 */

/** Words of a heap key: time and order. */
const KEY_WORDS = 2;
/** Words of an event record: kind, a, b, c. */
const RECORD_WORDS = 4;

export class EventQueue {
  /** The event that the last pop() removed. */
  kind = 0;
  a = 0;
  b = 0;
  c = 0;
  /** Events in the queue, including stale timers. */
  size = 0;
  private capacity = 1024;
  /** 1 while the root is empty, otherwise 0; the other entries follow it. A number is cheaper to test than a boolean. */
  private hole = 0;
  private keys = new Float64Array(this.capacity * KEY_WORDS);
  private records = new Int32Array(this.capacity);
  private words = new Int32Array(this.capacity * RECORD_WORDS);
  /** A stack of unused records. */
  private free = Int32Array.from({ length: this.capacity }, (_, i) => i);
  /** [0] time of the popped event, [1] running order. In an array, so that both stay doubles. */
  private readonly numbers = new Float64Array(2);
  /** Time and order of the entry that fills the root. */
  private readonly item = new Float64Array(2);

  /**
   * For the next push: [0] its time, [1] its order among events of the same time, which push() sets. An
   * array, because V8 allocates a double passed to a function.
   */
  readonly due = new Float64Array(2);

  /** Time of the event that the last pop() removed. */
  get time(): number {
    return this.numbers[0];
  }

  /** Adds an event at the time in `due[0]`, after those already queued for that time. */
  push(kind: number, a: number, b: number, c: number): void {
    this.reserve();
    this.insert(kind, a, b, c);
  }

  /** Takes the next order number for a later insert(): `due[1]`. */
  reserve(): void {
    const order = this.numbers[1];
    this.numbers[1] = order + 1;
    this.due[1] = order;
  }

  /** Adds an event at the time in `due[0]` with the order in `due[1]`. */
  insert(kind: number, a: number, b: number, c: number): void {
    const at = this.size;
    if (at === this.capacity) this.grow();
    const record = this.free[at];
    const { words } = this;
    // Without "| 0", V8 converts each parameter to a double and back.
    const word = (record * RECORD_WORDS) | 0;
    words[word] = kind | 0;
    words[word | 1] = a | 0;
    words[word | 2] = b | 0;
    words[word | 3] = c | 0;
    this.size = (at + 1) | 0;
    if (this.hole !== 0) {
      this.hole = 0;
      this.sink(record, this.due);
    } else this.rise(at, record);
  }

  /** Time of the first event; Infinity when the queue is empty. */
  headTime(): number {
    if (this.hole !== 0) this.fill();
    return this.size === 0 ? Number.POSITIVE_INFINITY : this.keys[0];
  }

  /** Writes headTime() to `to[0]`: V8 allocates a double that a function returns. */
  readHeadTime(to: Float64Array): void {
    if (this.hole !== 0) this.fill();
    if (this.size === 0) to[0] = Number.POSITIVE_INFINITY;
    else to[0] = this.keys[0];
  }

  /** Whether there is an event at the time `times[at]` or earlier. */
  isDue(times: Float64Array, at: number): boolean {
    if (this.hole !== 0) this.fill();
    return this.size > 0 && this.keys[0] <= times[at];
  }

  /** Whether the first event is earlier than `times[at]`. The queue must not be empty. */
  headPrecedes(times: Float64Array, at: number): boolean {
    if (this.hole !== 0) this.fill();
    return this.keys[0] < times[at];
  }

  /** Whether the first event of this queue, which must not be empty, precedes all of another one that shares its orders. */
  precedes(other: EventQueue): boolean {
    if (this.hole !== 0) this.fill();
    if (other.hole !== 0) other.fill();
    if (other.size === 0) return true;
    const time = this.keys[0];
    const otherTime = other.keys[0];
    return time < otherTime || (time === otherTime && this.keys[1] < other.keys[1]);
  }

  headA(): number {
    if (this.hole !== 0) this.fill();
    return this.words[this.records[0] * RECORD_WORDS + 1];
  }

  /** Removes the first event into kind, a, b, c and time. The queue must not be empty. */
  pop(): void {
    if (this.hole !== 0) this.fill();
    const { words } = this;
    const record = this.records[0];
    const word = (record * RECORD_WORDS) | 0;
    this.numbers[0] = this.keys[0];
    this.kind = words[word];
    this.a = words[word | 1];
    this.b = words[word | 2];
    this.c = words[word | 3];
    const last = (this.size - 1) | 0;
    this.size = last;
    this.free[last] = record;
    this.hole = 1;
  }

  /** Moves the last entry into the empty root and sinks it. */
  private fill(): void {
    this.hole = 0;
    const last = this.size;
    if (last === 0) return;
    this.item[0] = this.keys[last * KEY_WORDS];
    this.item[1] = this.keys[last * KEY_WORDS + 1];
    this.sink(this.records[last], this.item);
  }

  /** Inserts the entry whose key is `due`, starting from the end of the heap. */
  private rise(from: number, record: number): void {
    const { keys, records, due } = this;
    const time = due[0];
    const order = due[1];
    let hole = from;
    while (hole > 0) {
      const parent = (hole - 1) >> 2;
      const before = keys[parent * KEY_WORDS];
      if (before < time || (before === time && keys[parent * KEY_WORDS + 1] < order)) break;
      keys[hole * KEY_WORDS] = before;
      keys[hole * KEY_WORDS + 1] = keys[parent * KEY_WORDS + 1];
      records[hole] = records[parent];
      hole = parent;
    }
    keys[hole * KEY_WORDS] = time;
    keys[hole * KEY_WORDS + 1] = order;
    records[hole] = record;
  }

  /** Inserts the entry with this key, starting from the root. */
  private sink(record: number, key: Float64Array): void {
    const { keys, records, size } = this;
    const time = key[0];
    const order = key[1];
    let hole = 0;
    // "| 0" here, and "| 1" on even numbers, save checks for overflow.
    for (let child = 1; child < size; child = ((hole << 2) + 1) | 0) {
      const end = Math.min((child + 4) | 0, size);
      let best = child;
      let bestTime = keys[child << 1];
      for (child = (child + 1) | 0; child < end; child = (child + 1) | 0) {
        const t = keys[child << 1];
        if (t < bestTime || (t === bestTime && keys[(child << 1) | 1] < keys[(best << 1) | 1])) {
          best = child;
          bestTime = t;
        }
      }
      if (bestTime > time || (bestTime === time && keys[(best << 1) | 1] > order)) break;
      keys[hole << 1] = bestTime;
      keys[(hole << 1) | 1] = keys[(best << 1) | 1];
      records[hole] = records[best];
      hole = best;
    }
    keys[hole << 1] = time;
    keys[(hole << 1) | 1] = order;
    records[hole] = record;
  }

  private grow(): void {
    const old = this.capacity;
    const capacity = old * 2;
    const keys = new Float64Array(capacity * KEY_WORDS);
    keys.set(this.keys);
    this.keys = keys;
    const larger = (from: Int32Array, each: number) => {
      const to = new Int32Array(capacity * each);
      to.set(from);
      return to;
    };
    this.records = larger(this.records, 1);
    this.words = larger(this.words, RECORD_WORDS);
    this.free = larger(this.free, 1);
    for (let i = old; i < capacity; i++) this.free[i] = i;
    this.capacity = capacity;
  }
}
