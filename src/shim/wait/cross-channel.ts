/**
 * WAIT for completions and ENABLE, executed by the shim: on devices without them, and where the device would count
 * completions and requests that the application never sees. The indices are those of mlx5's cross-channel requests: the
 * target of a request is fixed when it is posted.
 */
import {
  IBV_QPS_RTS,
  IBV_SEND_FENCE,
  IBV_SEND_INLINE,
  IBV_SEND_SIGNALED,
  IBV_SEND_SOLICITED,
  ISO_SEND_INTERNAL,
  ISO_WR_ENABLE,
  ISO_WR_WAIT,
} from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import { wcOpcode } from '../../verbs/wc-batch.ts';
import type { QpLedger } from '../qp-ledger.ts';
import type { Tables } from '../tables.ts';

const KNOWN_FLAGS =
  IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE | ISO_SEND_INTERNAL;

/** Whether the slot at `at` is a WAIT for completions (not a 0_WAIT) or an ENABLE. */
export function isCrossChannel(words: Uint32Array, at: number): boolean {
  const opcode = words[at + L.WR_OP] & 0xff;
  return opcode === ISO_WR_ENABLE || (opcode === ISO_WR_WAIT && words[at + L.WR_COUNT] !== 0);
}

/** Target or poster of a WAIT or ENABLE: the ledger of a shim, or one that stands for it. */
interface Queue {
  readonly state: number;
  readonly managed: boolean;
  readonly appPosted: number;
  readonly enableIndex: number;
  readonly context: { readonly device: string };
}
interface Targets {
  cq(handle: number): { readonly owner: { readonly device: string } } | undefined;
  qp(handle: number): Queue | undefined;
}

/** The REASON_* for which a WAIT or ENABLE may not be posted, as a device would report it. */
export function crossChannelReason(tables: Targets, qp: Queue, words: Uint32Array, at: number): number {
  if (qp.state < IBV_QPS_RTS) return L.REASON_STATE;
  const op = words[at + L.WR_OP];
  if (((op >>> 8) & 0xff & ~KNOWN_FLAGS) !== 0) return L.REASON_FLAGS;
  const { device } = qp.context;
  if ((op & 0xff) === ISO_WR_WAIT) {
    return tables.cq(words[at + L.WR_TARGET])?.owner.device === device ? L.REASON_NONE : L.REASON_TARGET;
  }
  const managed = tables.qp(words[at + L.WR_TARGET]);
  if (managed?.managed !== true || managed.context.device !== device) return L.REASON_TARGET;
  // Only posted requests can be enabled.
  const left = (managed.appPosted - managed.enableIndex) | 0;
  return words[at + L.WR_COUNT] > left ? L.REASON_TARGET : L.REASON_NONE;
}

/** Fixes the target of the request that was just held; its index is stored in WR_REPEAT of the copy. */
export function fixTarget(tables: Tables, qp: QpLedger, at: number): void {
  const { held } = qp;
  const target = held[at + L.WR_TARGET];
  const count = held[at + L.WR_COUNT];
  if ((held[at + L.WR_OP] & 0xff) === ISO_WR_WAIT) {
    const cq = tables.cq(target)!;
    cq.waitIndex = (cq.waitIndex + count) | 0;
    held[at + L.WR_REPEAT] = cq.waitIndex;
    return;
  }
  const managed = tables.qp(target)!;
  managed.enableIndex = enableIndexAfter(managed, managed === qp, count);
  held[at + L.WR_REPEAT] = managed.enableIndex;
}

/** The request up to which ENABLEs release a managed queue pair, after one more of `count` was posted. */
export function enableIndexAfter(
  managed: Pick<Queue, 'appPosted' | 'enableIndex'>,
  isOwn: boolean,
  count: number,
): number {
  if (count !== 0) return (managed.enableIndex + count) | 0;
  // An ENABLE of its own queue pair does not count itself.
  return isOwn ? (managed.appPosted - 1) | 0 : managed.appPosted;
}

/** Raises the index up to which a managed queue pair is released; an index from before its RESET has no effect. */
export function enable(managed: QpLedger, index: number): void {
  if (((index - managed.enabled) | 0) <= 0 || ((managed.appPosted - index) | 0) < 0) return;
  managed.enabled = index | 0;
}

/** A completion that the shim makes itself, for the held request `seq`. */
export function syntheticCompletion(qp: QpLedger, seq: number, status: number, bytes: number): Uint32Array {
  const wc = new Uint32Array(L.SLOT_WORDS);
  const from = (seq & qp.mask) * qp.stride;
  wc[L.WC_ID_LO] = qp.held[from];
  wc[L.WC_ID_HI] = qp.held[from + 1];
  wc[L.WC_OP] = status | (wcOpcode(qp.held[from + L.WR_OP] & 0xff) << 8);
  wc[L.WC_BYTE_LEN] = bytes;
  wc[L.WC_QP] = qp.handle;
  wc[L.WC_SEQ] = seq;
  wc[L.WC_QP_NUM] = qp.qpNum;
  return wc;
}
