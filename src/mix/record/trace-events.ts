/**
 * Writes Chrome trace events (the JSON array format of the Trace Event Format), which Perfetto and chrome://tracing open.
 * Times are microseconds.
 */
import { OrderedFile } from './ordered-file.ts';

/** What an event says in addition. */
export type Arguments = Readonly<Record<string, string | number | boolean>>;

/** A line of the picture: the thread of a process. */
export interface Track {
  readonly process: number;
  readonly thread: number;
}

export class TraceEvents {
  private readonly file: OrderedFile;
  private isEmpty = true;

  /**
   * @param path of the file, which is overwritten
   * @param clock [0] the present
   */
  constructor(path: string, clock: Float64Array) {
    this.file = new OrderedFile(path, clock);
    this.file.write('{"displayTimeUnit":"ns","traceEvents":[\n');
  }

  /** Names a process, which groups tracks. */
  nameProcess(process: number, name: string): void {
    this.describe({ process, thread: 0 }, 'process_name', { name });
    this.describe({ process, thread: 0 }, 'process_sort_index', { sort_index: process });
  }

  /** Names a track. Tracks are in the order of their threads' numbers. */
  nameTrack(track: Track, name: string): void {
    this.describe(track, 'thread_name', { name });
    this.describe(track, 'thread_sort_index', { sort_index: track.thread });
  }

  private describe(track: Track, name: string, args: Arguments): void {
    this.file.write(this.text('M', track, 0, name, '', args));
  }

  /** Something that lasts. Slices of one track are reported in order and do not overlap. */
  slice(track: Track, startNs: number, endNs: number, name: string, args: Arguments): void {
    const start = microseconds(startNs);
    // The end of a slice is exactly the start of the next one if their times are the same.
    const duration = (Number(microseconds(endNs)) - Number(start)).toFixed(DIGITS);
    this.add(startNs, this.text('X', track, startNs, name, `,"dur":${duration}`, args));
  }

  /** Something that happens at once. */
  instant(track: Track, atNs: number, name: string, args: Arguments): void {
    this.add(atNs, this.text('i', track, atNs, name, ',"s":"t"', args));
  }

  /** Something that begins, on a track where other things of its kind may overlap. Its end has the same id and name. */
  begin(track: Track, id: string, atNs: number, name: string, args: Arguments): void {
    this.add(atNs, this.text('b', track, atNs, name, `,"cat":"request","id":"${id}"`, args));
  }

  finish(track: Track, id: string, atNs: number, name: string, args: Arguments): void {
    this.add(atNs, this.text('e', track, atNs, name, `,"cat":"request","id":"${id}"`, args));
  }

  private add(atNs: number, text: string): void {
    this.file.add(atNs, Buffer.from(text));
  }

  private text(
    phase: string,
    { process, thread }: Track,
    atNs: number,
    name: string,
    more: string,
    args: Arguments,
  ): string {
    const comma = this.isEmpty ? '' : ',\n';
    this.isEmpty = false;
    const where = `"ph":"${phase}","pid":${process},"tid":${thread},"ts":${microseconds(atNs)}`;
    return `${comma}{${where}${more},"name":${JSON.stringify(name)},"args":${JSON.stringify(args)}}`;
  }

  /** Ends the file, with what is still going on. */
  close(): void {
    this.file.flush(Number.POSITIVE_INFINITY);
    this.file.write('\n]}\n');
    this.file.close();
  }
}

/** Digits of a microsecond: tenths of a picosecond would be noise. */
const DIGITS = 6;

const microseconds = (ns: number): string => (ns / 1000).toFixed(DIGITS);
