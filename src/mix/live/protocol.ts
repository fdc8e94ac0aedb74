/** Messages between the threads, or the processes, of a run. */
import type { ErrorCode } from '../../verbs/errors.ts';
import type { App } from '../resolve.ts';
import type { LiveOutcome } from './app.ts';
import type { LiveSpec } from './spec.ts';

/** An application, and what its thread or process must know of the run. */
interface AppJob {
  readonly app: App;
  readonly spec: LiveSpec;
  /** Options of the policy, including the weights of all tenants. */
  readonly policyOptions: Readonly<Record<string, unknown>>;
}

/** The worker data of a thread. */
export interface Job extends AppJob {
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

/** The first message to a process. */
export interface ProcessJob extends AppJob {
  /** The socket of the daemon that decides for the policies of all processes; null: there is none. */
  readonly socket: string | null;
}

/** The second message to a process: time 0 of the run, as process.hrtime.bigint() counts on the whole host. */
export interface ProcessStart {
  readonly zeroNs: bigint;
}

/** Messages of a process. */
export type ProcessMessage =
  | WorkerMessage
  | { readonly kind: 'failed'; readonly code: ErrorCode | null; readonly message: string };
