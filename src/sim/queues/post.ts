/** Posting: checks work requests in a ring and copies them into a queue. */
import * as C from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import { EV_DOORBELL, EV_FLUSH } from '../kernel/event-kinds.ts';
import { fixBind, windowReason } from '../memory/memory-windows.ts';
import { failQp } from '../transport/failure.ts';
import type { Qp } from '../transport/qp.ts';
import { isLocalOp, isReadOrAtomic } from '../transport/request-info.ts';
import type { World } from '../world.ts';
import type { Srq } from './srq.ts';
import type { WorkQueue } from './work-queue.ts';

/** Largest message, as on mlx5. */
export const MAX_MESSAGE_BYTES = 1 << 30;
const KNOWN_FLAGS =
  C.IBV_SEND_FENCE | C.IBV_SEND_SIGNALED | C.IBV_SEND_SOLICITED | C.IBV_SEND_INLINE | C.ISO_SEND_INTERNAL;

/** Work-request memory as returned by createWrRing. */
export class WrRing {
  readonly capacity: number;
  readonly extBytes: number;
  readonly words: Uint32Array;
  readonly bytes: Uint8Array;

  constructor(memory: ArrayBuffer, capacity: number, extBytes: number) {
    this.capacity = capacity;
    this.extBytes = extBytes;
    this.words = new Uint32Array(memory);
    this.bytes = new Uint8Array(memory);
  }

  /** Index of the first word of the extension of slot `index`. */
  extAt(index: number): number {
    return L.extAt(index, this.capacity, this.extBytes);
  }
}

/** The REASON_* number for which a request is rejected. */
type Reason = number;

const ERRNO_OF: readonly number[] = [
  0,
  C.EINVAL,
  C.ENOMEM,
  C.EINVAL,
  C.EINVAL,
  C.EINVAL,
  C.EINVAL,
  C.EINVAL,
  C.EINVAL,
  C.EINVAL,
  C.EIO,
  C.EINVAL,
  C.EINVAL,
  C.ENOMEM,
  C.EINVAL,
  C.EINVAL,
  C.EINVAL,
];

const CONNECTED = bits(
  C.IBV_WR_RDMA_WRITE,
  C.IBV_WR_RDMA_WRITE_WITH_IMM,
  C.IBV_WR_SEND,
  C.IBV_WR_SEND_WITH_IMM,
);
const WINDOWS = bits(C.IBV_WR_LOCAL_INV, C.IBV_WR_BIND_MW);
/** Opcodes that types other than RC may post. */
const OPCODES: Record<number, number> = {
  [C.IBV_QPT_UC]: CONNECTED | WINDOWS,
  [C.IBV_QPT_UD]: bits(C.IBV_WR_SEND, C.IBV_WR_SEND_WITH_IMM),
  [C.IBV_QPT_XRC_SEND]:
    CONNECTED |
    WINDOWS |
    bits(
      C.IBV_WR_RDMA_READ,
      C.IBV_WR_ATOMIC_CMP_AND_SWP,
      C.IBV_WR_ATOMIC_FETCH_AND_ADD,
      C.IBV_WR_SEND_WITH_INV,
    ),
};

function bits(...opcodes: number[]): number {
  return opcodes.reduce((mask, opcode) => mask | (1 << opcode), 0);
}

/** The REASON_* for which a type other than RC may not post this opcode. */
function typeReason(world: World, qp: Qp, ring: WrRing, at: number, opcode: number): Reason {
  if (opcode >= C.ISO_WR_WAIT) return L.REASON_NONE;
  if (opcode > 31 || ((OPCODES[qp.type] >>> opcode) & 1) === 0) return L.REASON_OPCODE;
  if (qp.type !== C.IBV_QPT_UD) return L.REASON_NONE;
  const ah = world.hooks.ahOf(ring.words[at + L.WR_AH]);
  return ah !== undefined && ah.pd === qp.pd ? L.REASON_NONE : L.REASON_AH;
}

export function errnoOf(reason: Reason, opcode: number): number {
  // A device without WAIT reports the operation as unsupported.
  if (reason === L.REASON_OPCODE && opcode >= C.ISO_WR_WAIT) return C.EOPNOTSUPP;
  return ERRNO_OF[reason];
}

