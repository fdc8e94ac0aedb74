/**
 * The worker's loop: polls for work and for expired timers for a while, and then sleeps in its event loop, in epoll.
 * Timers for which requests are held are kept to the microsecond: the loop polls again shortly before they expire, and
 * naps until then where a timer of Node.js, which has milliseconds, would be late.
 */
import type { MessagePort } from 'node:worker_threads';
import { receiveMessageOnPort } from 'node:worker_threads';
import { handleIndex } from '../../verbs/handles.ts';
import type { Provider } from '../../verbs/provider.ts';
import { VERB_NAMES } from '../../verbs/verbs.ts';
import type { Lanes } from './lanes.ts';
import * as P from './protocol.ts';
import type { RemoteDevice } from './remote-device.ts';
import { replyOf } from './reply.ts';
import type { Requests } from './requests.ts';

/** Verbs that shims have and devices have not. */
const PEER_VERBS = ['describePeer', 'setPeer'] as const;
/** How long the loop polls before the event loop gets to run. */
const SLICE_MS = 0.05;
/** Steps between two clock readings, and while requests are held for a timer. */
const STEPS_PER_CLOCK = 64;
const STEPS_PER_DEADLINE_CLOCK = 4;
const NS_PER_MS = 1e6;
/** A nap ends about 60 us late, so the loop polls at least this long before a timer, unless it never polls. */
const LEAST_LEAD_NS = 100_000;
/** Timers of Node.js may be late by as much. */
const TIMER_NS = 2e6;
/** Their longest time has 31 bits. */
const MAX_TIMER_MS = 1e9;
/** The longest nap. Completion events wait for its end. */
const NAP_MS = 0.1;

/** ES2024; available in all supported versions of Node.js. */
const { waitAsync } = Atomics as unknown as {
  waitAsync(words: Int32Array, index: number, value: number): { async: boolean; value: Promise<unknown> };
};

/** The objects that the loop drives; built anew for each setup. */
export interface Machine {
  setup: P.WorkerSetup;
  chain: Provider;
  remote: RemoteDevice;
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
  private isScheduled = false;
  private isWaiting = false;
  /** The time at which there was last work. */
  private lastWorkMs = 0;
  /** Length of the next slice; 0: one round. */
  private sliceMs = SLICE_MS;
  private timer: NodeJS.Timeout | null = null;

  constructor(parts: LoopParts) {
    this.parts = parts;
    this.control = parts.control;
  }

  /** Called when there may be work. */
  resume(): void {
    this.lastWorkMs = performance.now();
    P.endSleep(this.control);
    this.schedule();
  }

  private schedule(): void {
    if (this.isScheduled) return;
    this.isScheduled = true;
    setImmediate(this.runSlice);
  }

  private readonly runSlice = (): void => {
    this.isScheduled = false;
    let nowMs = performance.now();
    const endMs = nowMs + this.sliceMs;
    this.sliceMs = SLICE_MS;
    const deadlines = this.machine?.remote.deadlines;
    do {
      let didWork = deadlines?.ring() === true;
      const isHolding = deadlines != null && deadlines.soonestNs[1] < Number.POSITIVE_INFINITY;
      const steps = isHolding ? STEPS_PER_DEADLINE_CLOCK : STEPS_PER_CLOCK;
      for (let i = 0; i < steps; i++) {
        if (!this.step()) continue;
        didWork = true;
        // A promise was resolved; code awaiting it must run before the call ends.
        if (this.parts.requests.inCall) return;
      }
      nowMs = performance.now();
      if (didWork) this.lastWorkMs = nowMs;
    } while (nowMs < endMs);
    if (nowMs - this.lastWorkMs < this.spinNs / NS_PER_MS || this.restNs() <= 0) this.schedule();
    else this.sleep();
  };

  private get spinNs(): number {
    return this.machine?.setup.spinNs ?? 0;
  }

  /** How long the loop may rest before it must poll again for a timer. */
  private restNs(): number {
    const { machine, spinNs } = this;
    const deadlines = machine?.remote.deadlines;
    if (deadlines == null || deadlines.soonestNs[1] === Number.POSITIVE_INFINITY)
      return Number.POSITIVE_INFINITY;
    const leadNs = spinNs === 0 ? 0 : Math.max(spinNs, LEAST_LEAD_NS);
    return deadlines.soonestNs[1] - deadlines.nowNs() - leadNs;
  }

