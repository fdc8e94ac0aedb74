/**
 * The application's end of the link to a worker: starts the worker, calls it, serves its requests, and
 * reports its end.
 */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import { DriverError } from '../../verbs/errors.ts';
import * as P from './protocol.ts';
import { openReply } from './reply.ts';

/** Reads of a word before the thread sleeps on it: about 20 us. */
const SPINS = 4000;
/** Duration of one wait before checking whether the worker is still alive. */
const WAIT_MS = 200;
/** A worker that does not answer for this long is considered dead. */
const DEAD_MS = 30_000;

/** The functions of the front that the link uses. */
export interface LinkHost {
  /** The worker has a request, as words or as a message. */
  serve(): void;
  /** The worker has an event for the application's listeners. */
  onEvent(what: P.WorkerEvent): void;
  /** The worker has ended, for this reason. */
  ended(reason: string): void;
}

/** Workers do not run TypeScript; when running from sources, use the compiled file. */
function compiled(url: URL): URL {
  const js = new URL(url.href.replace(/\.ts$/, '.js'));
  return existsSync(fileURLToPath(js)) ? js : new URL(js.href.replace('/src/', '/dist/'));
}

let preload: P.Preload | null = null;

/**
 * From now on, workers load this module before they create a policy, and call its default export with the
 * data.
 */
export function preloadWorkers(module: URL, data: unknown): void {
  preload = { module: compiled(module).href, data };
}

/** Whether all requests must pass through the policy's thread, because they are counted and limited there. */
export const hasPreload = () => preload !== null;

const NO_HOST: LinkHost = { serve() {}, onEvent() {}, ended() {} };
/** Idle workers, kept because starting one takes tens of milliseconds. */
const idle: WorkerLink[] = [];
const MAX_IDLE = 2;

export class WorkerLink {
  readonly control = P.makeControl();
  readonly requests: MessagePort;
  private readonly calls: MessagePort;
  private readonly events: MessagePort;
  private readonly worker: Worker;
  private host = NO_HOST;
  private reason = '';
  private serving = false;
  private pinned = false;
  /**
   * Dirty-ring entries known to have been taken by the worker. Reading the shared word each time would cost a
   * cache-line transfer.
   */
  private lanesTaken = 0;

  private constructor() {
    const calls = new MessageChannel();
    const requests = new MessageChannel();
    const events = new MessageChannel();
    this.calls = calls.port1;
    this.requests = requests.port1;
    this.events = events.port1;
    const ports = [calls.port2, requests.port2, events.port2];
    this.worker = new Worker(compiled(new URL('./worker.js', import.meta.url)), {
      name: 'isoverbs policy',
      workerData: { control: this.control, ports, preload } satisfies P.WorkerData,
      transferList: ports,
      // Neither `isoverbs/register` nor the application's loaders belong in the worker.
      execArgv: [],
      env: { ...process.env, NODE_OPTIONS: '' },
    });
    this.worker.on('error', (error) => this.markDead(error.message));
    this.worker.on('exit', (code) => this.markDead(`it exited with code ${code}`));
    this.worker.unref();
    this.events.on('message', (what: P.WorkerEvent) => this.host.onEvent(what));
    this.events.unref();
    for (const port of [this.calls, this.requests]) port.unref();
  }

  /** Takes or starts a worker with this setup. @throws ConfigError if a policy cannot be created */
  static acquire(setup: P.WorkerSetup, host: LinkHost): { link: WorkerLink; ready: P.WorkerReady } {
    let link = idle.pop();
    while (link?.dead) link = idle.pop();
    // The host is not registered before the worker is ready; until then, the call itself reports the worker's
    // end.
    link ??= new WorkerLink();
    link.pinned = setup.cpu !== undefined;
    try {
      const ready = link.call({ setup }) as P.WorkerReady;
      link.host = host;
      return { link, ready };
    } catch (error) {
      // Nothing else refers to this worker.
      void link.worker.terminate();
      throw error;
    }
  }

  /** Releases the worker so that it can be used again. */
  release(): void {
    if (!this.dead) this.call({ release: true });
    // Discards undelivered events, which do not concern the next user.
    while (this.takeEvent() !== undefined);
    this.host = NO_HOST;
    this.keepAlive(false);
    // A pinned worker would stay on its CPU, which may not suit the next user.
    if (!this.dead && !this.pinned && idle.length < MAX_IDLE) {
      idle.push(this);
      return;
    }
    this.reason ||= 'no context is open';
    void this.worker.terminate();
  }

