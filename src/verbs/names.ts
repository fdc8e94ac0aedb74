/** Names of numeric constants, like those of ibv_wc_status_str(3). */
import * as C from './constants.ts';

function table(prefix: string): Record<number, string> {
  const entries = Object.entries(C).filter(([name]) => name.startsWith(prefix));
  return Object.fromEntries(entries.map(([name, value]) => [value, name.slice(prefix.length)]));
}

const WC_OPCODES: Record<number, string> = {
  [C.IBV_WC_SEND]: 'SEND',
  [C.IBV_WC_RDMA_WRITE]: 'RDMA_WRITE',
  [C.IBV_WC_RDMA_READ]: 'RDMA_READ',
  [C.IBV_WC_COMP_SWAP]: 'COMP_SWAP',
  [C.IBV_WC_FETCH_ADD]: 'FETCH_ADD',
  [C.IBV_WC_BIND_MW]: 'BIND_MW',
  [C.IBV_WC_LOCAL_INV]: 'LOCAL_INV',
  [C.IBV_WC_RECV]: 'RECV',
  [C.IBV_WC_RECV_RDMA_WITH_IMM]: 'RECV_RDMA_WITH_IMM',
  [C.IBV_WC_DRIVER2]: 'DRIVER2',
};

const WR_OPCODES: Record<number, string> = {
  ...table('IBV_WR_'),
  [C.ISO_WR_WAIT]: 'WAIT',
  [C.ISO_WR_ENABLE]: 'ENABLE',
};

const WC_STATUSES: Record<number, string> = {
  [C.IBV_WC_SUCCESS]: 'SUCCESS',
  ...Object.fromEntries(
    Object.entries(C)
      .filter(([name]) => name.startsWith('IBV_WC_') && name.endsWith('_ERR'))
      .map(([name, value]) => [value, name.slice('IBV_WC_'.length)]),
  ),
};

/** `'RDMA_WRITE'` for IBV_WR_RDMA_WRITE. */
export function wrOpcodeName(opcode: number): string {
  return WR_OPCODES[opcode] ?? `opcode ${opcode}`;
}

/** `'RECV'` for IBV_WC_RECV. */
export function wcOpcodeName(opcode: number): string {
  return WC_OPCODES[opcode] ?? `opcode ${opcode}`;
}

/** `'REM_ACCESS_ERR'` for IBV_WC_REM_ACCESS_ERR. */
export function wcStatusName(status: number): string {
  return WC_STATUSES[status] ?? `status ${status}`;
}

const EVENTS = table('IBV_EVENT_');
const CM_EVENTS = table('RDMA_CM_EVENT_');

/** `'QP_FATAL'` for IBV_EVENT_QP_FATAL. */
export function asyncEventName(event: number): string {
  return EVENTS[event] ?? `event ${event}`;
}

/** `'CONNECT_REQUEST'` for RDMA_CM_EVENT_CONNECT_REQUEST. */
export function cmEventName(event: number): string {
  return CM_EVENTS[event] ?? `event ${event}`;
}

/** Bytes of an IBV_MTU_* value. */
export function mtuBytes(mtu: number): number {
  return 128 << mtu;
}

/** The smallest IBV_MTU_* value of at least this many bytes, because a port may have an MTU in between. */
export function mtuCode(bytes: number): number {
  return Math.max(C.IBV_MTU_256, Math.ceil(Math.log2(bytes / 128)));
}