  /** Does all work that is waiting. @returns whether there was any */
  private step(): boolean {
    const { control, machine } = this;
    let didWork = machine?.lanes.takeSends() === true;
    if (Atomics.load(control, P.CALL) !== control[P.RETURNED]) {
      this.runCall();
      didWork = true;
    }
    if (machine?.setup.direct && machine.lanes.ownsQueues) didWork = machine.lanes.pump() || didWork;
    return didWork;
  }

  private sleep(): void {
    const { control } = this;
    const wakes = P.beginSleep(control);
    // Work that arrived before STATE was set did not wake this thread, so check for it.
    const isWork =
      Atomics.load(control, P.CALL) !== control[P.RETURNED] ||
      Atomics.load(control, P.DIRTY_TAIL) !== control[P.DIRTY_HEAD] ||
      Atomics.load(control, P.DIRTY_LOST) !== 0;
    if (isWork) {
      this.resume();
      return;
    }
    const restNs = this.restNs();
    if (restNs < TIMER_NS) {
      this.nap(wakes, restNs);
      return;
    }
    this.wakeLater(restNs - TIMER_NS / 2);
    if (this.isWaiting) return;
    const { async: isAsync, value } = waitAsync(control, P.WAKE, wakes);
    if (!isAsync) {
      this.resume();
      return;
    }
    this.isWaiting = true;
    void value.then(() => {
      this.isWaiting = false;
      this.resume();
    });
  }

  /** Sleeps outside the event loop, for at most NAP_MS. */
  private nap(wakes: number, restNs: number): void {
    const napMs = Math.min(Math.max(0, restNs / NS_PER_MS), NAP_MS);
    if (Atomics.wait(this.control, P.WAKE, wakes, napMs) !== 'timed-out') {
      this.resume();
      return;
    }
    this.sliceMs = 0;
    this.timerEnded();
  }

  /** Lets a timer of Node.js end the sleep at the next deadline, after at most `mostNs`. */
  private wakeLater(mostNs: number): void {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = null;
    const deadlines = this.machine?.remote.deadlines;
    if (deadlines == null || deadlines.soonestNs[0] === Number.POSITIVE_INFINITY) return;
    const forNs = Math.min(mostNs, deadlines.soonestNs[0] - deadlines.nowNs());
    this.timer = setTimeout(this.timerEnded, Math.min(Math.max(0, forNs) / NS_PER_MS, MAX_TIMER_MS));
  }

  private readonly timerEnded = (): void => {
    P.endSleep(this.control);
    this.schedule();
  };

  /** Executes one call of the application's thread, after everything that was posted before it. */
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
        // The awaiting code runs first; meanwhile the application's thread serves its requests.
        setImmediate(() => {
          this.answer();
          this.resume();
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
        verbs: [...VERB_NAMES, ...PEER_VERBS].filter((verb) => chain[verb] !== remote.provider[verb]),
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
    if ('sampleLatency' in call) return this.machine.chain.sampleLatency?.();
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
        // The listener must find the completion when it polls.
        if (setup.direct) lanes.pumpCq(cq, Number.MAX_SAFE_INTEGER);
        events.postMessage({ event: 'completion', of, args: [cq] } satisfies P.WorkerEvent);
      };
      return chain.watchCompChannel(of, args[1] === null ? null : listener);
    }
    if (verb === 'watchAsyncEvents') {
      const listener = (event: number, element: number) =>
        events.postMessage({ event: 'async', of, args: [event, element] } satisfies P.WorkerEvent);
      return chain.watchAsyncEvents(of, args[1] === null ? null : listener);
    }
    lanes.claimNew();
    const value = (chain[verb as keyof Provider] as (...args: unknown[]) => unknown)(...args);
    if (verb === 'destroyQp') lanes.removeLane(handleIndex(of));
    if (verb === 'destroyCq') lanes.removeQueue(of);
    return value;
  }
}
