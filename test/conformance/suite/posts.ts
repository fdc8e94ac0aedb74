/** Makes work requests from the records of a case, and their expected effect on memory. */
import * as V from '../../../src/verbs/index.ts';
import type { End } from '../../verbs/rig.ts';
import type { Memory, Range } from './memory.ts';
import { ADD, COMPARE, comesBack, hasRemote, isAtomic, OPCODES, type Op, SWAP } from './op.ts';

/** One side of a scene: an end, and the expected contents of its memory. */
export interface Side {
  readonly end: End;
  readonly memory: Memory;
}

/** A request that was posted, and its effect when it succeeds. */
export interface Posted {
  readonly op: Op;
  readonly id: bigint;
  readonly imm: number;
  /** The message of the request. */
  readonly data: Uint8Array;
  readonly local: readonly Range[];
  readonly remote: readonly Range[];
}

/** Source and destination of a queue pair's requests. */
export interface Route {
  readonly from: Side;
  readonly to: Side;
  /** UD: number of the peer's queue pair; XRC: number of the shared receive queue. */
  readonly peerQpNum: number;
  readonly ah: number;
  readonly qkey: number;
  readonly srqNum: number;
}

export function plan(op: Op, id: bigint, imm: number, { from, to }: Route): Posted {
  const local = op.sges.map((bytes): Range => [op.from ?? from.memory.take(bytes), bytes]);
  const total = op.sges.reduce((sum, bytes) => sum + bytes, 0);
  const remote: Range[] = hasRemote(op.kind) ? [[op.at ?? to.memory.take(total), total]] : [];
  const data = op.kind === 'read' ? to.memory.read(remote) : from.memory.read(local);
  return { op, id, imm, data, local, remote };
}

export function add(batch: V.SendBatch, posted: Posted, route: Route): void {
  const { op, id, imm, local, remote, data } = posted;
  const { mr } = route.from.end;
  const index = batch.length;
  const lkey = op.lkey ?? mr.lkey;
  const opcode = op.opcode ?? OPCODES[op.kind];
  if (op.kind === 'bind' && op.bind !== undefined) {
    const { mw, at, bytes, access, rkey, mr: region = mr.handle } = op.bind;
    batch.bindMw(0, op.flags, mw.handle, region, mr.addr + at, bytes, access, rkey);
  } else if (op.kind === 'wait') batch.wait(0, op.flags, op.target ?? 0, op.count ?? 0, op.repeat);
  else if (op.kind === 'enable') batch.enable(0, op.flags, op.target ?? 0, op.count ?? 0);
  else if (op.inline) batch.inline(0, opcode, op.flags, data);
  else if (op.kind === 'fetchAdd') batch.fetchAdd(0, op.flags, 0, lkey, 0, 0, ADD);
  else if (op.kind === 'compareSwap') batch.compareSwap(0, op.flags, 0, lkey, 0, 0, COMPARE, SWAP);
  else batch.write(0, op.flags, 0, 0, 0, 0, 0);
  const at = V.slotAt(index);
  if (op.opcode !== undefined || !['bind', 'wait', 'enable'].includes(op.kind)) {
    batch.words[at + V.WR_OP] = (batch.words[at + V.WR_OP] & ~0xff) | opcode;
  }
  batch.wrId(index, Number(id & 0xffffffffn), Number(id >> 32n));
  if (isAtomic(op.kind)) placeElement(batch, at, mr.addr + local[0][0], local[0][1]);
  else if (!op.inline && op.kind !== 'bind') {
    for (const [place, bytes] of local) batch.sge(index, mr.addr + place, bytes, lkey);
  }
  address(batch, index, posted, route, imm, remote[0]?.[0] ?? 0);
}

function placeElement(batch: V.SendBatch, at: number, addr: number, bytes: number): void {
  batch.words[at + V.WR_SGE0 + V.SGE_LO] = addr;
  batch.words[at + V.WR_SGE0 + V.SGE_HI] = addr / 2 ** 32;
  batch.words[at + V.WR_SGE0 + V.SGE_LENGTH] = bytes;
}

function address(
  batch: V.SendBatch,
  index: number,
  { op }: Posted,
  route: Route,
  imm: number,
  at: number,
): void {
  const { mr } = route.to.end;
  if (op.kind === 'bind' || op.kind === 'wait' || op.kind === 'enable') return;
  if (hasRemote(op.kind)) batch.remoteTo(index, mr.addr + at, op.rkey ?? mr.rkey);
  const invalidates = op.kind === 'sendInv' || op.kind === 'localInv';
  batch.imm(index, invalidates ? (op.rkey ?? 0) : imm);
  if (route.srqNum !== 0) batch.srqTo(index, route.srqNum);
  if (route.ah !== 0) batch.datagramTo(index, op.ah ?? route.ah, route.peerQpNum, op.qkey ?? route.qkey);
}

/** The request succeeded: its bytes are at their destination. Those of a SEND are checked at the receiver. */
export function apply({ op, data, local, remote }: Posted, { from, to }: Route): void {
  if (op.isLost || op.isFaulty) return;
  if (op.kind === 'write' || op.kind === 'writeImm') {
    to.memory.write(remote, op.from === undefined ? data : from.memory.read(local));
  }
  if (op.kind === 'read') from.memory.write(local, data);
  else if (isAtomic(op.kind)) {
    const [[at]] = remote;
    const old = to.memory.word(at);
    const bytes = new Uint8Array(8);
    new DataView(bytes.buffer).setBigUint64(0, old, true);
    from.memory.write(local, bytes);
    if (op.kind === 'fetchAdd') to.memory.setWord(at, BigInt.asUintN(64, old + ADD));
    else if (old === COMPARE) to.memory.setWord(at, SWAP);
  }
}

/** The request has failed, or may have: the memory that it writes is unknown. */
export function doubt({ op, local, remote }: Posted, { from, to }: Route): void {
  if (comesBack(op.kind)) from.memory.forget(local);
  if (op.kind !== 'read') to.memory.forget(remote);
}