function sendStateReason(qp: Qp): Reason {
  // XRC_RECV has no send queue.
  if (qp.type === C.IBV_QPT_XRC_RECV) return L.REASON_OPCODE;
  return qp.state >= C.IBV_QPS_RTS ? L.REASON_NONE : L.REASON_STATE;
}

/** Sum of the SGE lengths of a slot; -1 when an SGE names detached memory. */
function sgeBytes(world: World, ring: WrRing, index: number, count: number): number {
  const w = ring.words;
  const at = L.slotAt(index) + L.WR_SGE0;
  const ext = ring.extAt(index);
  let total = 0;
  for (let i = 0; i < count; i++) {
    const e = i < 2 ? at + i * L.SGE_WORDS : ext + (i - 2) * L.SGE_WORDS;
    total += w[e + L.SGE_LENGTH];
    if (world.regions.isDetached(w[e + L.SGE_LKEY])) return -1;
  }
  return total;
}

/** [0] message bytes of the request that sendReason checked last. */
const message = new Float64Array(1);

/** The REASON_* for which this send request may not be posted, apart from a full queue. */
function sendReason(world: World, qp: Qp, ring: WrRing, index: number, waits: boolean): Reason {
  const w = ring.words;
  const at = L.slotAt(index);
  const op = w[at + L.WR_OP];
  const opcode = op & 0xff;
  const flags = (op >>> 8) & 0xff;
  const count = op >>> 16;
  message[0] = 0;
  if ((flags & ~KNOWN_FLAGS) !== 0) return L.REASON_FLAGS;
  if (qp.type !== C.IBV_QPT_RC) {
    const reason = typeReason(world, qp, ring, at, opcode);
    if (reason !== L.REASON_NONE) return reason;
  } else if (opcode > C.IBV_WR_SEND_WITH_INV && opcode < C.ISO_WR_WAIT) return L.REASON_OPCODE;
  if (isLocalOp(opcode)) {
    if (opcode < C.ISO_WR_WAIT) return windowReason(world, qp, w, at);
    if (!waits || (opcode !== C.ISO_WR_WAIT && opcode !== C.ISO_WR_ENABLE)) return L.REASON_OPCODE;
    return targetReason(world, qp, ring, at, opcode);
  }
  if ((flags & C.IBV_SEND_INLINE) !== 0) {
    const bytes = w[at + L.WR_INLINE_LENGTH];
    if (isReadOrAtomic(opcode) || bytes > qp.cap.maxInlineData || bytes > ring.extBytes)
      return L.REASON_INLINE;
    if (count !== 0) return L.REASON_SGE_COUNT;
    message[0] = bytes;
    return L.REASON_NONE;
  }
  if (count > qp.cap.maxSendSge || (count > 2 && (count - 2) * 16 > ring.extBytes)) return L.REASON_SGE_COUNT;
  if (opcode >= C.IBV_WR_ATOMIC_CMP_AND_SWP && opcode !== C.IBV_WR_SEND_WITH_INV) {
    const aligned = (w[at + L.WR_REMOTE_LO] & 7) === 0;
    if (count !== 1 || w[at + L.WR_SGE0 + L.SGE_LENGTH] !== 8 || !aligned) return L.REASON_ATOMIC;
  }
  const bytes = sgeBytes(world, ring, index, count);
  if (bytes < 0) return L.REASON_DETACHED;
  if (bytes > MAX_MESSAGE_BYTES) return L.REASON_LENGTH;
  message[0] = bytes;
  return L.REASON_NONE;
}

function targetReason(world: World, qp: Qp, ring: WrRing, at: number, opcode: number): Reason {
  const handle = ring.words[at + L.WR_TARGET];
  if (opcode === C.ISO_WR_WAIT) {
    const cq = world.hooks.cqOf(handle);
    return cq !== undefined && cq.host === qp.host ? L.REASON_NONE : L.REASON_TARGET;
  }
  const managed = world.hooks.qpOf(handle);
  if (managed === undefined || !managed.managed || managed.host !== qp.host) return L.REASON_TARGET;
  const count = ring.words[at + L.WR_COUNT];
  // ENABLE cannot exceed what is posted.
  if (count > ((managed.sq.posted - managed.enableIndex) | 0)) return L.REASON_TARGET;
  return L.REASON_NONE;
}

