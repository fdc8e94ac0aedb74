/** Takes a queue pair of any type through INIT and RTR to RTS, on any provider. */
import * as V from '../../src/verbs/index.ts';

export const ALL_ACCESS =
  V.IBV_ACCESS_LOCAL_WRITE |
  V.IBV_ACCESS_REMOTE_WRITE |
  V.IBV_ACCESS_REMOTE_READ |
  V.IBV_ACCESS_REMOTE_ATOMIC;

/** Attributes of the transitions to RTS. Attributes that a transport does not have are omitted. */
export interface RtsOptions {
  /** IBV_QPT_*; default IBV_QPT_RC. */
  qpType?: number;
  /** Default: all access. */
  qpAccessFlags?: number;
  /** UD; default 0x11111111. */
  qkey?: number;
  /** Number of the peer's queue pair, and the path to it. Required, except for UD. */
  destQpNum?: number;
  ah?: V.AhAttr;
  /** Default IBV_MTU_1024. */
  pathMtu?: number;
  /** First PSN of both directions (default 0); the next two set one direction. */
  psn?: number;
  rqPsn?: number;
  sqPsn?: number;
  /** Default 4; maxDestRdAtomic as well. */
  maxRdAtomic?: number;
  maxDestRdAtomic?: number;
  /** Default 1: 10 us. */
  minRnrTimer?: number;
  /** Default 14: 67 ms. */
  timeout?: number;
  /** Default 7, for rnrRetry as well, where it means unlimited. */
  retryCnt?: number;
  rnrRetry?: number;
}

/** The address of a GID, from entry `sgidIndex` of the local port's table. */
export function pathTo(dgid: string, sgidIndex = 0): V.AhAttr {
  return { dgid, sgidIndex, portNum: 1, hopLimit: 64 };
}

/** RESET to INIT. */
export function initAttr({
  qpType,
  qpAccessFlags = ALL_ACCESS,
  qkey = 0x11111111,
}: RtsOptions = {}): V.QpAttr {
  const own = qpType === V.IBV_QPT_UD ? { qkey } : { qpAccessFlags };
  return { qpState: V.IBV_QPS_INIT, pkeyIndex: 0, portNum: 1, ...own };
}

/** INIT to RTR. */
export function rtrAttr(options: RtsOptions = {}): V.QpAttr {
  const { qpType = V.IBV_QPT_RC, destQpNum, ah, pathMtu = V.IBV_MTU_1024 } = options;
  const { psn = 0, rqPsn = psn, maxDestRdAtomic = 4, minRnrTimer = 1 } = options;
  if (qpType === V.IBV_QPT_UD) return { qpState: V.IBV_QPS_RTR };
  const isResponder = qpType === V.IBV_QPT_RC || qpType === V.IBV_QPT_XRC_RECV;
  return {
    qpState: V.IBV_QPS_RTR,
    pathMtu,
    destQpNum,
    rqPsn,
    ah,
    ...(isResponder && { maxDestRdAtomic, minRnrTimer }),
  };
}

/** RTR to RTS. */
export function rtsAttr(options: RtsOptions = {}): V.QpAttr {
  const { qpType = V.IBV_QPT_RC, psn = 0, sqPsn = psn, maxRdAtomic = 4 } = options;
  const { timeout = 14, retryCnt = 7, rnrRetry = 7 } = options;
  const isReliable = qpType !== V.IBV_QPT_UC && qpType !== V.IBV_QPT_UD;
  const isRequester = isReliable && qpType !== V.IBV_QPT_XRC_RECV;
  return {
    qpState: V.IBV_QPS_RTS,
    sqPsn,
    ...(isReliable && { timeout }),
    ...(isRequester && { retryCnt, rnrRetry, maxRdAtomic }),
  };
}

/** Moves a queue pair that is in RESET to RTS. */
export function toRts(verbs: Pick<V.Verbs, 'modifyQp'>, qp: number, options: RtsOptions): void {
  for (const attr of [initAttr(options), rtrAttr(options), rtsAttr(options)]) {
    verbs.modifyQp(qp, attr, V.maskOf(attr));
  }
}
