/** The application's end of the link to a worker: starts it, calls it, does what it asks for, and tells of its end. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker } from 'node:worker_threads';
import { DriverError } from '../../verbs/errors.ts';
import * as P from './protocol.ts';
import { openReply } from './reply.ts';
import { wake } from './rest.ts';

/** Looks at a word before a thread sleeps on it: about 20 us. */
const SPINS = 4000;
/** How long one wait lasts before it is looked whether the worker still lives. */
const WAIT_MS = 200;
/** A worker that does not answer for so long is taken for dead. */
const DEAD_MS = 30_000;

/** What the link needs of the front. */
export interface LinkHost {
  /** The worker asks for something: words or a message. */
  serve(): void;
  /** The worker tells the application's listeners. */
  tell(what: P.Tell): void;
  /** The worker has ended, for this reason. */
  ended(reason: string): void;
}

/** TypeScript is not what workers run: from sources, the compiled file is taken. */
function compiled(url: URL): URL {
  const js = new URL(url.href.replace(/\.ts$/, '.js'));
  return existsSync(fileURLToPath(js)) ? js : new URL(js.href.replace('/src/', '/dist/'));
}

let preload: P.Preload | null = null;

/** From now on, workers load this module before they make a policy, and call its default export with the data. */
export function preloadWorkers(module: URL, data: unknown): void {
  preload = { module: compiled(module).href, data };
}

/** Whether what is sent has to pass a policy's thread, because somebody there counts it and limits it. */
export const isPreloaded = () => preload !== null;

const NOBODY: LinkHost = { serve() {}, tell() {}, ended() {} };
/** Workers without work, kept because starting one takes tens of milliseconds. */
const idle: Link[] = [];
const MAX_IDLE = 2;

export class Link {
  readonly control = P.makeControl();
  readonly requests: MessagePort;
  private readonly calls: MessagePort;
  private readonly events: MessagePort;
  private readonly worker: Worker;
  private host = NOBODY;
  private reason = '';
  private serving = false;
  private pinned = false;
  /** Lanes that the worker is known to have taken: reading the word itself each time would cost a cache line's way. */
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
      // Neither `isoverbs/register` nor a loader of the application's belongs there.
      execArgv: [],
      env: { ...process.env, NODE_OPTIONS: '' },
    });
    this.worker.on('error', (error) => this.died(error.message));
    this.worker.on('exit', (code) => this.died(`it ended with code ${code}`));
    this.worker.unref();
    this.events.on('message', (what: P.Tell) => this.host.tell(what));
    this.events.unref();
    for (const port of [this.calls, this.requests]) port.unref();
  }

  /** A worker that runs this, from the beginning. @throws ConfigError when a policy cannot be made */
  static take(setup: P.WorkerSetup, host: LinkHost): { link: Link; ready: P.WorkerReady } {
    let link = idle.pop();
    while (link?.dead) link = idle.pop();
    // Until it is ready, whoever it will work for is not made either: of its end the call itself tells.
    link ??= new Link();
    link.pinned = setup.cpu !== undefined;
    try {
      const ready = link.call({ setup }) as P.WorkerReady;
      link.host = host;
      return { link, ready };
    } catch (error) {
      // Nobody else knows it.
      void link.worker.terminate();
      throw error;
    }
  }

  /** Its work is done; it can be used again. */
  release(): void {
    if (!this.dead) this.call({ release: true });
    // What nobody has heard is of no interest to whom it works for next.
    while (this.takeTold() !== undefined);
    this.host = NOBODY;
    this.keepAlive(false);
    // One that is pinned stays on its CPU, where the next may not want it.
    if (!this.dead && !this.pinned && idle.length < MAX_IDLE) {
      idle.push(this);
      return;
    }
    this.reason ||= 'nothing is open';
    void this.worker.terminate();
  }

  get dead(): boolean {
    return this.reason !== '' || this.control[P.STATE] === P.ENDED;
  }

  /** Whether what the application waits for keeps the process alive. */
  keepAlive(on: boolean): void {
    if (on) this.events.ref();
    else this.events.unref();
  }

  /** Calls the worker with a message, and waits for its answer. @throws what it threw; DriverError when it is dead */
  call(message: P.Call): unknown {
    this.requireAlive();
    this.calls.postMessage(message);
    this.callWords(P.CALL_MESSAGE, 0, 0);
    return openReply(this.takeReply());
  }

  /** Calls the worker with two numbers, and waits until it has done it. */
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

  /** Tells the worker that a lane, of this index, has sends. */
  handLane(index: number): void {
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
    wake(this.control);
  }

  /** Does what the worker waits for, if it waits for something. */
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

  /** What the worker has told and nobody has heard yet. */
  takeTold(): P.Tell | undefined {
    return receiveMessageOnPort(this.events)?.message;
  }

  private takeReply(): P.Reply {
    return (
      receiveMessageOnPort(this.calls)?.message ?? { error: { code: '', message: 'no answer', details: {} } }
    );
  }

  /** Waits for the worker, and serves it meanwhile. */
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
      if (waitedMs >= DEAD_MS) this.died(`it has not answered for ${DEAD_MS / 1000} s`);
    }
  }

  private requireAlive(): void {
    if (!this.dead) return;
    this.died('it ended');
    throw new DriverError(`the worker that runs the policy is gone: ${this.reason}`);
  }

  private died(reason: string): void {
    if (this.reason !== '') return;
    this.reason = reason;
    const at = idle.indexOf(this);
    if (at >= 0) idle.splice(at, 1);
    this.host.ended(reason);
  }
}