/** The errno that postSend would report for one slot if the queue had room. */
export function validateSend(world: World, qp: Qp, ring: WrRing, index: number, waits: boolean): number {
  if (index >>> 0 >= ring.capacity) return C.EINVAL;
  const reason = sendStateReason(qp) || sendReason(world, qp, ring, index, waits);
  const errno = errnoOf(reason, ring.words[L.slotAt(index) + L.WR_OP] & 0xff);
  if (errno !== 0) {
    ring.words[L.HDR_ERRNO] = errno;
    ring.words[L.HDR_REASON] = reason;
  }
  return errno;
}

/** Copies a slot and the used part of its extension into the queue. */
function copySlot(queue: WorkQueue, ring: WrRing, index: number, extBytes: number): number {
  const from = L.slotAt(index);
  const to = queue.at(queue.posted);
  const w = ring.words;
  const q = queue.words;
  for (let i = 0; i < L.SLOT_WORDS; i++) q[to + i] = w[from + i];
  if (extBytes > 0) {
    const ext = ring.extAt(index);
    const toExt = queue.extAt(queue.posted);
    const words = (extBytes + 3) >> 2;
    for (let i = 0; i < words; i++) queue.ext[toExt + i] = w[ext + i];
  }
  queue.length[queue.posted & queue.mask] = message[0];
  return to;
}

/** Fixes the target of a WAIT, ENABLE or BIND_MW at posting time. */
function fixTarget(world: World, qp: Qp, at: number, opcode: number): void {
  if (opcode < C.ISO_WR_WAIT) {
    if (opcode === C.IBV_WR_BIND_MW) fixBind(world, qp, at);
    return;
  }
  const w = qp.sq.words;
  const slot = qp.sq.posted & qp.sq.mask;
  const count = w[at + L.WR_COUNT];
  if (opcode === C.ISO_WR_WAIT) {
    const cq = world.hooks.cqOf(w[at + L.WR_TARGET])!;
    if (count > 0) cq.waitIndex = (cq.waitIndex + count) | 0;
    qp.sqTarget[slot] = cq.id;
    qp.sqPsn[slot] = cq.waitIndex;
    return;
  }
  const managed = world.hooks.qpOf(w[at + L.WR_TARGET])!;
  managed.enableIndex = count === 0 ? managed.sq.posted : (managed.enableIndex + count) | 0;
  qp.sqTarget[slot] = managed.qpn;
  qp.sqPsn[slot] = managed.enableIndex;
}

/**
 * Posts slots of a ring and returns how many were accepted. The ring's header has the reason for a short
 * count.
 */
export function postSend(
  world: World,
  qp: Qp,
  ring: WrRing,
  start: number,
  count: number,
  waits: boolean,
): number {
  const { sq } = qp;
  const w = ring.words;
  let reason: Reason = sendStateReason(qp);
  let n = 0;
  if (reason === L.REASON_NONE) {
    qp.openSends(!world.hosts[qp.host].pcie.free, world.runRows);
    for (; n < count; n++) {
      const index = start + n;
      if (sq.full) reason = L.REASON_QUEUE_FULL;
      else reason = sendReason(world, qp, ring, index, waits);
      if (reason !== L.REASON_NONE) break;
      const op = w[L.slotAt(index) + L.WR_OP];
      const sges = op >>> 16;
      const inline = ((op >>> 8) & C.IBV_SEND_INLINE) !== 0;
      const at = copySlot(sq, ring, index, inline ? message[0] : sges > 2 ? (sges - 2) * 16 : 0);
      if (isLocalOp(op & 0xff)) fixTarget(world, qp, at, op & 0xff);
      // The address is fixed as well, because the handle may be destroyed while the request waits.
      else if (qp.type === C.IBV_QPT_UD)
        qp.sqAh[sq.posted & sq.mask] = world.hooks.ahOf(w[L.slotAt(index) + L.WR_AH])!;
      sq.posted = (sq.posted + 1) | 0;
    }
    qp.posted += n;
  }
  w[L.HDR_ERRNO] = reason === 0 ? 0 : errnoOf(reason, w[L.slotAt(start + n) + L.WR_OP] & 0xff);
  w[L.HDR_REASON] = reason;
  if (n > 0) ringDoorbell(world, qp);
  // Memory in use was detached, so no further result of the queue pair can be trusted.
  if (reason === L.REASON_DETACHED) failQp(world, qp);
  return n;
}

