/**
 * Measures what a policy's timer costs the shim: 10,000 timers of one context are set, moved and fired. The baseline is
 * the simulator's event queue with as many events, pushed and popped. Rounds of both alternate; medians, as JSON. Then a
 * policy sets a timer every 0.85 us during one second of virtual time, next to as many events of the simulation alone.
 */
import { createFabric } from '#src/providers/sim/index.ts';
import { compose } from '#src/shim/compose.ts';
import type { ShimContext } from '#src/shim/context.ts';
import type { Actions, ContextView } from '#src/shim/policy.ts';
import { createShim } from '#src/shim/shim.ts';
import { ContextTimers, Timers } from '#src/shim/timers/timers.ts';
import { EV_ACTOR } from '#src/sim/kernel/event-kinds.ts';
import { EventQueue } from '#src/sim/kernel/event-queue.ts';
import type { Provider } from '#src/verbs/provider.ts';
import { nowNs, p50, rounded } from './timing.ts';

const TIMERS = 10_000;
const ROUNDS = 41;
const WARMUP_ROUNDS = 20;
/** Goal of each of the three on average. */
const GOAL_NS = 150;

const SECOND_NS = 1e9;
const TOKEN_NS = 850;
const TOKEN_ROUNDS = 5;
/** Goal for one virtual second of tokens. */
const GOAL_MS = 2000;

/** Times of the timers, in no order: a multiplicative walk over the residues of a prime. */
const PRIME = 10_007;
const timesOf = (factor: number) =>
  Float64Array.from({ length: TIMERS }, (_, i) => 0.5 + (((i + 1) * factor) % PRIME));
const SET_NS = timesOf(7919);
const MOVED_NS = timesOf(4391);

/** Timers over a clock that the benchmark sets. */
class Bed {
  readonly clock = new Float64Array(1);
  fired = 0;
  readonly context = {
    handle: 1,
    closed: false,
    waiting: 0,
    timers: new ContextTimers(),
  } as unknown as ShimContext;
  readonly timers: Timers;

  constructor() {
    // An alarm that never rings: only the timers are measured.
    const alarm = { atNs: new Float64Array(1), set() {}, close() {} };
    const provider = { nowNs: () => this.clock[0], createAlarm: () => alarm } as unknown as Provider;
    this.timers = new Timers(provider, () => {
      this.fired++;
    });
  }

  set(times: Float64Array): void {
    const { timers, context } = this;
    for (let i = 0; i < TIMERS; i++) {
      timers.dueNs[0] = times[i];
      timers.put(context, i, false);
    }
  }

  fire(): void {
    this.clock[0] = PRIME + 1;
    this.timers.run(this.context);
    this.clock[0] = 0;
  }
}

interface Round {
  setNs: number;
  moveNs: number;
  fireNs: number;
  baselineNs: number;
}

const per = (fromNs: number, toNs: number) => (toNs - fromNs) / TIMERS;

function measure(bed: Bed, queue: EventQueue): Round {
  const marks = [nowNs()];
  bed.set(SET_NS);
  marks.push(nowNs());
  bed.set(MOVED_NS);
  marks.push(nowNs());
  bed.fire();
  marks.push(nowNs());
  for (let i = 0; i < TIMERS; i++) {
    queue.due[0] = SET_NS[i];
    queue.push(1, i, 0, 0);
  }
  while (queue.size > 0) queue.pop();
  marks.push(nowNs());
  const [setNs, moveNs, fireNs, baselineNs] = marks.slice(1).map((mark, i) => per(marks[i], mark));
  return { setNs, moveNs, fireNs, baselineNs };
}

/** Bytes allocated per timer that is set, moved and fired. */
function allocatedBytes(bed: Bed): number {
  globalThis.gc?.();
  const before = process.memoryUsage().heapUsed;
  const rounds = 20;
  for (let i = 0; i < rounds; i++) {
    bed.set(SET_NS);
    bed.set(MOVED_NS);
    bed.fire();
  }
  return Math.max(0, process.memoryUsage().heapUsed - before) / (rounds * TIMERS);
}

/** A token of a policy each 0.85 us: milliseconds for one virtual second. */
function tokensMs(): number {
  const fabric = createFabric({ inside: true });
  let tokens = 0;
  const shim = createShim(() => {
    let home: ContextView;
    const set = (out: Actions) => out.timer(home, out.nowNs(home) + TOKEN_NS, 0);
    return {
      name: 'tokens',
      needs: { wait: 'none' },
      slots: 0,
      setup({ context }, out) {
        home = context;
        set(out);
      },
      onload: (_qp, _words, _start, count) => count,
      feed() {},
      onTimer(_token, out) {
        tokens++;
        set(out);
      },
    };
  });
  compose(fabric.provider, [shim]).openDevice('sim0');
  const fromNs = nowNs();
  if (!fabric.runInside(SECOND_NS)) throw new Error('a promise was resolved');
  const ms = (nowNs() - fromNs) / 1e6;
  if (Math.abs(tokens - SECOND_NS / TOKEN_NS) > 1) throw new Error(`${tokens} tokens`);
  return ms;
}

/** The same number of events, each of which adds the next one. */
function eventsMs(): number {
  const { simulation } = createFabric({ inside: true });
  const { events, clock, hooks } = simulation.world;
  const set = () => {
    events.due[0] = clock[0] + TOKEN_NS;
    events.push(EV_ACTOR, 0, 0, 0);
  };
  hooks.actor = set;
  set();
  const fromNs = nowNs();
  simulation.runUntil(SECOND_NS);
  return (nowNs() - fromNs) / 1e6;
}

const bed = new Bed();
const queue = new EventQueue();
for (let i = 0; i < WARMUP_ROUNDS; i++) measure(bed, queue);
const rounds = Array.from({ length: ROUNDS }, () => measure(bed, queue));
const median = (key: keyof Round) => p50(rounds.map((round) => round[key]));
const totals = rounds.map(({ setNs, moveNs, fireNs }) => setNs + moveNs + fireNs);
const seconds = Array.from({ length: TOKEN_ROUNDS }, () => ({ tokens: tokensMs(), events: eventsMs() }));
const tokens = p50(seconds.map((second) => second.tokens));
const events = p50(seconds.map((second) => second.events));
if (bed.fired !== (ROUNDS + WARMUP_ROUNDS) * TIMERS) throw new Error(`${bed.fired} timers fired`);
console.log(
  JSON.stringify(
    {
      timers: TIMERS,
      rounds: ROUNDS,
      setNs: rounded(median('setNs')),
      moveNs: rounded(median('moveNs')),
      fireNs: rounded(median('fireNs')),
      eachNs: rounded(p50(totals) / 3),
      goalNs: GOAL_NS,
      // The least of several: the rest is the compiler's.
      bytesPerTimer: rounded(Math.min(...Array.from({ length: 10 }, () => allocatedBytes(bed)))),
      eventQueueNs: rounded(median('baselineNs')),
      ratioToEventQueue: rounded(p50(totals) / median('baselineNs')),
      tokens: {
        everyNs: TOKEN_NS,
        virtualSecondMs: rounded(tokens),
        goalMs: GOAL_MS,
        eventsAloneMs: rounded(events),
        ratioToEvents: rounded(tokens / events),
      },
    },
    null,
    2,
  ),
);
