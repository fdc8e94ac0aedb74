/** Queue pairs of simulated devices: creation, states, destruction. */
import * as C from '../../verbs/constants.ts';
import {
  InvalidArgumentError,
  InvalidStateError,
  NoResourcesError,
  UnsupportedError,
} from '../../verbs/errors.ts';
import { gidToBytes, gidToString } from '../../verbs/gid.ts';
import type { AhAttr, Provider, QpAttr, QpCap, QpInitAttr } from '../../verbs/provider.ts';
import { checkModify, stateName } from '../../verbs/qp-state.ts';
import { requireInteger, requireObject } from './arguments.ts';
import type { Driver } from './driver.ts';
import { gidOf, LIMITS } from './limits.ts';
import { type CqObject, type Objects, type Pd, type QpObject, sameContext } from './objects.ts';

type QpVerbs = Pick<Provider, 'createQp' | 'modifyQp' | 'queryQp' | 'destroyQp'>;

const MAX_COUNT = 2 ** 31 - 1;

export function qpVerbs(driver: Driver, objects: Objects): QpVerbs {
  const { pds, cqs, qps } = objects;
  const { sim } = driver;
  const hostByGid = new Map(sim.net.hosts.map(({ index }) => [gidOf(index), index]));

  return {
    createQp(pdHandle, attr) {
      const pd = pds.require(pdHandle, 'createQp');
      requireObject('createQp', 'attr', attr);
      requireRc(attr.qpType);
      const sendCq = ownCq('sendCq', cqs.require(attr.sendCq, 'createQp'), pd);
      const recvCq = ownCq('recvCq', cqs.require(attr.recvCq, 'createQp'), pd);
      const cap = grantedCap(attr.cap);
      if (qps.size >= LIMITS.maxQp)
        throw new NoResourcesError(`createQp: the device has ${LIMITS.maxQp} at most`);
      const { sqSigAll = false, managed = false } = attr;
      const { host } = pd.context;
      const qp = sim.createQp({
        host,
        pd: pd.id,
        cap,
        sendCq: sendCq.cq,
        recvCq: recvCq.cq,
        sqSigAll,
        managed,
      });
      const init: QpInitAttr = { ...attr, sqSigAll, managed, cap };
      const object: QpObject = { pd, qp, init, sendCq, recvCq };
      qp.handle = qps.add(object);
      pd.qps.add(object);
      sendCq.qps.add(object);
      recvCq.qps.add(object);
      return { handle: qp.handle, qpNum: qp.qpn, cap: { ...cap } };
    },
    modifyQp(handle, attr, mask) {
      const { qp } = qps.require(handle, 'modifyQp');
      requireObject('modifyQp', 'attr', attr);
      requireInteger('modifyQp', 'mask', mask, 0, MAX_COUNT);
      const to = checkModify(C.IBV_QPT_RC, qp.state, attr, mask);
      requireRanges(attr, mask, sim.net.params.mtuBytes);
      if ((mask & C.IBV_QP_CUR_STATE) !== 0 && attr.curQpState !== qp.state) {
        const text = `curQpState is ${stateName(attr.curQpState ?? -1)}, but the queue pair is in ${stateName(qp.state)}`;
        throw new InvalidStateError(`modifyQp: ${text}`, { verb: 'modifyQp', errno: C.EINVAL });
      }
      const peerHost = (mask & C.IBV_QP_AV) === 0 ? -1 : (hostByGid.get(destination(attr.ah)) ?? -1);
      sim.modifyQp(qp, maskedAttr(attr, mask), mask, to, peerHost);
      driver.wake();
    },
    queryQp(handle) {
      const { qp, init } = qps.require(handle, 'queryQp');
      const attr: QpAttr = {
        ...qp.attr,
        qpState: qp.state,
        curQpState: qp.state,
        sqPsn: qp.sndPsn,
        rqPsn: qp.ePsn,
        cap: { ...qp.cap },
      };
      return { attr, init: { ...init, cap: { ...init.cap } } };
    },
    destroyQp(handle) {
      const object = qps.require(handle, 'destroyQp');
      sim.destroyQp(object.qp);
      object.pd.qps.delete(object);
      object.sendCq.qps.delete(object);
      object.recvCq.qps.delete(object);
      qps.delete(handle);
      driver.wake();
    },
  };
}

function requireRc(qpType: number): void {
  if (qpType === C.IBV_QPT_RC) return;
  if (qpType === C.IBV_QPT_UC || qpType === C.IBV_QPT_UD) {
    throw new UnsupportedError('createQp: simulated devices have reliable connections (IBV_QPT_RC) only', {
      verb: 'createQp',
      errno: C.EOPNOTSUPP,
    });
  }
  throw new InvalidArgumentError(`createQp: qpType must be one of IBV_QPT_*, got ${String(qpType)}`, {
    verb: 'createQp',
  });
}

