/**
 * What the immediate of a SEND over a carrier says: the kind of message, and which connection at the peer it is for.
 * The application's own immediates travel in an RDMA WRITE with immediate right before.
 */
import { IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV } from '../../verbs/constants.ts';

/** A SEND of the application, without and with an immediate. */
export const SEND = 1;
export const SEND_IMM = 2;
/** The RDMA WRITE with immediate before it was the application's. */
export const WRITE_IMM = 3;
/**
 * The sender asks that the receives that are posted from now on are held for carriers, and the answers: from which on, or
 * that none are, which may also come later.
 */
export const JOIN = 4;
export const HOLDING = 5;
export const REFUSED = 6;
/** More receives are posted. */
export const CREDIT = 7;
/** The sender returns to the connection's own queue pair, and the answer: the receives are posted there. */
export const PART = 8;
export const GO = 9;

/** The number of a connection is that of its slot in the peer's anchor. */
const ID_BITS = 12;
/** Words of a message between shims: the number of the connection at its sender, and two values. */
export const BODY_WORDS = 3;

export const codeOf = (kind: number, id: number): number => (kind << ID_BITS) | id;
export const kindOf = (code: number): number => code >>> ID_BITS;
export const idOf = (code: number): number => code & ((1 << ID_BITS) - 1);

/** The kind of message for a SEND with this opcode. */
export function kindOfSend(opcode: number): number {
  return opcode === IBV_WR_SEND_WITH_IMM ? SEND_IMM : SEND;
}

/** Whether carriers take it: a key of a memory window can be invalidated only by its own queue pair. */
export function isCarried(opcode: number): boolean {
  return opcode !== IBV_WR_SEND_WITH_INV;
}
