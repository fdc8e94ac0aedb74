/**
 * The memory that the application's thread and the worker share. Each word has one writer; who waits for a word
 * spins a little and then sleeps on it.
 *
 *     control  one per driver: calls of the application, requests of the worker, who sleeps
 *     lane     one per queue pair: running numbers, and the sends that are shaped
 *     queue    one per CQ: its owner, and the completions that wait for the application
 */
import type { MessagePort } from 'node:worker_threads';
import { SLOT_WORDS } from '../../verbs/layout.ts';

// Control words of the application's thread.
/** Calls made so far. */
export const CALL = 0;
/** What the last call is: CALL_*, and its arguments. */
export const CALL_KIND = 1;
export const CALL_A = 2;
export const CALL_B = 3;
/** Requests answered so far; result and whether it is an error. */
export const ANSWERED = 4;
export const RESULT = 5;
export const FAILED = 6;
/** Queue pairs put into the ring of dirty lanes so far; and whether one found no room there. */
export const DIRTY_TAIL = 7;
export const DIRTY_LOST = 8;
/** Grows to wake the worker. */
export const WAKE = 9;
/** 1 while the application's thread sleeps, or is about to, until SIGNAL grows. */
export const WAITS = 10;

// Control words of the worker, on cache lines of their own.
/** Calls answered so far. */
export const RETURNED = 16;
/** Requests made so far; verb (REQUEST_*) and arguments of the last. */
export const REQUEST = 17;
export const REQUEST_KIND = 18;
export const REQUEST_A = 19;
export const REQUEST_B = 20;
export const REQUEST_C = 21;
export const REQUEST_D = 22;
/** Grows whenever the application's thread may be waiting for something that happened. */
export const SIGNAL = 23;
/** RUNNING, ASLEEP, ENDED; STARTING before. The application's thread makes RUNNING of ASLEEP when it wakes it. */
export const STATE = 24;

/** Lanes taken out of the ring of dirty ones so far: written at every turn, so on a line that nobody polls. */
export const DIRTY_HEAD = 32;

export const DIRTY_RING = 48;
/** Queue pairs with new sends that the worker has not looked at: a power of two. */
export const DIRTY_SLOTS = 1024;
export const CONTROL_WORDS = DIRTY_RING + DIRTY_SLOTS;

export const STARTING = 0;
export const RUNNING = 1;
export const ASLEEP = 2;
export const ENDED = 3;

/** A verb or another message, on the port of calls. */
export const CALL_MESSAGE = 0;
/** Nothing but to take all sends that are posted. */
export const CALL_SYNC = 1;
/** Poll a CQ (A) for at most B completions, into its queue. */
export const CALL_POLL = 2;

/** A verb with any arguments, on the port of requests. */
export const REQUEST_MESSAGE = 0;
export const REQUEST_POST_SEND = 1;
export const REQUEST_POST_RECV = 2;
export const REQUEST_POLL_CQ = 3;
export const REQUEST_VALIDATE_SEND = 4;

// Words of a lane, all of the application's thread but TAKEN.
/** The running number of the next send. */
export const POSTED = 0;
/** The first send that is not known to be complete, and the last that reports. */
export const FREED = 1;
export const LAST_SIGNALED = 2;
/** 1 from the first shaped send on: from then on all sends go through the lane. */
export const SHAPED = 3;
/** The first send of the lane that the worker has not taken. */
export const TAKEN = 16;
export const LANE_HEADER = 32;

// Words of a completion queue, all of the application's thread but TAIL.
/** Who polls the device's CQ: BY_APPLICATION or BY_WORKER. Changes in the application's own post call. */
export const OWNER = 0;
/** Completions taken so far by the application; those that bypassed the worker before it became the owner. */
export const HEAD = 1;
export const PRODUCED = 2;
/** Completions put so far. */
export const TAIL = 16;
export const QUEUE_HEADER = 32;

export const BY_APPLICATION = 0;
export const BY_WORKER = 1;

const MAX_QUEUE_SLOTS = 65_536;

export function powerOfTwo(n: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(n, 1)));
}

/** A lane for `depth` sends of `strideWords` words each. */
export function makeLane(depth: number, strideWords: number): Int32Array {
  return shared(LANE_HEADER + powerOfTwo(depth) * strideWords);
}

/** A queue for the completions of a CQ; when it is full, the others wait in the CQ. */
export function makeQueue(cqe: number): Int32Array {
  return shared(QUEUE_HEADER + Math.min(MAX_QUEUE_SLOTS, powerOfTwo(cqe)) * SLOT_WORDS);
}

export function queueSlots(queue: Int32Array): number {
  return (queue.length - QUEUE_HEADER) / SLOT_WORDS;
}

export function makeControl(): Int32Array {
  return shared(CONTROL_WORDS);
}

function shared(words: number): Int32Array {
  return new Int32Array(new SharedArrayBuffer(words * 4));
}

/** A policy by name with its options, or a module that makes one. */
export interface PolicySpec {
  name: string;
  options: Record<string, unknown>;
  /** Absolute path of a module whose default export makes a policy or an interceptor of the options. */
  module?: string;
}

/** A module whose default export prepares the thread, and what it is called with: plain data. */
export interface Preload {
  /** A URL. */
  module: string;
  data: unknown;
}

/** What a worker is started with. */
export interface WorkerData {
  control: Int32Array;
  ports: MessagePort[];
  preload: Preload | null;
}

/** What a worker is to run, from now on and from the beginning. */
export interface WorkerSetup {
  policies: PolicySpec[];
  /** What the application's provider says of itself. */
  provider: { name: string; wait: 'simulated' | 'hardware' | 'emulated' | 'none' };
  /** Whether the worker may call the device itself, or has the application's thread call it. */
  direct: boolean;
  /** How long the worker looks for work before it sleeps. */
  spinNs: number;
  /** The worker runs on this CPU alone. */
  cpu?: number;
}

/** What the worker can do. */
export interface WorkerReady {
  verbs: string[];
  wait: WorkerSetup['provider']['wait'];
}

export interface LaneInfo {
  qp: number;
  sendCq: number;
  recvCq: number;
  words: Int32Array;
  depth: number;
  strideWords: number;
  sges: number;
  inlineBytes: number;
}

/** What the application's thread asks the worker. */
export type Call =
  | { setup: WorkerSetup }
  | { release: true }
  | { verb: string; args: unknown[] }
  | { lane: LaneInfo }
  | { queue: { cq: number; words: Int32Array } }
  | { event: 'completion' | 'async'; of: number; args: number[] }
  | { counters: true }
  | { configure: string; changes: Record<string, unknown> }
  | { slept: number };

/** What the worker asks the application's thread. */
export type Request = { verb: string; args: unknown[] };

export type Reply = { value: unknown } | { error: { code: string; message: string; details: object } };

/** What the worker tells the application's listeners. */
export type Tell = { event: 'completion' | 'async'; of: number; args: number[] } | { serve: true };
