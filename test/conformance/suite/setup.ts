/** The setup of a case, and the attributes of its queue pairs. */
import * as V from '../../../src/verbs/index.ts';
import type { ConnectOptions } from '../../verbs/rig.ts';

export type Transport = 'RC' | 'UC' | 'UD' | 'XRC';
export type SideName = 'a' | 'b';

export interface Setup extends Pick<ConnectOptions, 'retryCnt' | 'rnrRetry' | 'timeout' | 'mtu'> {
  transport?: Transport;
  pairs?: number;
  sigAll?: boolean;
  cap?: Partial<V.QpCap>;
  extended?: boolean;
  /** End b receives from a shared queue of this depth. */
  srq?: number;
  /** Receives posted at b, at each queue pair or in the shared queue. Default 8. */
  recvs?: number;
  /** Access flags of the region and the queue pairs at end b. */
  mrAccess?: number;
  qpAccess?: number;
  /** Whether queue pairs are created and left in RESET. */
  unconnected?: boolean;
  /** Whether completion queues have channels. */
  channels?: boolean;
  cqe?: number;
  cqOptions?: V.CqOptions;
  managed?: boolean;
}

const CAP: V.QpCap = { maxSendWr: 16, maxRecvWr: 16, maxSendSge: 4, maxRecvSge: 2, maxInlineData: 64 };
const NO_CAP: V.QpCap = { maxSendWr: 0, maxRecvWr: 0, maxSendSge: 0, maxRecvSge: 0, maxInlineData: 0 };

/** XRC: the domain at b. SRQ: the shared queue at b. 0: none. */
export interface Shared {
  srq: number;
  xrcd: number;
}

/** Attributes of the queue pairs of one side. */
export function initOf(
  setup: Setup,
  side: SideName,
  { srq, xrcd }: Shared,
  managed = setup.managed === true,
): Partial<V.QpInitAttr> {
  const { cap, sigAll = false, transport = 'RC', extended = false } = setup;
  const init = { sqSigAll: sigAll, cap: { ...CAP, ...cap }, extended, managed: managed && side === 'a' };
  const noReceives = { ...init.cap, maxRecvWr: 0, maxRecvSge: 0 };
  if (transport === 'XRC') {
    if (side === 'a') return { ...init, qpType: V.IBV_QPT_XRC_SEND, recvCq: 0, cap: noReceives };
    return { qpType: V.IBV_QPT_XRC_RECV, sendCq: 0, recvCq: 0, cap: NO_CAP, xrcd };
  }
  const qpType = { RC: V.IBV_QPT_RC, UC: V.IBV_QPT_UC, UD: V.IBV_QPT_UD }[transport];
  return side === 'b' && srq !== 0 ? { ...init, qpType, srq, cap: noReceives } : { ...init, qpType };
}
