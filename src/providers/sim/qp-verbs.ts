/** Queue pairs of simulated devices: creation, states, destruction. */

import { AGENT_TENANT } from '../../coordinator/agent.ts';
import type { Qp } from '../../sim/transport/qp.ts';
import { isDrained } from '../../sim/transport/request-start.ts';
import * as C from '../../verbs/constants.ts';
import { InvalidStateError, NoResourcesError } from '../../verbs/errors.ts';
import { gidToString } from '../../verbs/gid.ts';
import { mtuCode } from '../../verbs/names.ts';
import type { Provider } from '../../verbs/provider.ts';
import { checkModify, fieldsOf } from '../../verbs/qp-state.ts';
import type { QpAttr, QpCap, QpInitAttr } from '../../verbs/types.ts';
import { type HostNames, requireAddress } from './addresses.ts';
import { requireInteger, requireObject } from './arguments.ts';
import { LIMITS } from './limits.ts';
import { type Objects, type QpObject, requireNoChildren } from './objects.ts';
import { countChild, qpPartners } from './qp-partners.ts';
import { requireLimiter, requireRate } from './rate-verbs.ts';
import type { TimePump } from './time-pump.ts';

type QpVerbs = Pick<Provider, 'createQp' | 'modifyQp' | 'queryQp' | 'destroyQp'>;

const MAX_COUNT = 2 ** 31 - 1;

export function qpVerbs(pump: TimePump, objects: Objects, names: HostNames): QpVerbs {
  const { qps } = objects;
  const { sim } = pump;
  const alike = sharedCaps();

  return {
    createQp(pdHandle, attr) {
      requireObject('createQp', 'attr', attr);
      const partners = qpPartners(objects, pdHandle, attr);
      const cap = alike(grantedCap(attr.cap, attr.qpType, partners.srq !== null));
      if (qps.size >= LIMITS.maxQp)
        throw new NoResourcesError(`createQp: the device supports at most ${LIMITS.maxQp} queue pairs`);
      const { sqSigAll = false, managed = false, extended = false } = attr;
      const { context, pd, sendCq, recvCq, srq, xrcd } = partners;
      const qp = sim.createQp({
        host: context.host,
        pd: pd?.id ?? 0,
        cap,
        sendCq: sendCq?.cq,
        recvCq: recvCq?.cq,
        type: attr.qpType,
        srq: srq?.srq,
        xrcd: xrcd?.id,
        sqSigAll,
        managed,
        isAgent: context.tenant === AGENT_TENANT,
      });
      const object: QpObject = { ...partners, qp, extended, groups: 0 };
      qp.handle = qps.add(object);
      countChild(object, 1);
      return { handle: qp.handle, qpNum: qp.qpn, cap: { ...cap } };
    },
    modifyQp(handle, attr, mask) {
      const { qp } = qps.require(handle, 'modifyQp');
      requireObject('modifyQp', 'attr', attr);
      requireInteger('modifyQp', 'mask', mask, 0, MAX_COUNT);
      const to = checkModify(qp.type, qp.state, attr, mask);
      requireRanges(attr, mask, sim.world.hosts[qp.host].mtuBytes);
      requireDrained(qp, to, mask);
      if ((mask & C.IBV_QP_RATE_LIMIT) !== 0) {
        requireLimiter('modifyQp', qp, requireRate('modifyQp', attr.rateLimitKbps, sim), sim);
      }
      const destination = () => gidToString(requireAddress('modifyQp', 'ah', attr.ah));
      const isAddressed = (mask & C.IBV_QP_AV) !== 0;
      const peerHost = isAddressed ? names.hostOf(destination(), qp.host, 'modifyQp') : -1;
      sim.modifyQp(qp, fieldsOf(attr, mask & KEPT), mask, to, peerHost);
      pump.start();
    },
    queryQp(handle) {
      const object = qps.require(handle, 'queryQp');
      return { attr: attrOf(object.qp), init: initOf(object) };
    },
    destroyQp(handle) {
      const object = qps.require(handle, 'destroyQp');
      requireNoChildren('destroyQp', 'queue pair', [[object.groups, 'multicast group']]);
      sim.destroyQp(object.qp);
      countChild(object, -1);
      qps.delete(handle);
      pump.start();
    },
  };
}

