/** A completion as text, for traces. */
import * as V from '../../../src/verbs/index.ts';

/** The fields of a completion that ibv_poll_cq(3) defines. */
export function describe(wcs: V.WcBatch, i: number, type: number): string {
  const isRecv = wcs.isRecv(i);
  const parts = [wcs.srq(i) !== 0 ? 'srq' : `${wcs.wrIdBigInt(i)}`, V.wcStatusName(wcs.status(i))];
  if (wcs.status(i) !== V.IBV_WC_SUCCESS) return parts.join(' ');
  const opcode = wcs.opcode(i);
  const flags = wcs.flags(i);
  parts.push(V.wcOpcodeName(opcode));
  const hasLength =
    isRecv || opcode === V.IBV_WC_RDMA_READ || opcode === V.IBV_WC_FETCH_ADD || opcode === V.IBV_WC_COMP_SWAP;
  if (hasLength) parts.push(`${wcs.byteLen(i)}`);
  if (isRecv && (flags & V.IBV_WC_WITH_IMM) !== 0) parts.push(`imm ${wcs.imm(i)}`);
  if (isRecv && (flags & V.IBV_WC_WITH_INV) !== 0) parts.push('invalidated');
  if (isRecv && type === V.IBV_QPT_UD && (flags & V.IBV_WC_GRH) !== 0) parts.push('grh');
  return parts.join(' ');
}
