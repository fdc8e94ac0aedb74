import {
  CompletionError,
  IBV_WC_SUCCESS,
  IBV_WC_WITH_IMM,
  type WcBatch,
  wcOpcodeName,
  wcStatusName,
} from '../verbs/index.ts';
import type { QueuePair } from './queue-pair.ts';

/** One completion (ibv_wc) as a plain object. */
export interface Completion {
  wrId: bigint;
  /** IBV_WC_* status; 0 is success. */
  status: number;
  /** 'SUCCESS', 'WR_FLUSH_ERR', ... */
  statusText: string;
  /** 'SEND', 'RECV', 'RDMA_WRITE', ...; null on errors, where it is undefined. */
  opcode: string | null;
  /** Length of the message in bytes: receives, READs and atomics. */
  byteLen: number;
  /** Immediate data in host byte order, or null when there is none. */
  imm: number | null;
  /** The queue pair, or null when it was closed. */
  qp: QueuePair | null;
  qpNum: number;
  /** Whether it completes a receive; right on errors too. */
  isRecv: boolean;
  /** IBV_WC_GRH, IBV_WC_WITH_IMM. */
  flags: number;
  /** The vendor's error code; 0 on success. */
  vendorErr: number;
}

/** @internal Reads slot `index` of a batch. */
export function readCompletion(wc: WcBatch, index: number, qps: ReadonlyMap<number, QueuePair>): Completion {
  const status = wc.status(index);
  const ok = status === IBV_WC_SUCCESS;
  const flags = wc.flags(index);
  return {
    wrId: wc.wrIdBigInt(index),
    status,
    statusText: wcStatusName(status),
    opcode: ok ? wcOpcodeName(wc.opcode(index)) : null,
    byteLen: wc.byteLen(index),
    imm: ok && (flags & IBV_WC_WITH_IMM) !== 0 ? wc.imm(index) : null,
    qp: qps.get(wc.qp(index)) ?? null,
    qpNum: wc.qpNum(index),
    isRecv: wc.isRecv(index),
    flags,
    vendorErr: ok ? 0 : wc.vendorErr(index),
  };
}

/** Returns a successful completion as it is. @throws CompletionError with the status of a failed one */
export function expectSuccess(completion: Completion): Completion {
  if (completion.status === IBV_WC_SUCCESS) return completion;
  const { statusText, status, wrId, qpNum, isRecv } = completion;
  const side = isRecv ? 'receive' : 'send';
  throw new CompletionError(`${side} request ${wrId} of queue pair ${qpNum} failed: ${statusText}`, {
    status,
  });
}