  get dead(): boolean {
    return this.reason !== '' || this.control[P.STATE] === P.ENDED;
  }

  /** Sets whether pending events keep the process alive. */
  keepAlive(on: boolean): void {
    if (on) this.events.ref();
    else this.events.unref();
  }

  /**
   * Calls the worker with a message and waits for the answer. @throws the worker's error; DriverError if it
   * is dead
   */
  call(message: P.Call): unknown {
    this.requireAlive();
    this.calls.postMessage(message);
    this.callWords(P.CALL_MESSAGE, 0, 0);
    return openReply(this.takeReply());
  }

  /** Calls the worker with two numbers and waits until it has finished. */
  callWords(kind: number, a: number, b: number): void {
    this.requireAlive();
    const { control } = this;
    control[P.CALL_KIND] = kind;
    control[P.CALL_A] = a;
    control[P.CALL_B] = b;
    const call = (control[P.CALL] + 1) | 0;
    Atomics.store(control, P.CALL, call);
    this.wake();
    this.wait(() => Atomics.load(control, P.RETURNED) === call);
  }

  /** Marks the lane with this index as dirty and wakes the worker. */
  markLane(index: number): void {
    const { control } = this;
    const tail = control[P.DIRTY_TAIL];
    if (((tail - this.lanesTaken) | 0) >= P.DIRTY_SLOTS)
      this.lanesTaken = Atomics.load(control, P.DIRTY_HEAD);
    if (((tail - this.lanesTaken) | 0) < P.DIRTY_SLOTS) {
      control[P.DIRTY_RING + (tail & (P.DIRTY_SLOTS - 1))] = index;
      Atomics.store(control, P.DIRTY_TAIL, (tail + 1) | 0);
    } else {
      Atomics.store(control, P.DIRTY_LOST, 1);
    }
    this.wake();
  }

  /** Wakes the worker if it sleeps. */
  wake(): void {
    P.wake(this.control);
  }

  /** Serves the worker's request, if there is one. @returns whether there was one */
  serve(): boolean {
    const { control } = this;
    if (this.serving || Atomics.load(control, P.REQUEST) === control[P.ANSWERED]) return false;
    this.serving = true;
    try {
      this.host.serve();
    } finally {
      this.serving = false;
    }
    Atomics.store(control, P.ANSWERED, Atomics.load(control, P.REQUEST));
    Atomics.notify(control, P.ANSWERED);
    return true;
  }

  /** An event of the worker that has not been delivered yet. */
  takeEvent(): P.WorkerEvent | undefined {
    return receiveMessageOnPort(this.events)?.message;
  }

  private takeReply(): P.Reply {
    return (
      receiveMessageOnPort(this.calls)?.message ?? {
        error: { code: '', message: 'the worker sent no answer', details: {} },
      }
    );
  }

  /** Waits for the worker, serving its requests meanwhile. */
  private wait(isDone: () => boolean): void {
    const { control } = this;
    let waitedMs = 0;
    for (;;) {
      for (let i = 0; i < SPINS; i++) {
        if (isDone()) return;
        if (Atomics.load(control, P.REQUEST) !== control[P.ANSWERED]) {
          this.serve();
          i = 0;
          waitedMs = 0;
        }
      }
      const signal = Atomics.load(control, P.SIGNAL);
      Atomics.store(control, P.WAITS, 1);
      if (isDone()) return;
      if (this.serve()) continue;
      this.requireAlive();
      if (Atomics.wait(control, P.SIGNAL, signal, WAIT_MS) !== 'timed-out') continue;
      waitedMs += WAIT_MS;
      if (waitedMs >= DEAD_MS) this.markDead(`it did not answer for ${DEAD_MS / 1000} s`);
    }
  }

  private requireAlive(): void {
    if (!this.dead) return;
    this.markDead('it exited');
    throw new DriverError(`the worker thread that runs the policy has ended: ${this.reason}`);
  }

  private markDead(reason: string): void {
    if (this.reason !== '') return;
    this.reason = reason;
    const at = idle.indexOf(this);
    if (at >= 0) idle.splice(at, 1);
    this.host.ended(reason);
  }
}
