/** Completions under `check`: each retires posted requests, and a failed one may reveal a mistake. */
import * as C from '../../verbs/constants.ts';
import * as L from '../../verbs/layout.ts';
import type { CheckCode, Findings } from './findings.ts';
import type { Ledger } from './ledger.ts';

/** The mistake that a failed completion reveals. */
function codeOf(status: number, isRecv: boolean): CheckCode | null {
  if (status === C.IBV_WC_LOC_LEN_ERR && isRecv) return 'ISO_CHECK_RECV_TOO_SMALL';
  if (status === C.IBV_WC_RNR_RETRY_EXC_ERR) return 'ISO_CHECK_RECV_MISSING';
  if (status === C.IBV_WC_REM_ACCESS_ERR) return 'ISO_CHECK_REMOTE_ACCESS';
  return null;
}

/** Records in the ledger the completion whose slot begins at `words[at]`. */
export function checkCompletion(ledger: Ledger, findings: Findings, words: Uint32Array, at: number): void {
  const status = words[at + L.WC_OP] & 0xff;
  const isRecv = (words[at + L.WC_OP] & L.WC_RECV_SIDE) !== 0;
  const [idLo, idHi, seq] = [words[at + L.WC_ID_LO], words[at + L.WC_ID_HI], words[at + L.WC_SEQ]];
  const srq = ledger.srqs.get(words[at + L.WC_SRQ]);
  const qp = ledger.qps.get(words[at + L.WC_QP]);
  if (isRecv && srq !== undefined) srq.queue.retireId(idLo, idHi);
  else if (isRecv) qp?.recvs.retireTo(seq);
  else qp?.sends.retireTo(seq);
  if (status === C.IBV_WC_SUCCESS || qp === undefined) return;
  // After an error, an unreliable queue pair can still access the memory that its requests name.
  if (qp.init.qpType !== C.IBV_QPT_UD && qp.init.qpType !== C.IBV_QPT_UC) qp.state = C.IBV_QPS_ERR;
  const code = codeOf(status, isRecv);
  if (code === null) return;
  const id = (BigInt(idHi) << 32n) | BigInt(idLo);
  findings.add(code, 'pollCq', qp.handle, `the ${isRecv ? 'receive' : 'request'} with wr_id ${id}`);
}
