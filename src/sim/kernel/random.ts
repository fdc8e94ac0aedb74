/** Seeded random numbers (xoshiro128**), one independent stream per subsystem. */
export class RandomStream {
  private readonly s = new Int32Array(4);

  /** Streams of one seed differ by name and index. The same three always give the same numbers. */
  constructor(seed: number, name: string, index = 0) {
    let h = Math.imul(seed | 0, 0x9e3779b1) ^ Math.imul(index | 0, 0x85ebca6b);
    for (let i = 0; i < name.length; i++) h = Math.imul(h ^ name.charCodeAt(i), 0x01000193);
    for (let i = 0; i < 4; i++) {
      // splitmix32: four well-mixed words, never all zero.
      h = (h + 0x9e3779b9) | 0;
      let z = h;
      z = Math.imul(z ^ (z >>> 16), 0x85ebca6b);
      z = Math.imul(z ^ (z >>> 13), 0xc2b2ae35);
      this.s[i] = z ^ (z >>> 16);
    }
  }

  /** An integer from 0 to 2^32 - 1. */
  u32(): number {
    return this.i32() >>> 0;
  }

  /** The same 32 bits, signed. V8 never allocates for this variant. */
  i32(): number {
    const s = this.s;
    const s1 = s[1];
    const x = Math.imul(s1, 5);
    const result = Math.imul((x << 7) | (x >>> 25), 9);
    const t = s1 << 9;
    s[2] ^= s[0];
    s[3] ^= s1;
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = (s[3] << 11) | (s[3] >>> 21);
    return result;
  }

  /** A number in [0, 1). */
  next(): number {
    return (this.i32() >>> 0) / 4294967296;
  }

  /** Exponentially distributed, for think times. */
  exponential(mean: number): number {
    return -mean * Math.log(1 - this.next());
  }
}
