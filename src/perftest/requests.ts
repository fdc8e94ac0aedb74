/**
 * The requests of a test, written once into one batch per queue pair. A post rewrites only the fields that change:
 * numbers, flags, and addresses if messages advance through memory. Writing requests is most of the cost of a message.
 */
import * as V from '../verbs/index.ts';
import { type Endpoint, QKEY } from './endpoint.ts';

const ADD = 1n;
const SWAP = 0n;
/** Its value is ignored: immediate data only makes the WRITE consume a receive. */
const IMMEDIATE = 0;
const WR_ID_HALF = 2 ** 32;
const HIGH = 1 / WR_ID_HALF;
const OPCODE_MASK = 0xff | (0xff << 16);
const LOCAL_LO = V.WR_SGE0 + V.SGE_LO;
const LOCAL_HI = V.WR_SGE0 + V.SGE_HI;

interface RequestOptions {
  /** Distance from one message to the next, and the number of positions before the first is reused. */
  readonly stride?: { bytes: number; positions: number };
  readonly cqMod?: number;
}

/** The high half of wr_id is the number of the queue pair, the low half that of the request, from 1. */
export class Requests {
  private readonly endpoint: Endpoint;
  private readonly sizeBytes: number;
  private readonly stride: { bytes: number; positions: number };
  private readonly cqMod: number;
  private readonly isInline: boolean;
  /** The bytes of the next message of queue pair 0. */
  private readonly message: Uint8Array;
  /** Whether the local and the remote addresses advance from message to message. */
  private readonly movesLocal: boolean;
  private readonly movesRemote: boolean;
  /** Opcode and flags, unsignaled and signaled. */
  private readonly plainOp: number;
  private readonly signaledOp: number;
  /** By queue pair: requests posted, position of the next message, and requests until the next signaled one. */
  private readonly posted: Uint32Array;
  private readonly position: Uint32Array;
  private readonly untilSignaled: Uint32Array;

  /** Every `cqMod`th request of a queue pair is signaled. */
  constructor(
    endpoint: Endpoint,
    sizeBytes: number,
    { stride = endpoint.strideOf(sizeBytes), cqMod = endpoint.settings.cqMod }: RequestOptions = {},
  ) {
    const { kind, qp } = endpoint.settings;
    this.endpoint = endpoint;
    this.sizeBytes = sizeBytes;
    this.stride = stride;
    this.cqMod = cqMod;
    this.isInline = sizeBytes <= endpoint.inlineBytes;
    this.movesLocal = stride.positions > 1 && !this.isInline;
    this.movesRemote = stride.positions > 1 && kind.verb !== 'send';
    this.posted = new Uint32Array(qp);
    this.position = new Uint32Array(qp);
    this.untilSignaled = new Uint32Array(qp).fill(cqMod);
    for (let i = 0; i < qp; i++) this.writeRequests(i);
    const batch = endpoint.sends[0];
    this.message = this.isInline
      ? new Uint8Array(batch.words.buffer, batch.inlineAt(0))
      : endpoint.sendBytes(0);
    const op = batch.words[V.slotAt(0) + V.WR_OP];
    const flags = this.isInline ? V.IBV_SEND_INLINE : 0;
    this.plainOp = (op & OPCODE_MASK) | (flags << 8);
    this.signaledOp = this.plainOp | (V.IBV_SEND_SIGNALED << 8);
  }

  /** Posts the next `count` requests of queue pair `index`. With `last`, none follow, so the last of them is signaled. */
  post(index: number, count: number, last: boolean): void {
    const { endpoint, cqMod, plainOp, signaledOp } = this;
    const batch = endpoint.sends[index];
    const { words } = batch;
    let number = this.posted[index];
    let until = this.untilSignaled[index];
    let at = V.slotAt(0);
    for (let i = 0; i < count; i++) {
      words[at + V.WR_ID_LO] = ++number;
      words[at + V.WR_OP] = --until === 0 ? signaledOp : plainOp;
      if (until === 0) until = cqMod;
      at += V.SLOT_WORDS;
    }
    if (last) words[at - V.SLOT_WORDS + V.WR_OP] = signaledOp;
    this.posted[index] = number;
    this.untilSignaled[index] = until;
    if (this.movesLocal || this.movesRemote) this.updateAddresses(index, count);
    endpoint.qps[index].postSend(batch, 0, count);
  }

