/**
 * Runs the independent processes of a host: a daemon, servers on one device, and their clients on another. Their output
 * is kept line by line, with the time of each line.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { createInterface } from 'node:readline';
import { request, requestTenants } from '#src/daemon/client/tool-request.ts';
import type { TenantRow, ToDaemon } from '#src/daemon/protocol.ts';
import { COMMAND, QUICK_COMMAND, ROOT } from '../root.ts';

/** Enough for a program to start and connect on an emulated machine whose host is busy. */
const START_TIMEOUT_MS = 300_000;

export interface Line {
  /** Time of performance.now() in this process. */
  readonly atMs: number;
  readonly text: string;
}

export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** One process, and its output. */
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
      // A separate process group, so that a program under `isoverbs run` is killed with it.
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

  /** The first line that matches. @throws Error when the program ends without one, or after the timeout */
  async line(
    pattern: RegExp,
    timeoutMs = START_TIMEOUT_MS,
    among: 'lines' | 'errors' = 'lines',
  ): Promise<RegExpExecArray> {
    let seen = 0;
    const find = () => {
      const texts = among === 'lines' ? this.lines.map(({ text }) => text) : this.errors;
      for (; seen < texts.length; seen++) {
        const found = pattern.exec(texts[seen]);
        if (found !== null) return found;
      }
      return null;
    };
    return pollUntil(
      () => {
        const found = find();
        if (found === null && this.hasEnded)
          throw new Error(`the program ended without ${pattern}: ${this.output}`);
        return found;
      },
      timeoutMs,
      () => `no ${pattern}: ${this.output}`,
    );
  }

  /** Waits until the program ends successfully. @throws Error when it fails or does not end in time */
  async done(timeoutMs = START_TIMEOUT_MS): Promise<void> {
    const ending = await withTimeout(this.ended, timeoutMs, () => `the program does not end: ${this.output}`);
    if (ending.code !== 0) throw new Error(`${JSON.stringify(ending)}: ${this.output}`);
  }

  get output(): string {
    return [...this.lines.map(({ text }) => text), ...this.errors].join('\n');
  }

  /** The pid of the program itself, which is a child of this process under `isoverbs run`. @throws Error without one */
  get tenantPid(): number {
    const { pid } = this.child;
    const [first] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
    if (!first) throw new Error(`process ${pid} has no child`);
    return Number(first);
  }

  /** Sends a signal to the process and all its children. */
  kill(signal: NodeJS.Signals): void {
    if (!this.hasEnded && this.child.pid !== undefined) process.kill(-this.child.pid, signal);
  }
}

/** Polls until the answer is not null. @throws Error after the timeout */
export async function pollUntil<T>(
  check: () => T | null | Promise<T | null>,
  timeoutMs: number,
  why: () => string,
): Promise<T> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    const answer = await check();
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

/** Options of `isoverbs run`, and the path of the program's configuration file. */
export interface RunOptions {
  readonly tenant?: string;
  readonly weight?: number;
  readonly policy?: string;
  readonly config?: string;
}

/** Starts programs, and kills those that still run on close(). */
export class Programs {
  readonly socket: string;
  private readonly all: Program[] = [];
  private isoverbs = QUICK_COMMAND;

  /** @param socket of the daemon, in a folder that only this user can write */
  constructor(socket: string) {
    this.socket = socket;
  }

  start(args: readonly string[], env: Readonly<Record<string, string>> = {}): Program {
    const program = new Program(args, env);
    this.all.push(program);
    return program;
  }

  /** Starts `isoverbs daemon`; resolves when it listens. */
  async daemon(...args: readonly string[]): Promise<Program> {
    // A configuration may name a module, too.
    this.isoverbs = /\.mjs|--config/.test(args.join(' ')) ? COMMAND : QUICK_COMMAND;
    const daemon = this.start([this.isoverbs, 'daemon', '--socket', this.socket, ...args]);
    await daemon.line(/"listening"/, START_TIMEOUT_MS, 'errors');
    return daemon;
  }

  /** Starts a program, bare (null) or under `isoverbs run`. */
  run(options: RunOptions | null, args: readonly string[]): Program {
    if (options === null) return this.start(args);
    const { config, ...flags } = options;
    const words = Object.entries(flags).flatMap(([name, value]) => [`--${name}`, String(value)]);
    const env = config === undefined ? undefined : { ISOVERBS_CONFIG: config };
    const command = [
      this.isoverbs,
      'run',
      '--socket',
      this.socket,
      ...words,
      '--',
      process.execPath,
      ...args,
    ];
    return this.start(command, env);
  }

  /** Runs `isoverbs` with these arguments; returns its output. @throws Error when it fails */
  async command(...args: readonly string[]): Promise<string> {
    const program = this.start([this.isoverbs, ...args]);
    await program.done();
    return program.lines.map(({ text }) => text).join('\n');
  }

  /** Like `isoverbs tenants --json`, without starting a process. @throws Error when no daemon answers */
  tenants(): Promise<TenantRow[]> {
    return this.retry(() => requestTenants(this.socket));
  }

  /** Like `isoverbs set`. @throws Error when no daemon answers, or it refuses */
  async set(tenant: string, setting: Omit<ToDaemon & { type: 'set' }, 'type' | 'tenant'>): Promise<void> {
    const [answer] = await this.retry(() => request(this.socket, { type: 'set', tenant, ...setting }));
    if (answer.type !== 'done') throw new Error(`the daemon answered '${JSON.stringify(answer)}'`);
  }

  /** Retries a request: on an emulated machine the daemon may answer later than the client's timeout. */
  private retry<T>(question: () => Promise<T>): Promise<T> {
    let why = '';
    const once = () =>
      question().catch((error: Error) => {
        why = error.message;
        return null;
      });
    return pollUntil(once, 60_000, () => why);
  }

  /** The output of all programs, for error messages. */
  get output(): string {
    return this.all
      .map(({ child, output }) => `${child.spawnargs.slice(1).join(' ')}:\n${output}`)
      .join('\n');
  }

  /** Kills all programs that still run. */
  async close(): Promise<void> {
    for (const program of this.all) program.kill('SIGKILL');
    await Promise.all(this.all.map(({ ended }) => ended));
  }
}
