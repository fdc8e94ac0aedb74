// @ts-nocheck
import { QPW_COUNT } from '../../dist/providers/rdma-core/qp-words.js';

/** Seeded random numbers, and random values of every JavaScript type. */

/** The generator is mulberry32. */
export class Random {
  constructor(seed) {
    this.state = seed >>> 0;
  }
  u32() {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let t = this.state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (t ^ (t >>> 14)) >>> 0;
  }
  /** A whole number below n. */
  below(n) {
    return this.u32() % n;
  }
  chance(p) {
    return this.u32() < p * 2 ** 32;
  }
  pick(list) {
    return list[this.below(list.length)];
  }
  /** A random word, often a boundary value. */
  word() {
    return this.pick([
      0,
      1,
      2,
      7,
      8,
      64,
      0xff,
      0x7fffffff,
      0x80000000,
      0xffffffff,
      this.below(64),
      this.u32(),
    ]);
  }
}

function detached(view) {
  structuredClone(view.buffer, { transfer: [view.buffer] });
  return view;
}

const Resizable = ArrayBuffer;

const MAKERS = [
  () => undefined,
  () => null,
  () => true,
  () => false,
  () => Number.NaN,
  () => -0,
  () => Number.POSITIVE_INFINITY,
  () => -1,
  () => 0.5,
  () => 1e300,
  () => 2 ** 31,
  () => 2 ** 32,
  () => 2 ** 53,
  () => -(2 ** 31),
  () => 5n,
  () => -(2n ** 70n),
  () => '',
  () => 'null0',
  () => '\ud800',
  () => 'x'.repeat(1000),
  () => Symbol('s'),
  () => ({}),
  () => ({ valueOf: () => 7 }),
  () => ({ length: QPW_COUNT }),
  () => [],
  () => [1, 2, 3],
  () => () => {},
  () => new Date(0),
  () => /x/,
  () => new Map(),
  () => Object.create(null),
  () => new Proxy({}, {}),
  () => new Proxy(new Uint8Array(8), {}),
  () => Promise.resolve(),
  () => new Error('an argument'),
  () => new ArrayBuffer(0),
  () => new ArrayBuffer(64),
  () => new SharedArrayBuffer(64),
  () => new Resizable(64, { maxByteLength: 128 }),
  () => new DataView(new ArrayBuffer(64)),
  () => new Uint8Array(0),
  () => new Uint8Array(16),
  () => new Uint8Array(new SharedArrayBuffer(32), 8, 16),
  () => new Int8Array(16),
  () => new Uint32Array(0),
  () => new Uint32Array(7),
  () => new Uint32Array(QPW_COUNT),
  () => new Uint32Array(new SharedArrayBuffer(4 * QPW_COUNT)),
  () => new Uint32Array(new Resizable(4 * QPW_COUNT, { maxByteLength: 8 * QPW_COUNT })),
  () => new Float64Array(QPW_COUNT),
  () => new BigUint64Array(QPW_COUNT),
  () => detached(new Uint8Array(16)),
  () => detached(new Uint32Array(QPW_COUNT)),
];

/** A value of any type. */
export function junk(random) {
  return random.chance(0.2) ? random.word() : random.pick(MAKERS)();
}
