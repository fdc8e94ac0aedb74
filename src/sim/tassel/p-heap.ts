/**
 * The dormant period of the timeline (Tassel 3.2.2 and appendix A): a pipelined heap of fixed capacity (Bhagwan and
 * Lin, INFOCOM 2000). Every operation moves from the root down, one level in a cycle, and touches two adjacent levels
 * at a time. So the next one may begin after two cycles, when the root is right again, and meets no other. That is why
 * the model carries out the whole operation when it begins.
 */
import { isAfter, PART, WHOLE } from './system-time.ts';

/** Cycles between the beginnings of two operations. */
export const OPERATION_CYCLES = 2;

const ROOT = 1;
const EMPTY = -1;

/** A min-heap of times, each with a queue pair and a version. Nothing can be removed except the minimum. */
export class PHeap {
  /** Levels of the tree: the latency of an operation in cycles. */
  readonly height: number;
  readonly capacity: number;
  /** Entries in the heap. */
  count = 0;
  /** Key of node n at index 2n; the minimum is at KEY_OF_MINIMUM. */
  readonly keys: Float64Array;
  private readonly qps: Int32Array;
  private readonly versions: Int32Array;
  /** Vacant nodes of the subtree below a node, and the node itself. */
  private readonly vacant: Int32Array;
  /** [0] the cycle from which the next operation may begin, [1] the cycle in which the latest one ends. */
  private readonly cycles = new Float64Array(2);
  /** The entry on its way down. */
  private readonly key = new Float64Array(2);

  constructor(capacity: number) {
    this.capacity = capacity;
    this.height = Math.ceil(Math.log2(capacity + 1));
    const nodes = 2 ** this.height;
    this.keys = new Float64Array(2 * nodes);
    this.qps = new Int32Array(nodes).fill(EMPTY);
    this.versions = new Int32Array(nodes);
    this.vacant = new Int32Array(nodes);
    for (let node = 1; node < nodes; node++) {
      this.vacant[node] = 2 ** (this.height - Math.floor(Math.log2(node))) - 1;
    }
  }

  get isFull(): boolean {
    return this.count === this.capacity;
  }

  /** Queue pair of the minimum; -1 when the heap is empty. */
  get first(): number {
    return this.qps[ROOT];
  }

  get firstVersion(): number {
    return this.versions[ROOT];
  }

  /** The first cycle in which another operation may begin. */
  get freeCycle(): number {
    return this.cycles[0];
  }

  /** The cycle in which the latest operation reaches the lowest level. */
  get doneCycle(): number {
    return this.cycles[1];
  }

  /** Begins to add an entry with the key at index `i` of `key`. There must be room. */
  enqueue(qp: number, version: number, key: Float64Array, i: number, cycle: number): void {
    this.start(cycle);
    this.count++;
    this.key[WHOLE] = key[i];
    this.key[PART] = key[i + PART];
    let held = qp;
    let heldVersion = version;
    let node = ROOT;
    while (this.qps[node] !== EMPTY) {
      this.vacant[node]--;
      if (isAfter(this.keys, 2 * node, this.key, 0)) {
        const below = this.qps[node];
        const belowVersion = this.versions[node];
        const whole = this.keys[2 * node];
        const part = this.keys[2 * node + PART];
        this.put(node, held, heldVersion, this.key, 0);
        this.key[WHOLE] = whole;
        this.key[PART] = part;
        held = below;
        heldVersion = belowVersion;
      }
      node = this.vacant[2 * node] > 0 ? 2 * node : 2 * node + 1;
    }
    this.vacant[node]--;
    this.put(node, held, heldVersion, this.key, 0);
  }

  /** Begins to remove the minimum. */
  dequeue(cycle: number): void {
    this.start(cycle);
    this.count--;
    let node = ROOT;
    for (;;) {
      this.vacant[node]++;
      const child = this.smallerChild(node);
      if (child === EMPTY) break;
      this.put(node, this.qps[child], this.versions[child], this.keys, 2 * child);
      node = child;
    }
    this.qps[node] = EMPTY;
  }

  private start(cycle: number): void {
    this.cycles[0] = cycle + OPERATION_CYCLES;
    this.cycles[1] = cycle + this.height;
  }

  private put(node: number, qp: number, version: number, key: Float64Array, i: number): void {
    this.qps[node] = qp;
    this.versions[node] = version;
    this.keys[2 * node] = key[i];
    this.keys[2 * node + PART] = key[i + PART];
  }

  private smallerChild(node: number): number {
    const left = 2 * node;
    if (left >= this.qps.length) return EMPTY;
    const right = left + 1;
    if (this.qps[left] === EMPTY) return this.qps[right] === EMPTY ? EMPTY : right;
    if (this.qps[right] === EMPTY) return left;
    return isAfter(this.keys, 2 * left, this.keys, 2 * right) ? right : left;
  }
}

/** Index in PHeap.keys. */
export const KEY_OF_MINIMUM = 2 * ROOT;
