/** A case of the conformance suite: a small program, and the results that the standard specifies. */
import type { Op } from './op.ts';
import type { Scene, Trace } from './scene.ts';
import type { Setup } from './setup.ts';

/**
 * By queue pair the completions of its sends ('a' is 'a0') and of its receives ('a recv'), each in order; `calls`: return codes other than success; `events`;
 * `data`: wrong contents of memory. Absent lists are empty.
 */
export type Expectation = Partial<Trace>;

/** How soft-RoCE differs (docs/testing.md): the reason, and its results, which are missing if it lacks the feature. */
export interface Departure {
  readonly why: string;
  readonly expect?: Expectation;
}

export interface Case {
  /** The unique name of the case: its verb, flag, state and fault. */
  readonly name: string;
  readonly setup: Setup;
  run(scene: Scene): void | Promise<void>;
  readonly expect: Expectation;
  readonly rxe?: Departure;
}

export type Run = (scene: Scene) => void | Promise<void>;

/** Posts these at a0, and waits for the results. */
export function posts(...ops: Op[]): Run {
  return async (scene) => {
    scene.post('a', ...ops);
    await scene.settle();
  };
}

/** The trace as expectations are written: without empty lists and numbers of first queue pairs. */
export function compact(trace: Trace): Trace {
  const filled = Object.entries(trace).filter(([, lines]) => lines.length > 0);
  return Object.fromEntries(filled.map(([name, lines]) => [name.replace(/^([ab])0/, '$1'), lines]));
}