function ownCq(name: string, cq: CqObject, pd: Pd): CqObject {
  sameContext('createQp', name, cq.context, pd.context);
  return cq;
}

/** Everything that may be asked for is granted exactly. */
function grantedCap(cap: QpCap): QpCap {
  requireObject('createQp', 'cap', cap);
  const limits: [keyof QpCap, number][] = [
    ['maxSendWr', LIMITS.maxQpWr],
    ['maxRecvWr', LIMITS.maxQpWr],
    ['maxSendSge', LIMITS.maxSge],
    ['maxRecvSge', LIMITS.maxSge],
    ['maxInlineData', LIMITS.maxInlineData],
  ];
  for (const [name, limit] of limits) {
    requireInteger('createQp', `cap.${name}`, cap[name], 0, MAX_COUNT);
    if (cap[name] <= limit) continue;
    throw new NoResourcesError(`createQp: cap.${name} is ${cap[name]}, the device has ${limit} at most`, {
      verb: 'createQp',
      errno: C.EINVAL,
    });
  }
  const { maxSendWr, maxRecvWr, maxSendSge, maxRecvSge, maxInlineData } = cap;
  return { maxSendWr, maxRecvWr, maxSendSge, maxRecvSge, maxInlineData };
}

/** The GID that an address leads to, in canonical text. */
function destination(ah: AhAttr | undefined): string {
  requireObject('modifyQp', 'ah', ah);
  const { dgid, portNum = 1, sgidIndex = 0 } = ah as AhAttr;
  requireInteger('modifyQp', 'ah.portNum', portNum, 1, 1);
  requireInteger('modifyQp', 'ah.sgidIndex', sgidIndex, 0, 1);
  if (typeof dgid === 'string') return gidToString(gidToBytes(dgid));
  throw new InvalidArgumentError('modifyQp: ah.dgid is missing; RoCE has no LID routing', {
    verb: 'modifyQp',
    errno: C.EINVAL,
  });
}

const RANGES: [field: keyof QpAttr, bit: number, min: number, max: number][] = [
  ['qpAccessFlags', C.IBV_QP_ACCESS_FLAGS, 0, 15],
  ['pkeyIndex', C.IBV_QP_PKEY_INDEX, 0, 0],
  ['portNum', C.IBV_QP_PORT, 1, 1],
  ['timeout', C.IBV_QP_TIMEOUT, 0, 31],
  ['retryCnt', C.IBV_QP_RETRY_CNT, 0, 7],
  ['rnrRetry', C.IBV_QP_RNR_RETRY, 0, 7],
  ['rqPsn', C.IBV_QP_RQ_PSN, 0, 0xffffff],
  ['sqPsn', C.IBV_QP_SQ_PSN, 0, 0xffffff],
  ['maxRdAtomic', C.IBV_QP_MAX_QP_RD_ATOMIC, 0, LIMITS.maxQpRdAtom],
  ['maxDestRdAtomic', C.IBV_QP_MAX_DEST_RD_ATOMIC, 0, LIMITS.maxQpRdAtom],
  ['minRnrTimer', C.IBV_QP_MIN_RNR_TIMER, 0, 31],
  ['destQpNum', C.IBV_QP_DEST_QPN, 0, 0xffffff],
];

function requireRanges(attr: QpAttr, mask: number, mtuBytes: number): void {
  for (const [field, bit, min, max] of RANGES) {
    if ((mask & bit) !== 0) requireInteger('modifyQp', field, attr[field], min, max);
  }
  if ((mask & C.IBV_QP_PATH_MTU) !== 0) {
    requireInteger('modifyQp', 'pathMtu', attr.pathMtu, C.IBV_MTU_256, Math.log2(mtuBytes / 128));
  }
}

const FIELDS: [field: keyof QpAttr, bit: number][] = [
  ...RANGES.map(([field, bit]): [keyof QpAttr, number] => [field, bit]),
  ['pathMtu', C.IBV_QP_PATH_MTU],
  ['ah', C.IBV_QP_AV],
  ['pathMigState', C.IBV_QP_PATH_MIG_STATE],
  ['enSqdAsyncNotify', C.IBV_QP_EN_SQD_ASYNC_NOTIFY],
];

/** A copy of the fields that the mask names. */
function maskedAttr(attr: QpAttr, mask: number): QpAttr {
  const named = FIELDS.filter(([, bit]) => (mask & bit) !== 0).map(([field]) => [field, attr[field]]);
  return Object.fromEntries(named);
}
