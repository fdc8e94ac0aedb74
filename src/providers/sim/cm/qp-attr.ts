/** rdma_init_qp_attr(3): the attributes for modifyQp of a queue pair that belongs to an identifier. */
import * as C from '../../../verbs/constants.ts';
import { InvalidStateError } from '../../../verbs/errors.ts';
import { mtuCode } from '../../../verbs/names.ts';
import { stateName } from '../../../verbs/qp-state.ts';
import type { AhAttr, QpAttr } from '../../../verbs/types.ts';
import { LIMITS } from '../limits.ts';
import type { CmId } from './objects.ts';

/** Acknowledgement timeout: 4.096 us * 2^14 = 67 ms. */
const ACK_TIMEOUT = 14;

/** @throws InvalidStateError when the state needs a peer that is not known yet */
export function qpAttrOf(id: CmId, qpState: number, path: { mtuBytes: number; ah: AhAttr }): QpAttr {
  const datagram = id.portSpace === C.RDMA_PS_UDP;
  if (qpState === C.IBV_QPS_INIT) {
    const common = { qpState, pkeyIndex: 0, portNum: 1 };
    return datagram ? { ...common, qkey: C.RDMA_UDP_QKEY } : { ...common, qpAccessFlags: accessOf(id) };
  }
  if (datagram) return qpState === C.IBV_QPS_RTR ? { qpState } : { qpState, sqPsn: 0 };
  const { remotePsn, remoteParam } = id;
  if (remotePsn < 0 || remoteParam === null) {
    throw new InvalidStateError(
      `initQpAttr: ${stateName(qpState)} requires a known peer; call it after CONNECT_REQUEST or CONNECT_RESPONSE`,
      { verb: 'initQpAttr', errno: C.EINVAL },
    );
  }
  // The passive side decides how many READs each side may have outstanding: at most what its device supports.
  const agreed = lesser(id, remoteParam);
  if (qpState === C.IBV_QPS_RTR) {
    return {
      qpState,
      pathMtu: mtuCode(path.mtuBytes),
      destQpNum: remoteParam.qpNum,
      rqPsn: id.psn,
      ah: path.ah,
      maxDestRdAtomic: agreed.responderResources,
      minRnrTimer: 0,
    };
  }
  return {
    qpState,
    sqPsn: remotePsn,
    timeout: ACK_TIMEOUT,
    retryCnt: (id.localParam ?? remoteParam).retryCount,
    rnrRetry: remoteParam.rnrRetryCount,
    maxRdAtomic: agreed.initiatorDepth,
  };
}

function accessOf(id: CmId): number {
  const param = id.remoteParam ?? id.localParam;
  if (param === null) return 0;
  const reads = param.responderResources > 0 ? C.IBV_ACCESS_REMOTE_READ | C.IBV_ACCESS_REMOTE_ATOMIC : 0;
  return C.IBV_ACCESS_REMOTE_WRITE | reads;
}

function lesser(id: CmId, remoteParam: NonNullable<CmId['remoteParam']>) {
  const localParam = id.localParam ?? remoteParam;
  const { maxQpRdAtom } = LIMITS;
  return {
    responderResources: Math.min(localParam.responderResources, remoteParam.responderResources, maxQpRdAtom),
    initiatorDepth: Math.min(localParam.initiatorDepth, remoteParam.initiatorDepth, maxQpRdAtom),
  };
}
