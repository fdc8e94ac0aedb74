/**
 * What the memory of one end must hold: every byte is told by the requests that succeeded, but for those that a
 * failed request may have touched.
 */

/** A part of a memory: where it begins, and its length. */
export type Range = readonly [at: number, bytes: number];

export class Memory {
  readonly bytes: Uint8Array;
  private readonly want: Uint8Array;
  private readonly unsure: Uint8Array;
  private next = 0;

  constructor(bytes: Uint8Array, salt: number) {
    this.bytes = bytes;
    for (let i = 0; i < bytes.length; i++) bytes[i] = (i * 31 + (i >> 8) * 7 + salt) & 255;
    this.want = bytes.slice();
    this.unsure = new Uint8Array(bytes.length);
  }

  /** A place that nothing else uses, aligned to 8, with some bytes behind it that must stay as they are. */
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

  /** `data` has been put into these ranges, as far as it goes. */
  write(ranges: readonly Range[], data: Uint8Array): void {
    let from = 0;
    for (const [at, bytes] of ranges) {
      const part = data.subarray(from, from + bytes);
      this.want.set(part, at);
      this.unsure.fill(0, at, at + part.length);
      from += bytes;
    }
  }

  forget(ranges: readonly Range[]): void {
    for (const [at, bytes] of ranges) this.unsure.fill(1, at, at + bytes);
  }

  /** The application writes here itself. */
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

  /** The first byte that is not as it must be; '' when there is none. */
  fault(): string {
    const { bytes, want, unsure } = this;
    const at = want.findIndex((byte, i) => byte !== bytes[i] && unsure[i] === 0);
    return at < 0 ? '' : `byte ${at} is ${bytes[at]}, not ${want[at]}`;
  }
}
