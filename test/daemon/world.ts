/** One real daemon with processes as tenants, for tests of failures. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { requestTenants } from '../../src/daemon/client/tool-request.ts';
import type { TenantRow } from '../../src/daemon/protocol.ts';
import { BUILT, MAIN } from '../support/main.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const REGISTER = join(ROOT, 'dist/register.js');
export const PROGRAMS = join(import.meta.dirname, 'programs');
/** A virtual machine on a busy host takes this long to start a process. */
const PATIENCE_MS = process.env.ISOVERBS_GROUND === 'rxe' ? 120_000 : 30_000;

export const nowNs = () => Number(process.hrtime.bigint());

/** The environment of this process, without variables that a test runner or a user has set. */
export function cleanEnv(): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(([key]) => !/^(ISOVERBS_|VITEST|NODE_)/.test(key));
  return Object.fromEntries(inherited);
}

/** Waits until the condition is true. */
export async function until(what: string, isSo: () => boolean, patienceMs = PATIENCE_MS): Promise<void> {
  const end = performance.now() + patienceMs;
  while (!isSo()) {
    if (performance.now() > end) throw new Error(`never came true: ${what}`);
    await delay(2);
  }
}

/** What a process has open and mapped. */
export interface Holdings {
  readonly fds: number;
  readonly memories: number;
  readonly rssBytes: number;
}

