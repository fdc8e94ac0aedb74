/** Runs a daemon in a separate process, as `isoverbs daemon` does, and measures its CPU time and memory. */
import { type ChildProcess, spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { setPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { stringify } from 'yaml';
import { COMMAND } from '../root.ts';
import { nowNs } from '../timing.ts';

/** Users that run the clients, because the clients of a user are limited. */
const FIRST_UID = 61_001;
const USERS = 4;
/** A simulated device. The daemon's configuration has its link rate, and that of the null device of native/bench. */
export const DEVICE = 'sim0';
const LINK_GBPS = 1e5;
/** A priority above that of other processes. */
const PREFERRED = -15;

/** User IDs under which clients can run; without root, only undefined, which stands for the current user. */
export function clientUids(): (number | undefined)[] {
  if (process.getuid?.() !== 0) return [undefined];
  return Array.from({ length: USERS }, (_, i) => FIRST_UID + i);
}

export class DaemonProcess {
  readonly socket: string;
  private readonly folder: string;
  private readonly child: ChildProcess;

  private constructor(folder: string, more: readonly string[], settings: object) {
    this.folder = folder;
    this.socket = join(folder, 'daemon.sock');
    const config = join(folder, 'daemon.yaml');
    const devices = { [DEVICE]: { linkGbps: 100 }, null0: { linkGbps: LINK_GBPS } };
    const trust = clientUids().filter((uid) => uid !== undefined);
    writeFileSync(config, stringify({ devices, trust, ...settings }));
    const words = [
      COMMAND,
      'daemon',
      '--config',
      config,
      '--device',
      DEVICE,
      '--socket',
      this.socket,
      ...more,
    ];
    this.child = spawn(process.execPath, words, {
      stdio: ['ignore', 'ignore', 'pipe'],
      // The environment of docs/isoverbs.service, without anything from this benchmark's.
      env: { PATH: process.env.PATH, NODE_OPTIONS: '--max-semi-space-size=1' },
    });
  }

  /**
   * @param more further words of the command
   * @param settings keys of its configuration, instead of those of the benchmarks
   */
  static async start(more: readonly string[] = [], settings: object = {}): Promise<DaemonProcess> {
    const folder = mkdtempSync(join(tmpdir(), 'isoverbs-bench-daemon-'));
    chmodSync(folder, 0o755);
    const daemon = new DaemonProcess(folder, more, settings);
    await new Promise<void>((resolve, reject) => {
      let output = '';
      daemon.child.stderr?.on('data', (text) => {
        output += text;
        if (output.includes('listening')) resolve();
      });
      daemon.child.once('exit', (code) =>
        reject(new Error(`the daemon exited with code ${code}: ${output}`)),
      );
    });
    return daemon;
  }

  /** Percentage of one CPU that the daemon uses during the next `milliseconds`. */
  async cpuPercent(milliseconds: number): Promise<number> {
    const [startNs, cpuNs] = [nowNs(), this.cpuNs()];
    await delay(milliseconds);
    return ((this.cpuNs() - cpuNs) / (nowNs() - startNs)) * 100;
  }

  /** Lets the daemon run before other processes, as on a CPU of its own. Has no effect without root. */
  prefer(): void {
    try {
      setPriority(this.child.pid!, PREFERRED);
    } catch {
      // Only root may do that.
    }
  }

  /** CPU time of all threads of the daemon. */
  private cpuNs(): number {
    const tasks = `/proc/${this.child.pid}/task`;
    return readdirSync(tasks)
      .map((task) => Number(readFileSync(`${tasks}/${task}/schedstat`, 'utf8').split(' ')[0]))
      .reduce((sum, ns) => sum + ns, 0);
  }

  /** Resident memory: private, code of Node.js (shared by all programs), and pages shared with clients. */
  memoryMb(): { own: number; code: number; shared: number; total: number } {
    const status = readFileSync(`/proc/${this.child.pid}/status`, 'utf8');
    const megabytes = (key: string) =>
      Number(new RegExp(`^${key}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1024;
    const [own, code, shared] = [megabytes('RssAnon'), megabytes('RssFile'), megabytes('RssShmem')];
    return { own, code, shared, total: own + code + shared };
  }

  async stop(): Promise<void> {
    const ended = new Promise((resolve) => this.child.once('close', resolve));
    this.child.removeAllListeners('exit');
    this.child.kill();
    await ended;
    rmSync(this.folder, { recursive: true });
  }
}
