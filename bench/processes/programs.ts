/**
 * Programs of a host, each a process of its own that knows nothing of the others: a daemon, servers on one device and
 * their clients on another. What they print is kept line by line, with the time at which it came.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { createInterface } from 'node:readline';
import { request, requestTenants } from '#src/daemon/client/tool-request.ts';
import type { TenantRow } from '#src/daemon/protocol.ts';
import { COMMAND, ROOT } from '../root.ts';

/** Until a program has started and connected, on an emulated machine whose host has other things to do. */
const START_TIMEOUT_MS = 300_000;

export interface Line {
  /** Of this process's clock. */
  readonly atMs: number;
  readonly text: string;
}

export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** One process, and what it has printed. */
export class Program {
  readonly child: ChildProcess;
  readonly lines: Line[] = [];
  readonly errors: string[] = [];
  readonly ended: Promise<Ending>;
  private hasEnded = false;

  constructor(args: readonly string[], env: Readonly<Record<string, string>> = {}) {
    const own = Object.entries(process.env).filter(
      ([name]) => !/^(ISOVERBS_|VITEST|NODE_OPTIONS)/.test(name),
    );
    this.child = spawn(process.execPath, args, {
      cwd: ROOT,
      env: { ...Object.fromEntries(own), ...env },
      // A group of its own: a program under `isoverbs run` ends with it.
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const { stdout, stderr } = this.child;
    for (const [stream, take] of [
      [stdout, (text: string) => this.lines.push({ atMs: performance.now(), text })],
      [stderr, (text: string) => this.errors.push(text)],
    ] as const) {
      if (stream !== null) createInterface(stream).on('line', take);
    }
    this.ended = once(this.child, 'close').then(([code, signal]) => {
      this.hasEnded = true;
      return { code, signal };
    });
  }

  /** The first line that fits. @throws Error when the program ends without, or after so long */
  async line(
    pattern: RegExp,
    timeoutMs = START_TIMEOUT_MS,
    among: 'lines' | 'errors' = 'lines',
  ): Promise<RegExpExecArray> {
    let seen = 0;
    const look = () => {
      const texts = among === 'lines' ? this.lines.map(({ text }) => text) : this.errors;
      for (; seen < texts.length; seen++) {
        const found = pattern.exec(texts[seen]);
        if (found !== null) return found;
      }
      return null;
    };
    return pollUntil(
      () => {
        const found = look();
        if (found === null && this.hasEnded) throw new Error(`it ended without ${pattern}: ${this.output}`);
        return found;
      },
      timeoutMs,
      () => `no ${pattern}: ${this.output}`,
    );
  }

  /** It has to end, and well. @throws Error */
  async done(timeoutMs = START_TIMEOUT_MS): Promise<void> {
    const ending = await withTimeout(this.ended, timeoutMs, () => `it does not end: ${this.output}`);
    if (ending.code !== 0) throw new Error(`${JSON.stringify(ending)}: ${this.output}`);
  }

  get output(): string {
    return [...this.lines.map(({ text }) => text), ...this.errors].join('\n');
  }

  /** The program alone, which is a child of this one under `isoverbs run`. @throws Error when there is none */
  get tenantPid(): number {
    const { pid } = this.child;
    const [first] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
    if (!first) throw new Error(`process ${pid} has no child`);
    return Number(first);
  }

  /** With all that it has started. */
  kill(signal: NodeJS.Signals): void {
    if (!this.hasEnded && this.child.pid !== undefined) process.kill(-this.child.pid, signal);
  }
}

/** What it answers, once that is something. @throws Error after so long */
export async function pollUntil<T>(
  ask: () => T | null | Promise<T | null>,
  timeoutMs: number,
  why: () => string,
): Promise<T> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    const answer = await ask();
    if (answer !== null) return answer;
    if (performance.now() > end) throw new Error(`after ${timeoutMs} ms: ${why()}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

async function withTimeout<T>(what: Promise<T>, timeoutMs: number, why: () => string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`after ${timeoutMs} ms: ${why()}`)), timeoutMs);
  });
  try {
    return await Promise.race([what, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Options of `isoverbs run`. */
export interface RunOptions {
  readonly tenant?: string;
  readonly weight?: number;
  readonly policy?: string;
}

/** Starts programs, and ends all of them. */
export class Programs {
  readonly socket: string;
  private readonly all: Program[] = [];

  /** @param socket of the daemon, in a folder that nobody else may change */
  constructor(socket: string) {
    this.socket = socket;
  }

  start(args: readonly string[], env: Readonly<Record<string, string>> = {}): Program {
    const program = new Program(args, env);
    this.all.push(program);
    return program;
  }

  /** `isoverbs daemon`, when it listens. */
  async daemon(...args: readonly string[]): Promise<Program> {
    const daemon = this.start([COMMAND, 'daemon', '--socket', this.socket, ...args]);
    await daemon.line(/"listening"/, START_TIMEOUT_MS, 'errors');
    return daemon;
  }

  /** An unchanged program, bare (null) or under `isoverbs run`. */
  run(options: RunOptions | null, args: readonly string[]): Program {
    if (options === null) return this.start(args);
    const words = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]);
    return this.start([COMMAND, 'run', '--socket', this.socket, ...words, '--', process.execPath, ...args]);
  }

  /** What the command prints. @throws Error when it fails */
  async command(...args: readonly string[]): Promise<string> {
    const program = this.start([COMMAND, ...args]);
    await program.done();
    return program.lines.map(({ text }) => text).join('\n');
  }

  /** As `isoverbs tenants --json`, without the time that it takes to start. @throws Error when no daemon answers */
  tenants(): Promise<TenantRow[]> {
    return this.retry(() => requestTenants(this.socket));
  }

  /** As `isoverbs set`. @throws Error when no daemon answers, or it refuses */
  async set(tenant: string, setting: { weight?: number; gbps?: number | null }): Promise<void> {
    const [answer] = await this.retry(() => request(this.socket, { type: 'set', tenant, ...setting }));
    if (answer.type !== 'done') throw new Error(`the daemon answered '${JSON.stringify(answer)}'`);
  }

  /** A machine that emulates another may take longer to answer than who asks has patience: it is asked again. */
  private retry<T>(question: () => Promise<T>): Promise<T> {
    let why = '';
    const once = () =>
      question().catch((error: Error) => {
        why = error.message;
        return null;
      });
    return pollUntil(once, 60_000, () => why);
  }

  /** What all of them have said, for the message of an error. */
  get output(): string {
    return this.all
      .map(({ child, output: said }) => `${child.spawnargs.slice(1).join(' ')}:\n${said}`)
      .join('\n');
  }

  /** All that still run are killed. */
  async close(): Promise<void> {
    for (const program of this.all) program.kill('SIGKILL');
    await Promise.all(this.all.map(({ ended }) => ended));
  }
}
