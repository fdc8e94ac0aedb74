/** The objects that a queue pair of each type requires. */
import * as C from '../../verbs/constants.ts';
import { InvalidArgumentError, InvalidHandleError, shown } from '../../verbs/errors.ts';
import type { QpInitAttr } from '../../verbs/types.ts';
import {
  type CqObject,
  type Objects,
  type Pd,
  type QpObject,
  type SrqObject,
  sameContext,
} from './objects.ts';

type Partners = Pick<QpObject, 'context' | 'pd' | 'sendCq' | 'recvCq' | 'srq' | 'xrcd'>;

const TYPES = [C.IBV_QPT_RC, C.IBV_QPT_UC, C.IBV_QPT_UD, C.IBV_QPT_XRC_SEND, C.IBV_QPT_XRC_RECV];
const VERB = 'createQp';

/** @throws InvalidHandleError, InvalidArgumentError */
export function qpPartners(objects: Objects, pdHandle: number, attr: QpInitAttr): Partners {
  const { qpType } = attr;
  if (!TYPES.includes(qpType)) {
    throw new InvalidArgumentError(`createQp: qpType must be one of IBV_QPT_*, got ${shown(qpType)}`, {
      verb: VERB,
      errno: C.EINVAL,
    });
  }
  if (qpType === C.IBV_QPT_XRC_RECV) {
    const xrcd = objects.xrcds.require(attr.xrcd ?? 0, VERB);
    return { context: xrcd.context, pd: null, sendCq: null, recvCq: null, srq: null, xrcd };
  }
  const pd = objects.pds.require(pdHandle, VERB);
  const sendCq = ownCq(objects, 'sendCq', attr.sendCq, pd);
  const onlySends = qpType === C.IBV_QPT_XRC_SEND;
  const recvCq = onlySends && attr.recvCq === 0 ? sendCq : ownCq(objects, 'recvCq', attr.recvCq, pd);
  return { context: pd.context, pd, sendCq, recvCq, srq: sharedQueue(objects, attr, pd), xrcd: null };
}

function ownCq(objects: Objects, name: string, handle: number, pd: Pd): CqObject {
  const cq = objects.cqs.require(handle, VERB);
  sameContext(VERB, name, cq.context, pd.context);
  return cq;
}

function sharedQueue(objects: Objects, attr: QpInitAttr, pd: Pd): SrqObject | null {
  if (attr.srq === undefined || attr.srq === 0) return null;
  const srq = objects.srqs.require(attr.srq, VERB);
  sameContext(VERB, 'srq', srq.pd.context, pd.context);
  if (srq.xrcd !== null || attr.qpType === C.IBV_QPT_XRC_SEND) {
    throw new InvalidHandleError(
      'createQp: srq must be an IBV_SRQT_BASIC queue, and the queue pair must not be IBV_QPT_XRC_SEND; an XRC sender names an IBV_SRQT_XRC queue in its requests',
      { verb: VERB, errno: C.EINVAL },
    );
  }
  return srq;
}

/** Counts a queue pair as created (1) or destroyed (-1) in the objects it uses. */
export function countChild({ pd, sendCq, recvCq, srq, xrcd }: QpObject, change: 1 | -1): void {
  if (pd !== null) pd.qps += change;
  if (sendCq !== null) sendCq.qps += change;
  if (recvCq !== null && recvCq !== sendCq) recvCq.qps += change;
  if (srq !== null) srq.qps += change;
  if (xrcd !== null) xrcd.qps += change;
}
