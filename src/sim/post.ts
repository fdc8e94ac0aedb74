/** Posting: checks work requests in a ring and copies them into a queue. */
import * as C from '../verbs/constants.ts';
import * as L from '../verbs/layout.ts';
import { failQp } from './failure.ts';
import { EV_DOORBELL, EV_FLUSH } from './kinds.ts';
import type { Network } from './network.ts';
import type { Qp } from './qp.ts';
import { isLocalOp, isReadOrAtomic } from './requester.ts';
import type { Srq } from './srq.ts';
import { fixBind, windowReason } from './windows.ts';
import type { WorkQueue } from './work-queue.ts';

/** Largest message, as on mlx5. */
export const MAX_MESSAGE_BYTES = 1 << 30;
const KNOWN_FLAGS =
  C.IBV_SEND_FENCE | C.IBV_SEND_SIGNALED | C.IBV_SEND_SOLICITED | C.IBV_SEND_INLINE | C.ISO_SEND_INTERNAL;

/** Work-request memory: what createWrRing gives out. */
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

/** What is wrong with a request: a REASON_* number. */
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
/** By type other than RC: the opcodes that it may post. */
const OPCODES: Record<number, number> = {
  [C.IBV_QPT_UC]: CONNECTED | WINDOWS,
  [C.IBV_QPT_UD]: bits(C.IBV_WR_SEND, C.IBV_WR_SEND_WITH_IMM),
  [C.IBV_QPT_XRC_SEND]:
