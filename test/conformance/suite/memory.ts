/**
 * Expected contents of the memory of one end: the successful requests determine every byte, except those that a failed
 * request may have changed.
 */

import { pattern } from '../bytes.ts';

/** A part of a memory: where it begins, and its length. */
export type Range = readonly [at: number, bytes: number];

export class Memory {
  readonly bytes: Uint8Array;
  private readonly want: Uint8Array;
  /** Bytes that a later successful request writes are known again. */
  private unsure: Range[] = [];
  private next = 0;

  constructor(bytes: Uint8Array, salt: number) {
    this.bytes = bytes;
    bytes.set(pattern(bytes.length, salt));
    this.want = bytes.slice();
  }

  /** Allocates a range that nothing else uses, aligned to 8, followed by some bytes that must not change. */
  take(bytes: number): number {
    const at = this.next;
    this.next = (at + bytes + 23) & ~7;
    if (this.next > this.bytes.length) throw new RangeError('the case needs more memory');
    return at;
  }

  read(ranges: readonly Range[]): Uint8Array {
    const whole = new Uint8Array(ranges.reduce((sum, [, bytes]) => sum + bytes, 0));
    let to = 0;
    for (const [at, bytes] of ranges) {
      whole.set(this.want.subarray(at, at + bytes), to);
      to += bytes;
    }
    return whole;
  }

  /** `data` was written to these ranges, up to its length. */
  write(ranges: readonly Range[], data: Uint8Array): void {
    let from = 0;
    for (const [at, bytes] of ranges) {
      const part = data.subarray(from, from + bytes);
      this.want.set(part, at);
      this.unsure = this.unsure.filter(([begin, length]) => begin + length <= at || begin >= at + bytes);
      from += bytes;
    }
  }

  /** Whether the known bytes of these ranges are as expected. */
  holds(ranges: readonly Range[]): boolean {
    return ranges.every(([at, bytes]) => {
      const isUnsure = this.unsure.some(([begin, length]) => begin < at + bytes && at < begin + length);
      return (
        isUnsure ||
        Buffer.compare(this.bytes.subarray(at, at + bytes), this.want.subarray(at, at + bytes)) === 0
      );
    });
  }

  forget(ranges: readonly Range[]): void {
    this.unsure.push(...ranges);
  }

  /** The application itself writes to this range. */
  set(at: number, data: Uint8Array): void {
    this.bytes.set(data, at);
    this.want.set(data, at);
  }

  word(at: number): bigint {
    return new DataView(this.want.buffer).getBigUint64(at, true);
  }

  setWord(at: number, value: bigint): void {
    new DataView(this.want.buffer).setBigUint64(at, value, true);
  }

  /** The first wrong byte; '' if there is none. */
  fault(): string {
    const { bytes, want } = this;
    for (const [at, length] of this.unsure) want.set(bytes.subarray(at, at + length), at);
    if (Buffer.compare(bytes, want) === 0) return '';
    const at = want.findIndex((byte, i) => byte !== bytes[i]);
    return `byte ${at} is ${bytes[at]}, not ${want[at]}`;
  }
}
