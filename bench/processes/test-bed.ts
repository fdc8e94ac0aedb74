/**
 * Runs the example programs as tenants: servers on one device, without a daemon, and their clients on the other.
 */
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Program, Programs, type RunOptions } from './programs.ts';

/** Bytes of each WRITE of file-transfer.mjs. */
export const CHUNK_BYTES = 1 << 20;

/** 1.07 s: an emulated machine may stand still for longer than all repetitions take with the usual 67 ms. */
const QP_TIMEOUT = ['--qp-timeout', '18'];

/** The devices of the clients (near) and of the servers (far). */
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

  /** Creates a temporary file; returns its path. @param extension with its dot */
  file(bytes: Uint8Array | string, extension = ''): string {
    const path = join(this.folder, `file-${this.files++}${extension}`);
    writeFileSync(path, bytes);
    return path;
  }

  /** Starts both servers, which accept any number of clients. */
  async serve(): Promise<{ transfers: Program; store: Program }> {
    const [transfers, store] = ['file-transfer', 'kv-store'].map((name) =>
      this.programs.start([
        `examples/${name}.mjs`,
        ...QP_TIMEOUT,
        '--device',
        this.devices.far,
        '--listen',
        '0',
      ]),
    );
    const [transferPort, storePort] = await Promise.all(
      [transfers, store].map(async (one) => Number((await one.line(/^listening on .* port (\d+)$/))[1])),
    );
    this.ports.transfer = transferPort;
    this.ports.store = storePort;
    return { transfers, store };
  }

  /** Starts a client that sends random bytes for the given time, and prints the completed WRITEs every half second. */
  transfer(run: RunOptions | null, seconds: number, fileBytes = 4 * CHUNK_BYTES): Program {
    const file = this.file(randomBytes(fileBytes));
    const args = ['--connect', `127.0.0.1:${this.ports.transfer}`, '--file', file, '--progress'];
    return this.client('file-transfer', run, seconds, args);
  }

  /** Starts a client that puts a hundred keys, and then gets each in turn and compares the value. */
  store(run: RunOptions | null, seconds: number): Program {
    return this.client('kv-store', run, seconds, ['--connect', `127.0.0.1:${this.ports.store}`]);
  }

  private client(name: string, run: RunOptions | null, seconds: number, args: readonly string[]): Program {
    const words = [...QP_TIMEOUT, '--device', this.devices.near, '--seconds', String(seconds), ...args];
    return this.programs.run(run, [`examples/${name}.mjs`, ...words]);
  }

  async close(): Promise<void> {
    await this.programs.close();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** The completed WRITEs at each line of a transfer's output. */
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

/** WRITEs per second of a transfer, between its first and last line of output within a span. @throws Error without two lines */
export function writesPerSOf(transfer: Program, { fromMs, toMs }: Span): number {
  const lines = progressOf(transfer).filter(({ atMs }) => atMs >= fromMs && atMs <= toMs);
  const [first, last] = [lines[0], lines.at(-1)];
  if (first === undefined || last === undefined || last.atMs <= first.atMs) {
    throw new Error(`${lines.length} lines within ${toMs - fromMs} ms: ${transfer.output}`);
  }
  return ((last.writes - first.writes) * 1000) / (last.atMs - first.atMs);
}

/** Payload rate of a transfer whose WRITEs have CHUNK_BYTES. @throws Error as writesPerSOf */
export const gbpsOf = (transfer: Program, span: Span): number =>
  (writesPerSOf(transfer, span) * CHUNK_BYTES * 8) / 1e9;