function ringDoorbell(world: World, qp: Qp): void {
  if (qp.state >= C.IBV_QPS_SQE) {
    world.events.due[0] = world.clock[0];
    world.events.push(EV_FLUSH, qp.qpn, 0, qp.epoch);
  } else if (!qp.managed) {
    world.events.due[0] = world.clock[0] + world.cpuAhead[0] + world.params.mmioNs;
    world.events.push(EV_DOORBELL, qp.qpn, qp.sq.posted, qp.epoch);
  }
}

/** Posts receives; return value and header as in postSend. */
export function postRecv(world: World, qp: Qp, ring: WrRing, start: number, count: number): number {
  const { rq } = qp;
  const w = ring.words;
  let reason: Reason = recvQueueReason(qp);
  let n = 0;
  if (reason === L.REASON_NONE) {
    n = queueReceives(world, rq, qp.cap.maxRecvSge, ring, start, count);
    qp.posted += n;
    reason = w[L.HDR_REASON];
  } else {
    refuse(ring, reason);
  }
  if (n > 0 && qp.state === C.IBV_QPS_ERR) {
    world.events.due[0] = world.clock[0];
    world.events.push(EV_FLUSH, qp.qpn, 0, qp.epoch);
  }
  if (reason === L.REASON_DETACHED) failQp(world, qp);
  return n;
}

/** Posts receives to a shared receive queue; return value and header as in postSend. */
export function postSrqRecv(world: World, srq: Srq, ring: WrRing, start: number, count: number): number {
  return queueReceives(world, srq.queue, srq.maxSge, ring, start, count);
}

function refuse(ring: WrRing, reason: Reason): void {
  ring.words[L.HDR_ERRNO] = ERRNO_OF[reason];
  ring.words[L.HDR_REASON] = reason;
}

/** The REASON_* for which a queue pair accepts no receives. */
function recvQueueReason(qp: Qp): Reason {
  if (qp.type === C.IBV_QPT_XRC_SEND) return L.REASON_OPCODE;
  if (qp.srq !== null || qp.type === C.IBV_QPT_XRC_RECV) return L.REASON_SRQ;
  return qp.state >= C.IBV_QPS_INIT ? L.REASON_NONE : L.REASON_STATE;
}

/**
 * Copies receives into a queue. Returns their number, and sets the reason for a short count in the ring's header.
 */
function queueReceives(
  world: World,
  queue: WorkQueue,
  maxSge: number,
  ring: WrRing,
  start: number,
  count: number,
): number {
  let reason: Reason = L.REASON_NONE;
  let n = 0;
  queue.open();
  for (; n < count; n++) {
    const index = start + n;
    const sges = ring.words[L.slotAt(index) + L.WR_OP] >>> 16;
    reason = recvReason(world, queue, maxSge, ring, index, sges);
    if (reason !== L.REASON_NONE) break;
    copySlot(queue, ring, index, sges > 2 ? (sges - 2) * 16 : 0);
    queue.posted = (queue.posted + 1) | 0;
  }
  refuse(ring, reason);
  return n;
}

function recvReason(
  world: World,
  queue: WorkQueue,
  maxSge: number,
  ring: WrRing,
  index: number,
  sges: number,
): Reason {
  if (queue.full) return L.REASON_QUEUE_FULL;
  if (sges > maxSge || (sges > 2 && (sges - 2) * 16 > ring.extBytes)) return L.REASON_SGE_COUNT;
  const bytes = sgeBytes(world, ring, index, sges);
  if (bytes < 0) return L.REASON_DETACHED;
  if (bytes > MAX_MESSAGE_BYTES) return L.REASON_LENGTH;
  message[0] = bytes;
  return L.REASON_NONE;
}
