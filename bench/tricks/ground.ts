/** Runs a cheat next to an honest program, under one daemon, on the null device. Requires root, to run as other users. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { LIBRARY } from '../against-cpp/null-device.ts';
import { DaemonProcess } from '../daemon/daemon-process.ts';
import { ROOT } from '../root.ts';
import { nowNs } from '../timing.ts';
import { CHEAT, FIRST_SUBORDINATE, HONEST, NONE, type Trick } from './tricks.ts';

const PROGRAMS = `${ROOT}test/hostile/children/`;
const MESSAGE_BYTES = 16_384;
/** Time from when all programs have started until requests are counted: buckets are used up by then. */
const SETTLE_MS = 1000;
const START_TIMEOUT_MS = 60_000;
const LONG_SECONDS = 3600;

/** What the daemon divides or limits, and the policy of the programs. */
export interface Setting {
  /** Keys of the daemon's configuration. */
  readonly config: object;
  /** ISOVERBS_POLICY, or empty. */
  readonly policy: string;
}

/** Requests per second in the measured time. */
export interface Rates {
  readonly cheat: number;
  readonly honest: number;
}

/** One program of test/hostile/children/greedy.mjs, and what it had completed by when. */
class Program {
  readonly ended: Promise<void>;
  private readonly points: { readonly ns: number; readonly completions: number }[] = [];

  constructor(child: ChildProcess) {
    this.ended = new Promise((done) => child.once('close', () => done()));
    createInterface({ input: child.stdout! }).on('line', (line) => {
      const said = JSON.parse(line);
      if (said.ns !== undefined) this.points.push(said);
    });
  }

  get hasStarted(): boolean {
    return this.points.length > 0;
  }

  /** How many requests completed between two times. */
  between(fromNs: number, toNs: number): number {
    return this.until(toNs) - this.until(fromNs);
  }

  private until(ns: number): number {
    const after = this.points.findIndex((point) => point.ns >= ns);
    if (after === 0) return 0;
    if (after < 0) return this.points.at(-1)?.completions ?? 0;
    const [a, b] = [this.points[after - 1], this.points[after]];
    return a.completions + ((b.completions - a.completions) * (ns - a.ns)) / (b.ns - a.ns);
  }
}

class Users {
  private readonly env: Record<string, string>;
  private readonly socket: string;
  private readonly children = new Set<ChildProcess>();
  private isOver = false;
  /** What programs that failed have printed. */
  private failures = '';

  constructor(socket: string, policy: string) {
    this.socket = socket;
    this.env = {
      PATH: process.env.PATH ?? '',
      ISOVERBS_LIBIBVERBS: LIBRARY,
      ISOVERBS_DAEMON: socket,
      ISOVERBS_DEVICE: 'null0',
      ...(policy !== '' && { ISOVERBS_POLICY: policy }),
      BYTES: `${MESSAGE_BYTES}`,
      // Programs that never sleep would take the CPU from the others, which is not what is measured.
      PAUSE_MS: '1',
      REPORT_MS: '20',
    };
  }

  private start(words: readonly string[], env: Readonly<Record<string, string>>, uid?: number): ChildProcess {
    const child = spawn(process.execPath, words, {
      env: { ...this.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      uid,
    });
    this.children.add(child);
    let errors = '';
    child.stderr?.on('data', (text) => {
      errors += text;
    });
    child.once('close', (code) => {
      this.children.delete(child);
      if (code !== 0 && !this.isOver) this.failures += errors;
    });
    return child;
  }

  private program(env: Readonly<Record<string, string>>, uid: number, seconds: number): Program {
    const words = [`--import=${ROOT}dist/register.js`, `${PROGRAMS}greedy.mjs`];
    return new Program(this.start(words, { ...env, SECONDS: `${seconds}` }, uid));
  }

  /** All programs of a user who tries this, as far as they have been started. */
  begin({ env, uids, lifeSeconds, ghosts }: Trick, uid: number): Program[] {
    const programs = (uids ?? [uid]).map((one) => this.program(env, one, lifeSeconds ?? LONG_SECONDS));
    if (lifeSeconds !== undefined) void this.replace(programs, env, uid, lifeSeconds);
    if (ghosts !== undefined) {
      const words = [`${PROGRAMS}many-users.mjs`, this.socket, '1', `${ghosts.contexts}`, `${uid}`];
      this.start(words, { DEVICE: 'null0', ...(ghosts.lies && { LIES: '1' }) }).stdout?.resume();
    }
    return programs;
  }

  /** Starts another program whenever the last one has ended. */
  private async replace(
    programs: Program[],
    env: Readonly<Record<string, string>>,
    uid: number,
    seconds: number,
  ): Promise<void> {
    for (;;) {
      await programs.at(-1)!.ended;
      if (this.isOver) return;
      programs.push(this.program(env, uid, seconds));
    }
  }

  /** @throws Error if a program has failed, or has not started in time */
  async ready(programs: readonly Program[]): Promise<void> {
    const endMs = performance.now() + START_TIMEOUT_MS;
    while (!programs.every(({ hasStarted }) => hasStarted)) {
      this.check();
      if (performance.now() > endMs) throw new Error('a program did not start');
      await delay(10);
    }
  }

  /** @throws Error if a program has failed */
  check(): void {
    if (this.failures !== '') throw new Error(`a program failed: ${this.failures}`);
  }

  async end(): Promise<void> {
    this.isOver = true;
    const ended = [...this.children].map((child) => new Promise((done) => child.once('close', done)));
    for (const child of this.children) child.kill('SIGKILL');
    await Promise.all(ended);
  }
}

/**
 * What a user who tries the trick gets, and what an honest user gets at the same time.
 * @throws Error if a program fails
 */
export async function ratesOf(trick: Trick, { config, policy }: Setting, seconds: number): Promise<Rates> {
  const folder = mkdtempSync(join(tmpdir(), 'isoverbs-tricks-'));
  const subuid = join(folder, 'subuid');
  writeFileSync(subuid, `${CHEAT}:${FIRST_SUBORDINATE}:65536\n`);
  const daemon = await DaemonProcess.start([], { trust: [], subuid, ...config });
  const users = new Users(daemon.socket, policy);
  try {
    const honest = users.begin(NONE, HONEST);
    const cheats = users.begin(trick, CHEAT);
    await users.ready([...honest, ...cheats]);
    await delay(SETTLE_MS);
    const fromNs = nowNs();
    await delay(seconds * 1000);
    const toNs = nowNs();
    await delay(100);
    users.check();
    const rate = (programs: readonly Program[]) =>
      programs.reduce((sum, program) => sum + program.between(fromNs, toNs), 0) / ((toNs - fromNs) / 1e9);
    return { cheat: rate(cheats), honest: rate(honest) };
  } finally {
    await users.end();
    await daemon.stop();
    rmSync(folder, { recursive: true });
  }
}
