import {
  IBV_WC_LOC_LEN_ERR,
  IBV_WC_LOC_PROT_ERR,
  IBV_WC_LOC_QP_OP_ERR,
  IBV_WC_REM_ACCESS_ERR,
  IBV_WC_REM_INV_REQ_ERR,
  IBV_WC_REM_OP_ERR,
  IBV_WR_RDMA_WRITE,
} from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import { takesReceive } from '../peer/outbox.ts';
import type { QpLedger } from '../qp-ledger.ts';
import type { Tables } from '../tables.ts';
import type { Carrier } from './carrier.ts';

/** The responder has refused the request, and executes none that follow it. */
const REFUSED = new Set([IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_OP_ERR]);
/** The device could not send the request, or could not take its response. */
const LOCAL = new Set([IBV_WC_LOC_LEN_ERR, IBV_WC_LOC_QP_OP_ERR, IBV_WC_LOC_PROT_ERR]);

/**
 * Whether the requests of a carrier from `seq` on, the first of which has failed with `status`, were certainly not
 * executed, so that they may be posted again. Local errors of READs and atomics show only in the response, when
 * requests after them may have been executed.
 */
export function isUnexecuted(tables: Tables, carrier: Carrier, seq: number, status: number): boolean {
  if (REFUSED.has(status)) return true;
  if (!LOCAL.has(status)) return false;
  const qp = tables.qp(carrier.handleAt(seq));
  if (qp === undefined) return false;
  const opcode = opcodeOf(qp, carrier.numberAt(seq));
  return opcode === IBV_WR_RDMA_WRITE || takesReceive(opcode);
}

/** IBV_WR_* of the request that the real number belongs to; -1: of none. */
function opcodeOf(qp: QpLedger, number: number): number {
  for (let seq = qp.head; seq !== qp.issued; seq = (seq + 1) | 0) {
    const row = seq & qp.mask;
    if (((qp.last[row] - number) | 0) < 0) continue;
    return ((qp.first[row] - number) | 0) <= 0 ? qp.held[row * qp.stride + L.WR_OP] & 0xff : -1;
  }
  return qp.partial ? qp.held[(qp.issued & qp.mask) * qp.stride + L.WR_OP] & 0xff : -1;
}