/** Attributes as set, with the current state and PSNs. */
function attrOf(qp: Qp): QpAttr {
  return {
    ...qp.attr,
    qpState: qp.state,
    curQpState: qp.state,
    sqPsn: qp.sndPsn,
    rqPsn: qp.ePsn,
    ...(qp.state === C.IBV_QPS_SQD && { sqDraining: !isDrained(qp) }),
    cap: { ...qp.cap },
  };
}

/** Attributes at creation, with the granted capacities. */
function initOf({ qp, sendCq, recvCq, srq, xrcd, extended }: QpObject): QpInitAttr {
  return {
    qpType: qp.type,
    sendCq: sendCq?.cq.handle ?? 0,
    recvCq: recvCq?.cq.handle ?? 0,
    cap: { ...qp.cap },
    ...(srq !== null && { srq: srq.srq.handle }),
    ...(xrcd !== null && { xrcd: xrcd.handle }),
    ...(extended && { extended }),
    sqSigAll: qp.sqSigAll,
    managed: qp.managed,
  };
}

/**
 * Shares one object among consecutive queue pairs with equal capacities, since programs create thousands of
 * them.
 */
function sharedCaps(): (cap: QpCap) => QpCap {
  let last: QpCap | null = null;
  return (cap) => {
    const same = last !== null && CAP_FIELDS.every((name) => cap[name] === last?.[name]);
    if (!same) last = Object.freeze(cap);
    return last as QpCap;
  };
}

const CAP_FIELDS = ['maxSendWr', 'maxRecvWr', 'maxSendSge', 'maxRecvSge', 'maxInlineData'] as const;

/** Grants exactly the requested values, and zeros for queues that the type lacks. */
function grantedCap(cap: QpCap, qpType: number, shares: boolean): QpCap {
  const granted = askedCap(cap);
  if (qpType === C.IBV_QPT_XRC_RECV) granted.maxSendWr = granted.maxSendSge = granted.maxInlineData = 0;
  const ownReceives = qpType !== C.IBV_QPT_XRC_RECV && qpType !== C.IBV_QPT_XRC_SEND && !shares;
  if (!ownReceives) granted.maxRecvWr = granted.maxRecvSge = 0;
  return granted;
}

function askedCap(cap: QpCap): QpCap {
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
    throw new NoResourcesError(
      `createQp: cap.${name} is ${cap[name]}, but the device supports at most ${limit}`,
      {
        verb: 'createQp',
        errno: C.EINVAL,
      },
    );
  }
  const { maxSendWr, maxRecvWr, maxSendSge, maxRecvSge, maxInlineData } = cap;
  return { maxSendWr, maxRecvWr, maxSendSge, maxRecvSge, maxInlineData };
}

const RANGES: [field: keyof QpAttr, bit: number, min: number, max: number][] = [
  ['qpAccessFlags', C.IBV_QP_ACCESS_FLAGS, 0, 31],
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
  ['qkey', C.IBV_QP_QKEY, 0, 0xffffffff],
  ['enSqdAsyncNotify', C.IBV_QP_EN_SQD_ASYNC_NOTIFY, 0, 1],
];

/** In SQD, attributes may change only when the send queue is drained. */
function requireDrained(qp: Qp, to: number, mask: number): void {
  const attributes = mask & ~(C.IBV_QP_STATE | C.IBV_QP_CUR_STATE);
  if (qp.state !== C.IBV_QPS_SQD || to !== C.IBV_QPS_SQD || attributes === 0 || isDrained(qp)) return;
  throw new InvalidStateError(
    'modifyQp: SQD -> SQD: the send queue is not drained yet; wait for its completions or for IBV_EVENT_SQ_DRAINED',
    { verb: 'modifyQp', errno: C.EINVAL },
  );
}

function requireRanges(attr: QpAttr, mask: number, mtuBytes: number): void {
  for (const [field, bit, min, max] of RANGES) {
    if ((mask & bit) !== 0) requireInteger('modifyQp', field, attr[field], min, max);
  }
  if ((mask & C.IBV_QP_PATH_MTU) !== 0) {
    requireInteger('modifyQp', 'pathMtu', attr.pathMtu, C.IBV_MTU_256, mtuCode(mtuBytes));
  }
}

/** The attributes that a queue pair keeps as they were set. */
const KEPT = RANGES.reduce(
  (mask, [, bit]) => mask | bit,
  C.IBV_QP_PATH_MTU | C.IBV_QP_AV | C.IBV_QP_PATH_MIG_STATE | C.IBV_QP_RATE_LIMIT,
);