export function holdings(pid: number): Holdings {
  const targets = readdirSync(`/proc/${pid}/fd`).map((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`);
    } catch {
      return '';
    }
  });
  const maps = readFileSync(`/proc/${pid}/maps`, 'utf8');
  const rss = /^VmRSS:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? '0';
  return {
    fds: targets.filter((what) => /socket|memfd/.test(what)).length,
    memories: maps.split('/memfd:isoverbs-').length - 1,
    rssBytes: Number(rss) * 1024,
  };
}

/** How long the main thread of a process has waited for a CPU. */
export function waitedNs(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[1]);
}

interface Change {
  readonly rate: number;
  readonly joined: boolean;
  readonly ns: number;
  /** The time spent waiting for a CPU until then. */
  readonly waitedNs: number;
}

export interface Report {
  readonly completions: number;
  /**
   * The longest gap between two completions since the previous report, and the longest without the time spent
   * waiting for a CPU.
   */
  readonly gapNs: number;
  readonly ownGapNs: number;
  readonly rate: number;
  readonly ns: number;
}

/** A process that runs test/daemon/programs/tenant.mjs, or another program with the same output. */
export class Tenant {
  readonly name: string;
  readonly child: ChildProcess;
  readonly changes: Change[] = [];
  readonly reports: Report[] = [];
  readonly errors: string[] = [];
  /** The time at which the process began to spin, or to leave. */
  readonly marksNs: number[] = [];
  readonly ended: Promise<void>;
  pid = 0;
  /** For each printing process, because a program may consist of several. */
  readonly pids = new Set<number>();
  isReady = false;
  stderr = '';

  constructor(name: string, child: ChildProcess) {
    this.name = name;
    this.child = child;
    child.stderr?.on('data', (text) => {
      this.stderr += text;
    });
    createInterface({ input: child.stdout! }).on('line', (line) => this.hear(line));
    child.stdin?.on('error', () => {});
    this.ended = new Promise((done) => child.once('close', () => done()));
  }

  private hear(line: string): void {
    const said = JSON.parse(line);
    if (said.ready) this.isReady = true;
    if (said.pid !== undefined) {
      this.pid = said.pid;
      this.pids.add(said.pid);
    }
    if (said.rate !== undefined) this.changes.push(said);
    if (said.report !== undefined) this.reports.push(said.report);
    if (said.error !== undefined) this.errors.push(said.error);
    const markNs = said.spinning ?? said.leaving;
    if (markNs !== undefined) this.marksNs.push(markNs);
  }

  get last(): Change {
    return this.changes.at(-1) ?? { rate: 0, joined: false, ns: 0, waitedNs: 0 };
  }

  say(line: string): void {
    this.child.stdin?.write(`${line}\n`);
  }

  async report(): Promise<Report> {
    const before = this.reports.length;
    this.say('report');
    await until(`${this.name} reports`, () => this.reports.length > before);
    return this.reports[before];
  }

  kill(): void {
    for (const pid of this.pids) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // The process is gone.
      }
    }
    this.child.kill('SIGKILL');
  }

  /** The first change to at least this rate after the given time. */
  async reaches(gbps: number, afterNs: number): Promise<Change> {
    const find = () => this.changes.find(({ rate, ns }) => ns > afterNs && rate >= gbps);
    await until(`${this.name} has ${gbps} Gbit/s`, () => find() !== undefined);
    return find()!;
  }
}

/** A folder in which a daemon can be started and ended, and the daemon's tenants. */
export class World {
  readonly folder = mkdtempSync(join(tmpdir(), 'isoverbs-world-'));
  readonly socket = join(this.folder, 's');
  readonly tenants: Tenant[] = [];
  readonly config = join(this.folder, 'daemon.yaml');
  daemon: ChildProcess | null = null;
  log = '';
  private readonly main: string;

  constructor(config = 'devices: {sim0: {linkGbps: 100}}\npolicy: token-bucket\n') {
    writeFileSync(this.config, config);
    this.main = config.includes('.mjs') ? BUILT : MAIN;
  }

  /** Resolves when the daemon listens. */
  async startDaemon(): Promise<void> {
    this.log = '';
    const args = [this.main, 'daemon', '--config', this.config, '--socket', this.socket];
    const daemon = spawn(process.execPath, args, { env: cleanEnv(), stdio: ['ignore', 'ignore', 'pipe'] });
    this.daemon = daemon;
    daemon.stderr.on('data', (text) => {
      this.log += text;
    });
    await until('the daemon listens', () => this.log.includes('listening'));
  }

  /** The tenants as the daemon reports them. */
  tenantRows(): Promise<TenantRow[]> {
    return requestTenants(this.socket);
  }

  async endDaemon(signal: NodeJS.Signals): Promise<void> {
    const { daemon } = this;
    if (daemon === null) return;
    this.daemon = null;
    const ended = new Promise((done) => daemon.once('exit', done));
    daemon.kill(signal);
    await ended;
  }

  /** Starts a program under `isoverbs run`. */
  run(name: string, command: readonly string[], env: NodeJS.ProcessEnv = {}): Tenant {
    const words = [this.main, 'run', '--socket', this.socket, '--policy', 'token-bucket', '--tenant', name];
    const provider = ['--provider', 'sim'];
    return this.adopt(
      name,
      spawn(process.execPath, [...words, ...provider, '--', ...command], { env: { ...cleanEnv(), ...env } }),
    );
  }

  /** Starts a program with the environment that `isoverbs run` sets, which is faster without that process. */
  start(name: string, args: readonly string[], env: NodeJS.ProcessEnv = {}, uid?: number): Tenant {
    const own = { ISOVERBS_DAEMON: this.socket, ISOVERBS_POLICY: 'token-bucket', ISOVERBS_TENANT: name };
    const child = spawn(process.execPath, [`--import=${REGISTER}`, ...args], {
      env: { ...cleanEnv(), ...own, ...env },
      uid,
    });
    return this.adopt(name, child);
  }

  private adopt(name: string, child: ChildProcess): Tenant {
    const tenant = new Tenant(name, child);
    this.tenants.push(tenant);
    return tenant;
  }

  /** Ends everything that this world has started. */
  async close(): Promise<void> {
    for (const tenant of this.tenants) if (tenant.child.exitCode === null) tenant.kill();
    await this.endDaemon('SIGKILL');
    rmSync(this.folder, { recursive: true, force: true });
  }
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
