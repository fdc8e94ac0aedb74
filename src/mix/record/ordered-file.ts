/** A file whose parts are added in any order near the present, and written in the order of their times. */
import { closeSync, openSync, writeSync } from 'node:fs';

/** Parts are written when there are this many bytes of them. */
const CHUNK_BYTES = 1 << 22;

interface Part {
  readonly atNs: number;
  readonly data: Uint8Array;
}

export class OrderedFile {
  private readonly fd: number;
  private readonly clock: Float64Array;
  private parts: Part[] = [];
  private pendingBytes = 0;

  /**
   * @param file which is overwritten
   * @param clock [0] the present. Parts with earlier times keep the order in which they are added only among themselves
   */
  constructor(file: string, clock: Float64Array) {
    this.fd = openSync(file, 'w');
    this.clock = clock;
  }

  /** Writes something at once. */
  write(data: string | Uint8Array): void {
    writeSync(this.fd, typeof data === 'string' ? Buffer.from(data) : data);
  }

  /** Adds a part, which the file keeps. */
  add(atNs: number, data: Uint8Array): void {
    this.parts.push({ atNs, data });
    this.pendingBytes += data.length;
    if (this.pendingBytes > CHUNK_BYTES) this.flush();
  }

  /** Writes all parts up to a time, by default the present: parts that are added later have later times. */
  flush(untilNs: number = this.clock[0]): void {
    // Parts of one source are in order, those of several sources are not. Equal times keep their order.
    this.parts.sort((a, b) => a.atNs - b.atNs);
    const behind = this.parts.findIndex(({ atNs }) => atNs > untilNs);
    const due = this.parts.splice(0, behind < 0 ? this.parts.length : behind);
    this.write(Buffer.concat(due.map(({ data }) => data)));
    this.pendingBytes = this.parts.reduce((sum, { data }) => sum + data.length, 0);
  }

  /** Forgets the parts that have not been written. */
  close(): void {
    closeSync(this.fd);
  }
}
