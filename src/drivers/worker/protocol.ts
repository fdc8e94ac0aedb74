/**
 * The memory shared by the application's thread and the worker. Each word has one writer; a thread that waits
 * for a word polls it for a while and then sleeps on it.
 *
 *     control  one per driver: calls of the application, requests of the worker, and which side sleeps
 *     lane     one per queue pair: sequence numbers, and the sends to be shaped
 *     queue    one per CQ: its owner, and the completions waiting for the application
 */
import type { MessagePort } from 'node:worker_threads';
import { SLOT_WORDS } from '../../verbs/layout.ts';

// Control words written by the application's thread.
/** Number of calls made. */
export const CALL = 0;
/** The last call (CALL_*) and its arguments. */
export const CALL_KIND = 1;
export const CALL_A = 2;
export const CALL_B = 3;
/** Number of requests answered; the result, and whether it is an error. */
export const ANSWERED = 4;
export const RESULT = 5;
export const FAILED = 6;
/** Number of lanes put into the ring of dirty lanes; whether one found the ring full. */
export const DIRTY_TAIL = 7;
export const DIRTY_LOST = 8;
/** Incremented to wake the worker. */
export const WAKE = 9;
/** 1 while the application's thread sleeps, or is about to, until SIGNAL is incremented. */
export const WAITS = 10;

// Control words written by the worker, on separate cache lines.
/** Number of calls answered. */
export const RETURNED = 16;
/** Number of requests made; the verb (REQUEST_*) and arguments of the last one. */
export const REQUEST = 17;
export const REQUEST_KIND = 18;
export const REQUEST_A = 19;
export const REQUEST_B = 20;
export const REQUEST_C = 21;
export const REQUEST_D = 22;
/** Incremented whenever the application's thread may be waiting for something that happened. */
export const SIGNAL = 23;
/**
 * STARTING, RUNNING, ASLEEP or ENDED. The application's thread changes ASLEEP to RUNNING when it wakes the
 * worker.
 */
export const STATE = 24;

/**
 * Number of lanes taken from the ring of dirty lanes. It is written at every step, so it lies on a cache line that no
 * thread polls.
 */
export const DIRTY_HEAD = 32;

export const DIRTY_RING = 48;
/** Size of the ring of lanes with sends the worker has not seen: a power of two. */
export const DIRTY_SLOTS = 1024;
export const CONTROL_WORDS = DIRTY_RING + DIRTY_SLOTS;

export const STARTING = 0;
export const RUNNING = 1;
export const ASLEEP = 2;
export const ENDED = 3;

/** A verb or another message, on the port for calls. */
export const CALL_MESSAGE = 0;
/** Take all sends that have been posted, and nothing else. */
export const CALL_SYNC = 1;
/** Poll a CQ (A) for at most B completions, into its queue. */
export const CALL_POLL = 2;

/** A verb with any arguments, on the port for requests. */
export const REQUEST_MESSAGE = 0;
export const REQUEST_POST_SEND = 1;
export const REQUEST_POST_RECV = 2;
export const REQUEST_POLL_CQ = 3;
export const REQUEST_VALIDATE_SEND = 4;

// Words of a lane, all written by the application's thread except TAKEN.
/** The sequence number of the next send. */
export const POSTED = 0;
/** The first send not known to be complete, and the last signaled one. */
export const FREED = 1;
export const LAST_SIGNALED = 2;
/** 1 from the first shaped send on; from then on all sends go through the lane. */
export const SHAPED = 3;
/** The first send of the lane that the worker has not taken. */
export const TAKEN = 16;
export const LANE_HEADER = 32;

// Words of a completion queue, all written by the application's thread except TAIL.
/**
 * Which side polls the device's CQ: BY_APPLICATION or BY_WORKER. Changes only in the application's own post
 * call.
 */
export const OWNER = 0;
/** Completions taken by the application; completions that bypassed the worker before it became the owner. */
export const HEAD = 1;
export const PRODUCED = 2;
/** Completions added. */
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

/** A queue for the completions of a CQ. When it is full, further completions stay in the CQ. */
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

/** A policy by name with its options, or a module that creates one. */
export interface PolicySpec {
  name: string;
  options: Record<string, unknown>;
  /** Absolute path of a module whose default export creates a policy or an interceptor from the options. */
  module?: string;
}

/** A module whose default export prepares the thread, and the plain data that is passed to it. */
export interface Preload {
  /** The module's URL. */
  module: string;
  data: unknown;
}

/** The data with which a worker is started. */
export interface WorkerData {
  control: Int32Array;
  ports: MessagePort[];
  preload: Preload | null;
}

/** The policies that a worker runs from now on. */
export interface WorkerSetup {
  policies: PolicySpec[];
  /** The description of the application's provider. */
  provider: { name: string; wait: 'simulated' | 'hardware' | 'emulated' | 'none' };
  /** Whether the worker may call the device itself; otherwise the application's thread does. */
  direct: boolean;
  /** How long the worker polls for work before it sleeps. */
  spinNs: number;
  /** The CPU for the worker. */
  cpu?: number;
}

/** The features that the worker supports. */
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

/** Calls of the application's thread to the worker. */
export type Call =
  | { setup: WorkerSetup }
  | { release: true }
  | { verb: string; args: unknown[] }
  | { lane: LaneInfo }
  | { queue: { cq: number; words: Int32Array } }
  | { event: 'completion' | 'async'; of: number; args: number[] }
  | { counters: true }
  | { sampleLatency: true }
  | { configure: string; changes: Record<string, unknown> }
  | { slept: number };

/** Requests of the worker to the application's thread. */
export type Request = { verb: string; args: unknown[] };

export type Reply = { value: unknown } | { error: { code: string; message: string; details: object } };

/** Events that the worker sends to the application's listeners. */
export type WorkerEvent = { event: 'completion' | 'async'; of: number; args: number[] } | { serve: true };

// How the worker goes to sleep and is woken: both halves of a handshake over STATE and WAKE.

/**
 * Announces that the worker sleeps, unless a final check finds work. @returns the number of wake-ups so far,
 * for which it must not wait
 */
export function beginSleep(control: Int32Array): number {
  // Read before the announcement: a thread that sees the worker asleep wakes it at once, and nothing would
  // wake it a second time.
  const wakes = Atomics.load(control, WAKE);
  Atomics.store(control, STATE, ASLEEP);
  return wakes;
}

/** The worker is running. */
export function endSleep(control: Int32Array): void {
  Atomics.store(control, STATE, RUNNING);
}

/** Called by the application's thread: wakes the worker if it sleeps. */
export function wake(control: Int32Array): void {
  if (Atomics.load(control, STATE) !== ASLEEP) return;
  if (Atomics.compareExchange(control, STATE, ASLEEP, RUNNING) !== ASLEEP) return;
  Atomics.add(control, WAKE, 1);
  Atomics.notify(control, WAKE);
}
