/**
 * The example programs as tenants: receivers on one device, which no daemon knows, and their callers on the other.
 */
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Program, Programs, type RunOptions } from './programs.ts';

/** What file-transfer.mjs sends at a time. */
export const CHUNK_BYTES = 1 << 20;

export interface Devices {
  readonly near: string;
  readonly far: string;
}

export class TestBed {
  readonly programs: Programs;
  private readonly devices: Devices;
  private readonly folder: string;
  private files = 0;
  private readonly ports = { transfer: 0, store: 0 };

  constructor(devices: Devices) {
    this.devices = devices;
    this.folder = mkdtempSync(join(tmpdir(), 'isoverbs-processes-'));
    mkdirSync(join(this.folder, 'run'), { mode: 0o755 });
    this.programs = new Programs(join(this.folder, 'run', 'daemon.sock'));
  }

  /** A file of the test's own; returns its path. */
  file(bytes: Uint8Array | string): string {
    const path = join(this.folder, `file-${this.files++}`);
    writeFileSync(path, bytes);
    return path;
  }

  /** Both receivers; they serve all who call. */
  async serve(): Promise<{ transfers: Program; store: Program }> {
    const [transfers, store] = ['file-transfer', 'kv-store'].map((name) =>
      this.programs.start([`examples/${name}.mjs`, '--device', this.devices.far, '--listen', '0']),
    );
    const [transferPort, storePort] = await Promise.all(
      [transfers, store].map(async (one) => Number((await one.line(/^listening on .* port (\d+)$/))[1])),
    );
    this.ports.transfer = transferPort;
    this.ports.store = storePort;
    return { transfers, store };
  }

  /** Random bytes, sent again and again for so long; says every half a second how many WRITEs have completed. */
  transfer(run: RunOptions | null, seconds: number, fileBytes = 4 * CHUNK_BYTES): Program {
    const file = this.file(randomBytes(fileBytes));
    const args = ['--connect', `127.0.0.1:${this.ports.transfer}`, '--file', file, '--progress'];
    return this.client('file-transfer', run, seconds, args);
  }

  /** A hundred keys are put; then each is got in turn, and compared. */
  store(run: RunOptions | null, seconds: number): Program {
    return this.client('kv-store', run, seconds, ['--connect', `127.0.0.1:${this.ports.store}`]);
  }

  private client(name: string, run: RunOptions | null, seconds: number, args: readonly string[]): Program {
    const words = ['--device', this.devices.near, '--seconds', String(seconds), ...args];
    return this.programs.run(run, [`examples/${name}.mjs`, ...words]);
  }

  async close(): Promise<void> {
    await this.programs.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** How many WRITEs had completed, and when that was said. */
function progressOf(program: Program): { atMs: number; writes: number }[] {
  return program.lines.flatMap(({ atMs, text }) => {
    const found = /^(\d+) WRITEs$/.exec(text);
    return found === null ? [] : [{ atMs, writes: Number(found[1]) }];
  });
}

export interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

/** Payload of a transfer within a span, from the first to the last line there. @throws Error if there are not two */
export function gbpsOf(transfer: Program, { fromMs, toMs }: Span): number {
  const lines = progressOf(transfer).filter(({ atMs }) => atMs >= fromMs && atMs <= toMs);
  const [first, last] = [lines[0], lines.at(-1)];
  if (first === undefined || last === undefined || last.atMs <= first.atMs) {
    throw new Error(`${lines.length} lines within ${toMs - fromMs} ms: ${transfer.output}`);
  }
  return ((last.writes - first.writes) * CHUNK_BYTES * 8) / ((last.atMs - first.atMs) * 1e6);
}