  /** Sets the last byte of the next message of queue pair 0. */
  stamp(value: number): void {
    this.message[this.sizeBytes - 1] = value;
  }

  /** Advances the addresses of the next `count` requests; after the last position they start over. */
  private updateAddresses(index: number, count: number): void {
    const { endpoint, stride, movesLocal, movesRemote } = this;
    const { words } = endpoint.sends[index];
    const local = endpoint.sendAddr(index);
    const remote = endpoint.remotes[index].addr;
    let position = this.position[index];
    let at = V.slotAt(0);
    for (let i = 0; i < count; i++) {
      const offset = position * stride.bytes;
      if (movesLocal) {
        words[at + LOCAL_LO] = local + offset;
        words[at + LOCAL_HI] = (local + offset) * HIGH;
      }
      if (movesRemote) {
        words[at + V.WR_REMOTE_LO] = remote + offset;
        words[at + V.WR_REMOTE_HI] = (remote + offset) * HIGH;
      }
      if (++position === stride.positions) position = 0;
      at += V.SLOT_WORDS;
    }
    this.position[index] = position;
  }

  /** Fills the batch of queue pair `index` with requests for the first position. */
  private writeRequests(index: number): void {
    const { endpoint, sizeBytes, isInline } = this;
    const batch = endpoint.sends[index].clear();
    const data = endpoint.sendBytes(index).subarray(0, sizeBytes);
    while (batch.length < batch.capacity) {
      if (isInline) this.appendInline(batch, index, data);
      else this.append(batch, index);
    }
  }

  private appendInline(batch: V.SendBatch, index: number, data: Uint8Array): void {
    const { addr, rkey, ah, qpNum } = this.endpoint.remotes[index];
    const { kind, write_with_imm: withImm } = this.endpoint.settings;
    const writes = kind.verb === 'write';
    const write = withImm ? V.IBV_WR_RDMA_WRITE_WITH_IMM : V.IBV_WR_RDMA_WRITE;
    batch.inline(index * WR_ID_HALF, writes ? write : V.IBV_WR_SEND, 0, data);
    if (withImm) batch.imm(batch.length - 1, IMMEDIATE);
    if (writes) batch.remoteTo(batch.length - 1, addr, rkey);
    else if (ah !== 0) batch.datagramTo(batch.length - 1, ah, qpNum, QKEY);
  }

  private append(batch: V.SendBatch, index: number): void {
    const { endpoint, sizeBytes } = this;
    const { kind, atomic_type, write_with_imm: withImm } = endpoint.settings;
    const { addr: to, rkey, ah, qpNum } = endpoint.remotes[index];
    const id = index * WR_ID_HALF;
    const local = endpoint.sendAddr(index);
    const { lkey } = endpoint.mr;
    switch (kind.verb) {
      case 'write':
        if (withImm) batch.writeImm(id, 0, local, sizeBytes, lkey, to, rkey, IMMEDIATE);
        else batch.write(id, 0, local, sizeBytes, lkey, to, rkey);
        return;
      case 'read':
        batch.read(id, 0, local, sizeBytes, lkey, to, rkey);
        return;
      case 'send':
        batch.send(id, 0, local, sizeBytes, lkey);
        if (ah !== 0) batch.datagramTo(batch.length - 1, ah, qpNum, QKEY);
        return;
      case 'atomic':
        if (atomic_type === 'CMP_AND_SWAP') batch.compareSwap(id, 0, local, lkey, to, rkey, 0n, SWAP);
        else batch.fetchAdd(id, 0, local, lkey, to, rkey, ADD);
    }
  }
}
