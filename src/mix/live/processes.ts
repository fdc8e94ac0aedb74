/** Runs a mixture of applications on real devices, each in its own process, as the programs of a host run. */
import { type ChildProcess, fork } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { makeError, ProcessError } from '../../verbs/errors.ts';
import { policyOptionsOf } from '../stacks.ts';
import { DRAIN_TIMEOUT_NS, type LiveOutcome } from './app.ts';
import type { ProcessJob, ProcessMessage, ProcessStart, WorkerMessage } from './protocol.ts';
import { liveResultOf, resolvedLive } from './run.ts';
import type { LiveResult, LiveSpec } from './spec.ts';

/** The time from when all processes are ready to time 0 of the run. The message with time 0 must arrive in between. */
const START_DELAY_NS = 100_000_000n;
/** Starting Node.js takes tens of seconds on an emulated machine whose host is busy. */
const START_TIMEOUT_MS = 180_000;
/** How long a result may take after the last request has completed: messages are compared, and contexts closed. */
const RESULT_TIMEOUT_MS = 60_000;

export interface ProcessOptions {
  /** The socket of the daemon that decides for the policies of all processes; null: each decides for itself. */
  readonly socket: string | null;
  /** When it aborts, the run fails with its reason. */
  readonly signal?: AbortSignal;
  /** How long processes may take until their queue pairs are connected. */
  readonly startTimeoutMs?: number;
}

/**
 * Runs a mix on real devices, and returns what each application achieved. No process is left when it returns or throws.
 * @throws ConfigError, NoDeviceError as runLive does
 * @throws ProcessError for a process that fails or ends too early, or does not start or end in time
 * @throws NoDaemonError for a daemon that does not answer, or that ends
 */
export async function runProcesses(spec: LiveSpec, options: ProcessOptions): Promise<LiveResult> {
  const { socket, signal, startTimeoutMs = START_TIMEOUT_MS } = options;
  const { full, apps } = resolvedLive(spec);
  const policyOptions = policyOptionsOf(full, apps);
  signal?.throwIfAborted();
  const processes: AppProcess[] = [];
  const within = (timeoutMs: number, kind: WorkerMessage['kind']) => {
    const late = () => {
      const { name } = processes.find((one) => !one.kinds.has(kind))!;
      return new ProcessError(`${name} was not ${kind} within ${timeoutMs} ms`);
    };
    return { timeoutMs, late, signal };
  };
  try {
    for (const app of apps) processes.push(new AppProcess({ app, spec: full, policyOptions, socket }));
    await inTime(Promise.all(processes.map(({ ready }) => ready)), within(startTimeoutMs, 'ready'));
    const zeroNs = process.hrtime.bigint() + START_DELAY_NS;
    for (const one of processes) one.start({ zeroNs });
    const runMs = Math.ceil((full.durationNs + DRAIN_TIMEOUT_NS) / 1e6) + RESULT_TIMEOUT_MS;
    const done = Promise.all(processes.map((one) => one.done));
    return liveResultOf(full, await inTime(done, within(runMs, 'done')));
  } finally {
    await Promise.all(processes.map((one) => one.end()));
  }
}

/** Waits for a promise. @throws the reason of the signal, or `late` after the timeout */
function inTime<T>(
  promise: Promise<T>,
  { timeoutMs, late, signal }: { timeoutMs: number; late: () => Error; signal?: AbortSignal },
): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(late()), timeoutMs);
    const onAbort = () => reject(signal?.reason);
    signal?.addEventListener('abort', onAbort);
    promise.then(resolve, reject).finally(() => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
    });
  });
}

/** The process of one application. */
class AppProcess {
  readonly name: string;
  /** The kinds of messages that have arrived. */
  readonly kinds = new Set<ProcessMessage['kind']>();
  readonly ready: Promise<void>;
  readonly done: Promise<LiveOutcome>;
  private readonly child: ChildProcess;
  private readonly ended: Promise<void>;
  private lastLine = '';

  constructor(job: ProcessJob) {
    this.name = `app ${job.app.name}: its process`;
    this.child = fork(compiledPath(), {
      execArgv: [],
      serialization: 'advanced',
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    });
    const { child } = this;
    createInterface(child.stderr!).on('line', (line) => {
      this.lastLine = line;
    });
    this.ended = new Promise((resolve) => {
      child.once('close', () => resolve());
      child.once('error', () => resolve());
    });
    const failed = this.failure();
    this.ready = Promise.race([this.received('ready'), failed]).then(() => {});
    this.done = Promise.race([this.received('done'), failed]).then(({ outcome }) => outcome);
    // The first process that fails rejects the run; the rejections of the others would be unhandled.
    this.ready.catch(() => {});
    this.done.catch(() => {});
    process.once('exit', this.kill);
    this.send(job);
  }

  start(start: ProcessStart): void {
    this.send(start);
  }

  /** Ends the process, which has closed everything if it has finished, and waits until it is gone. */
  async end(): Promise<void> {
    this.kill();
    await this.ended;
    process.off('exit', this.kill);
  }

  private readonly kill = () => {
    this.child.kill('SIGKILL');
  };

  /** Ignores errors: a process that cannot be reached has ended or misses its deadline, and is then reported. */
  private send(message: ProcessJob | ProcessStart): void {
    this.child.send(message, () => {});
  }

  private received<K extends ProcessMessage['kind']>(kind: K): Promise<ProcessMessage & { kind: K }> {
    return new Promise((resolve) => {
      this.child.on('message', (message: ProcessMessage) => {
        this.kinds.add(message.kind);
        if (message.kind === kind) resolve(message as ProcessMessage & { kind: K });
      });
    });
  }

  /** Rejects when the process fails or ends. */
  private failure(): Promise<never> {
    const { child, name } = this;
    return new Promise((_, reject) => {
      this.received('failed').then(({ code, message }) => {
        const text = `${name} failed: ${message}`;
        reject(code === null ? new ProcessError(text) : makeError(code, text));
      });
      child.once('error', (cause) =>
        reject(new ProcessError(`${name} cannot be started: ${cause.message}`, { cause })),
      );
      child.once('close', (code, signal) => {
        const said = this.lastLine === '' ? '' : `: ${this.lastLine}`;
        reject(new ProcessError(`${name} ended with ${signal ?? `code ${code}`} before its result${said}`));
      });
    });
  }
}

/** The path of the compiled file, because processes cannot run TypeScript. */
const compiledPath = () => fileURLToPath(new URL('./process.js', import.meta.url));
