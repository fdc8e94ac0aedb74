/** What the threads of a run tell each other. */
import type { App } from '../resolve.ts';
import type { LiveOutcome } from './app.ts';
import type { LiveSpec } from './spec.ts';

/** What a thread is started with. */
export interface Job {
  readonly app: App;
  readonly spec: LiveSpec;
  /** Of the policy, with the weights of all tenants. */
  readonly policyOptions: Readonly<Record<string, unknown>>;
  /** By device: what the policies of all threads meet at. */
  readonly coordinators: readonly (readonly [device: string, memory: SharedArrayBuffer])[];
  /** [0] raised when [1], the time that is 0 to all of them, is there. */
  readonly gate: SharedArrayBuffer;
}

/** Bytes of a gate: a flag in the first eight, a time in the others. */
export const GATE_BYTES = 16;

/** What a thread says: when it stands ready at the gate, and at the end. */
export type WorkerMessage =
  | { readonly kind: 'ready' }
  | { readonly kind: 'done'; readonly outcome: LiveOutcome };
