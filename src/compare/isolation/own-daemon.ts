/** A daemon for the runs under one policy: `isoverbs daemon` as a process that ends with this one. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { NoDaemonError, ProcessError } from '../../verbs/errors.ts';

/** Starting Node.js takes tens of seconds on an emulated machine whose host is busy. */
const START_TIMEOUT_MS = 180_000;
/** A daemon ends at once on SIGTERM, unless it is suspended (SIGSTOP). */
const END_TIMEOUT_MS = 5000;
/** Matches the line that a daemon logs once it listens. */
const LISTENING = /"event":"listening"/;

export class OwnDaemon {
  readonly socket: string;
  private readonly child: ChildProcess;
  private readonly folder = mkdtempSync(join(tmpdir(), 'isoverbs-isolation-'));
  private readonly ended: Promise<void>;
  private readonly gone = new AbortController();
  private lastLine = '';

  /**
   * Starts a daemon, and waits until it listens.
   * @param main the command `isoverbs`
   * @param words its arguments after `daemon`, without the socket
   * @throws ProcessError if it ends, or does not listen in time
   */
  static async start(main: URL, words: readonly string[]): Promise<OwnDaemon> {
    const daemon = new OwnDaemon(main, words);
    try {
      await daemon.listening();
    } catch (error) {
      await daemon.end();
      throw error;
    }
    return daemon;
  }

  private constructor(main: URL, words: readonly string[]) {
    this.socket = join(this.folder, 'daemon.sock');
    const preload = new URL('./ends-with-parent.js', import.meta.url).href;
    const command = [fileURLToPath(main), '--log', 'info', 'daemon', '--socket', this.socket, ...words];
    this.child = spawn(process.execPath, ['--import', preload, ...command], {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    process.once('exit', this.kill);
    this.ended = new Promise((resolve) => {
      this.child.once('close', () => resolve());
      this.child.once('error', () => resolve());
    });
  }

  /** Aborts with a NoDaemonError if the daemon ends before `end()` is called. */
  get signal(): AbortSignal {
    return this.gone.signal;
  }

  private listening(): Promise<void> {
    const { child, socket } = this;
    return new Promise<void>((resolve, reject) => {
      const fail = (what: string, cause?: Error) => {
        clearTimeout(timer);
        reject(new ProcessError(`the daemon ${what}${this.lastLine && `: ${this.lastLine}`}`, { cause }));
      };
      const timer = setTimeout(() => fail(`did not listen within ${START_TIMEOUT_MS} ms`), START_TIMEOUT_MS);
      createInterface(child.stderr!).on('line', (line) => {
        this.lastLine = line;
        if (!LISTENING.test(line)) return;
        clearTimeout(timer);
        resolve();
      });
      child.once('error', (cause) => fail(`cannot be started: ${cause.message}`, cause));
      child.once('close', (code, signal) => {
        const how = `ended with ${signal ?? `code ${code}`}`;
        fail(how);
        this.gone.abort(new NoDaemonError(`the daemon at ${socket} ${how} before the runs were over`));
      });
    });
  }

  /** Ends the daemon, and waits until it is gone. */
  async end(): Promise<void> {
    this.child.kill('SIGTERM');
    const timer = setTimeout(() => this.child.kill('SIGKILL'), END_TIMEOUT_MS);
    await this.ended;
    clearTimeout(timer);
    process.off('exit', this.kill);
    this.kill();
  }

  /** Leaves neither the process nor its socket behind, even when this process exits. */
  private readonly kill = () => {
    this.child.kill('SIGKILL');
    rmSync(this.folder, { recursive: true, force: true });
  };
}
