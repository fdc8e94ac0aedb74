/** Messages between the threads of a run. */
import type { App } from '../resolve.ts';
import type { LiveOutcome } from './app.ts';
import type { LiveSpec } from './spec.ts';

/** The worker data of a thread. */
export interface Job {
  readonly app: App;
  readonly spec: LiveSpec;
  /** Options of the policy, including the weights of all tenants. */
  readonly policyOptions: Readonly<Record<string, unknown>>;
  /** By device: the memory of the coordinator that the policies of all threads share. */
  readonly coordinators: readonly (readonly [device: string, memory: SharedArrayBuffer])[];
  /** Int32 [0] becomes 1 when BigInt64 [1] holds time 0 of the run, as process.hrtime.bigint() counts. */
  readonly gate: SharedArrayBuffer;
}

/** Size of the gate: a flag in the first eight bytes, a time in the others. */
export const GATE_BYTES = 16;

/** Messages of a thread: it waits at the gate, or it has finished. */
export type WorkerMessage =
  | { readonly kind: 'ready' }
  | { readonly kind: 'done'; readonly outcome: LiveOutcome };
