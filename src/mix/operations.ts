/** What an application posts: one operation, or several at random. */
import * as V from '../verbs/index.ts';

/** What a request does. */
export type Operation = 'write' | 'send' | 'read' | 'atomic';

/** Operations with their shares of the requests, which need not add up to 1. */
export type OpMix = Readonly<Partial<Record<Operation, number>>>;

/** Operations that are drawn at random. */
export interface OpDraw {
  readonly operations: readonly Operation[];
  /** By operation: the part of [0, 1) that ends with it. */
  readonly ends: readonly number[];
}

/** The operations of an application: `op`, or several. */
interface OperationsOf {
  readonly op: Operation;
  readonly opDraw: OpDraw | null;
}

export const OPCODES: Readonly<Record<Operation, number>> = {
  write: V.IBV_WR_RDMA_WRITE,
  send: V.IBV_WR_SEND,
  read: V.IBV_WR_RDMA_READ,
  atomic: V.IBV_WR_ATOMIC_FETCH_AND_ADD,
};

/** The operations of a mix. */
export function opDrawOf(mix: OpMix): OpDraw {
  const entries = Object.entries(mix) as [Operation, number][];
  const whole = entries.reduce((sum, [, share]) => sum + share, 0);
  let end = 0;
  const ends = entries.map(([, share]) => {
    end += share / whole;
    return end;
  });
  // Rounding must not leave a gap before 1.
  ends[ends.length - 1] = 1;
  return { operations: entries.map(([operation]) => operation), ends };
}

/** The opcode at this place. @param u uniformly distributed in [0, 1) */
export function drawOpcode({ operations, ends }: OpDraw, u: number): number {
  let at = 0;
  while (ends[at] <= u) at++;
  return OPCODES[operations[at]];
}

/** Whether an application posts this operation, always or at times. */
export function posts({ op, opDraw }: OperationsOf, operation: Operation): boolean {
  return opDraw === null ? op === operation : opDraw.operations.includes(operation);
}
