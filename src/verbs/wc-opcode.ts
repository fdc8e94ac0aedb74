/** Which ibv_wc_opcode the completion of a send request has. */
import * as C from './constants.ts';

const WC_OPCODES = [
  C.IBV_WC_RDMA_WRITE,
  C.IBV_WC_RDMA_WRITE,
  C.IBV_WC_SEND,
  C.IBV_WC_SEND,
  C.IBV_WC_RDMA_READ,
  C.IBV_WC_COMP_SWAP,
  C.IBV_WC_FETCH_ADD,
  C.IBV_WC_LOCAL_INV,
  C.IBV_WC_BIND_MW,
  C.IBV_WC_SEND,
];

/** By IBV_WR_* or ISO_WR_*. */
export function wcOpcode(opcode: number): number {
  return opcode >= C.ISO_WR_WAIT ? C.IBV_WC_DRIVER2 : WC_OPCODES[opcode];
}
