/** The worker's loop: looks for work for a while, then rests in its event loop, which sleeps in epoll. */
import type { MessagePort } from 'node:worker_threads';
import { receiveMessageOnPort } from 'node:worker_threads';
import { handleIndex } from '../../verbs/handles.ts';
import { type Provider, VERB_NAMES } from '../../verbs/provider.ts';
import type { Lanes } from './lanes.ts';
import * as P from './protocol.ts';
import type { Remote } from './remote.ts';
import { replyOf } from './reply.ts';
import type { Requests } from './requests.ts';
import { beginRest, endRest } from './rest.ts';

/** How long it goes round before the event loop has a turn. */
const SLICE_MS = 0.05;
/** Rounds between two looks at the clock. */
const ROUNDS = 64;
const NS_PER_MS = 1e6;

/** ES2024; all supported versions of Node.js have it. */
const { waitAsync } = Atomics as unknown as {
  waitAsync(words: Int32Array, index: number, value: number): { async: boolean; value: Promise<unknown> };
};

/** What the loop runs: made anew for each setup. */
export interface Machine {
  setup: P.WorkerSetup;
  chain: Provider;
  remote: Remote;
  lanes: Lanes;
}

export interface LoopParts {
  control: Int32Array;
  requests: Requests;
  calls: MessagePort;
  events: MessagePort;
  /** Builds the shim over the device as this thread sees it. */
  build(setup: P.WorkerSetup): Machine;
}

export class Loop {
  private readonly parts: LoopParts;
  private readonly control: Int32Array;
  private machine: Machine | null = null;
  private scheduled = false;
  private waiting = false;
  /** When there was work last. */
  private workedMs = 0;

  constructor(parts: LoopParts) {
    this.parts = parts;
    this.control = parts.control;
  }

  /** There may be work. */
  stir(): void {
    this.workedMs = performance.now();
    endRest(this.control);
    this.schedule();
  }

  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    setImmediate(this.turn);
  }

  private readonly turn = (): void => {
    this.scheduled = false;
    const endMs = performance.now() + SLICE_MS;
    let nowMs = endMs - SLICE_MS;
    while (nowMs < endMs) {
      let worked = false;
      for (let i = 0; i < ROUNDS; i++) {
        if (!this.step()) continue;
        worked = true;
        // A promise was resolved: what awaits it goes on before the call is over.
        if (this.parts.requests.inCall) return;
      }
      nowMs = performance.now();
      if (worked) this.workedMs = nowMs;
    }
    if (nowMs - this.workedMs < (this.machine?.setup.spinNs ?? 0) / NS_PER_MS) this.schedule();
    else this.sleep();
  };

  /** Does what there is to do; returns whether there was anything. */
  private step(): boolean {
    const { control, machine } = this;
    let worked = machine?.lanes.takeSends() === true;
    if (Atomics.load(control, P.CALL) !== control[P.RETURNED]) {
      this.runCall();
      worked = true;
    }
    if (machine?.setup.direct && machine.lanes.ownsQueues) worked = machine.lanes.pump() || worked;
    return worked;
  }

  private sleep(): void {
    const { control } = this;
    const wakes = beginRest(control);
    // What came before the word said so would wake nobody.
    const isWork =
      Atomics.load(control, P.CALL) !== control[P.RETURNED] ||
      Atomics.load(control, P.DIRTY_TAIL) !== control[P.DIRTY_HEAD] ||
      Atomics.load(control, P.DIRTY_LOST) !== 0;
    if (isWork) {
      this.stir();
      return;
    }
    if (this.waiting) return;
    const { async: isAsync, value } = waitAsync(control, P.WAKE, wakes);
    if (!isAsync) {
      this.stir();
      return;
    }
    this.waiting = true;
    void value.then(() => {
      this.waiting = false;
      this.stir();
    });
  }

  /** One call of the application's thread, after everything that it posted before. */
  private runCall(): void {
    const { control, machine } = this;
    const { requests, calls } = this.parts;
    requests.inCall = true;
    const kind = control[P.CALL_KIND];
    machine?.lanes.takeSends();
    if (kind === P.CALL_MESSAGE) {
      const call = receiveMessageOnPort(calls)?.message as P.Call;
      const reply = replyOf(() => this.run(call));
      if (machine?.setup.direct && machine.lanes.ownsQueues) machine.lanes.pump();
      calls.postMessage(reply);
      if ('slept' in call) {
        // Whoever slept goes on first, and the application's thread serves it meanwhile.
        setImmediate(() => {
          this.answer();
          this.stir();
        });
        return;
      }
    } else if (kind === P.CALL_POLL) {
      const reply = replyOf(() => machine?.lanes.pumpCq(control[P.CALL_A], control[P.CALL_B]));
      if ('error' in reply) throw new Error(reply.error.message);
    }
    this.answer();
  }

  private answer(): void {
    const { control } = this;
    this.parts.requests.inCall = false;
    Atomics.store(control, P.RETURNED, (control[P.RETURNED] + 1) | 0);
    this.parts.requests.signal();
  }

  private run(call: P.Call): unknown {
    if ('setup' in call) {
      this.machine = this.parts.build(call.setup);
      const { chain, remote } = this.machine;
      return {
        verbs: VERB_NAMES.filter((verb) => chain[verb] !== remote.provider[verb]),
        wait: chain.wait,
      } satisfies P.WorkerReady;
    }
    if (this.machine === null) throw new Error('the worker has nothing to run');
    const { lanes, remote } = this.machine;
    if ('release' in call) {
      remote.close();
      this.machine = null;
      return undefined;
    }
    if ('counters' in call) return this.machine.chain.counters?.() ?? [];
    if ('configure' in call) return this.machine.chain.configurePolicy?.(call.configure, call.changes);
    if ('lane' in call) return lanes.addLane(handleIndex(call.lane.qp), call.lane);
    if ('queue' in call) return lanes.addQueue(call.queue.cq, call.queue.words);
    if ('slept' in call) return remote.slept(call.slept);
    if ('event' in call) {
      if (call.event === 'completion') remote.completionListeners.get(call.of)?.(call.args[0]);
      else remote.asyncListeners.get(call.of)?.(call.args[0], call.args[1]);
      return undefined;
    }
    return this.verb(this.machine, call.verb, call.args);
  }

  private verb({ chain, lanes, setup }: Machine, verb: string, args: unknown[]): unknown {
    const { events } = this.parts;
    const of = args[0] as number;
    if (verb === 'watchCompChannel') {
      const listener = (cq: number) => {
        // Who is told of a completion finds it.
        if (setup.direct) lanes.pumpCq(cq, Number.MAX_SAFE_INTEGER);
        events.postMessage({ event: 'completion', of, args: [cq] } satisfies P.Tell);
      };
      return chain.watchCompChannel(of, args[1] === null ? null : listener);
    }
    if (verb === 'watchAsyncEvents') {
      const listener = (event: number, element: number) =>
        events.postMessage({ event: 'async', of, args: [event, element] } satisfies P.Tell);
      return chain.watchAsyncEvents(of, args[1] === null ? null : listener);
    }
    lanes.claimNew();
    const value = (chain[verb as keyof Provider] as (...args: unknown[]) => unknown)(...args);
    if (verb === 'destroyQp') lanes.removeLane(handleIndex(of));
    if (verb === 'destroyCq') lanes.removeQueue(of);
    return value;
  }
}
