/** Shared receive queues and XRC domains of simulated devices. */

import { postSrqRecv } from '../../sim/queues/post.ts';
import * as C from '../../verbs/constants.ts';
import { InvalidArgumentError, NoResourcesError, UnsupportedError } from '../../verbs/errors.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { SrqAttr, SrqInitAttr } from '../../verbs/types.ts';
import { inside, requireInteger, requireObject } from './arguments.ts';
import { LIMITS } from './limits.ts';
import {
  type Objects,
  type Pd,
  requireNoChildren,
  type SrqObject,
  sameContext,
  type Xrcd,
} from './objects.ts';
import type { TimePump } from './time-pump.ts';

type XrcdVerbs = Pick<Provider, 'openXrcd' | 'closeXrcd'>;
type SrqVerbs = Pick<Provider, 'createSrq' | 'modifySrq' | 'querySrq' | 'destroySrq' | 'postSrqRecv'>;

const MAX_COUNT = 2 ** 31 - 1;

export function xrcdVerbs(objects: Objects): XrcdVerbs {
  const { contexts, xrcds } = objects;
  let count = 0;
  return {
    openXrcd(handle) {
      const context = contexts.require(handle, 'openXrcd');
      count++;
      context.xrcds++;
      const xrcd: Xrcd = { handle: 0, context, id: count, qps: 0, srqs: 0 };
      xrcd.handle = xrcds.add(xrcd);
      return xrcd.handle;
    },
    closeXrcd(handle) {
      const xrcd = xrcds.require(handle, 'closeXrcd');
      requireNoChildren('closeXrcd', 'XRC domain', [
        [xrcd.qps, 'queue pair'],
        [xrcd.srqs, 'shared receive queue'],
      ]);
      xrcd.context.xrcds--;
      xrcds.delete(handle);
    },
  };
}

export function srqVerbs(pump: TimePump, objects: Objects): SrqVerbs {
  const { pds, srqs, wrRings } = objects;
  const { sim } = pump;
  return {
    createSrq(handle, attr) {
      const pd = pds.require(handle, 'createSrq');
      const { maxWr, maxSge } = requireSize(attr);
      const { xrcd, cq } = partners(objects, pd, attr);
      if (srqs.size >= LIMITS.maxSrq) {
        throw new NoResourcesError(
          `createSrq: the device supports at most ${LIMITS.maxSrq} shared receive queues`,
          {
            verb: 'createSrq',
            errno: C.ENOMEM,
          },
        );
      }
      const { host } = pd.context;
      const srq = sim.createSrq({ host, pd: pd.id, maxWr, maxSge, cq: cq?.cq ?? null, xrcd: xrcd?.id ?? 0 });
      const object: SrqObject = { pd, srq, xrcd, cq, qps: 0 };
      srq.handle = srqs.add(object);
      pd.srqs++;
      if (xrcd !== null) xrcd.srqs++;
      if (cq !== null) cq.srqs++;
      return { handle: srq.handle, maxWr, maxSge, srqNum: xrcd === null ? 0 : srq.number };
    },
    modifySrq(handle, attr, mask) {
      const { srq } = srqs.require(handle, 'modifySrq');
      requireChange(attr, mask);
      const maxWr = (mask & C.IBV_SRQ_MAX_WR) === 0 ? srq.queue.size : (attr.maxWr as number);
      const limit = (mask & C.IBV_SRQ_LIMIT) === 0 ? srq.limit : (attr.srqLimit as number);
      requireInteger('modifySrq', 'srqLimit (against maxWr)', limit, 0, maxWr);
      if (maxWr !== srq.queue.size && !srq.resize(maxWr)) {
        throw new InvalidArgumentError(
          `modifySrq: maxWr is ${maxWr}, but ${srq.waiting} receives are posted; wait until they are used`,
          { verb: 'modifySrq', errno: C.EINVAL },
        );
      }
      srq.limit = limit;
    },
    querySrq(handle) {
      const { srq } = srqs.require(handle, 'querySrq');
      return { maxWr: srq.queue.size, maxSge: srq.maxSge, srqLimit: srq.limit };
    },
    destroySrq(handle) {
      const { pd, srq, xrcd, cq, qps } = srqs.require(handle, 'destroySrq');
      requireNoChildren('destroySrq', 'shared receive queue', [[qps, 'queue pair']]);
      sim.destroySrq(srq);
      pd.srqs--;
      if (xrcd !== null) xrcd.srqs--;
      if (cq !== null) cq.srqs--;
      srqs.delete(handle);
    },
    postSrqRecv(handle, ring, start, count) {
      const { srq } = srqs.get(handle) ?? srqs.require(handle, 'postSrqRecv');
      const from = wrRings.get(ring) ?? wrRings.require(ring, 'postSrqRecv');
      if (!inside(from, start, count)) return 0;
      const posted = postSrqRecv(sim.world, srq, from, start, count);
      pump.start();
      return posted;
    },
  };
}

function requireSize(attr: SrqInitAttr): SrqInitAttr {
  requireObject('createSrq', 'attr', attr);
  requireInteger('createSrq', 'attr.maxWr', attr.maxWr, 1, MAX_COUNT);
  requireInteger('createSrq', 'attr.maxSge', attr.maxSge, 0, MAX_COUNT);
  for (const [name, value, limit] of [
    ['maxWr', attr.maxWr, LIMITS.maxQpWr],
    ['maxSge', attr.maxSge, LIMITS.maxSge],
  ] as const) {
    if (value <= limit) continue;
    throw new NoResourcesError(
      `createSrq: attr.${name} is ${value}, but the device supports at most ${limit}`,
      {
        verb: 'createSrq',
        errno: C.EINVAL,
      },
    );
  }
  return attr;
}

/** The XRC domain and completion queue: an XRC queue has both, any other queue neither. */
function partners(objects: Objects, pd: Pd, attr: SrqInitAttr): Pick<SrqObject, 'xrcd' | 'cq'> {
  const { srqType = C.IBV_SRQT_BASIC } = attr;
  if (srqType === C.IBV_SRQT_BASIC) return { xrcd: null, cq: null };
  if (srqType === C.IBV_SRQT_TM) {
    throw new UnsupportedError('createSrq: simulated devices do not support tag matching (IBV_SRQT_TM)', {
      verb: 'createSrq',
      errno: C.EOPNOTSUPP,
    });
  }
  requireInteger('createSrq', 'attr.srqType', srqType, C.IBV_SRQT_BASIC, C.IBV_SRQT_XRC);
  const xrcd = objects.xrcds.require(attr.xrcd ?? 0, 'createSrq');
  sameContext('createSrq', 'attr.xrcd', xrcd.context, pd.context);
  const cq = objects.cqs.require(attr.cq ?? 0, 'createSrq');
  sameContext('createSrq', 'attr.cq', cq.context, pd.context);
  return { xrcd, cq };
}

function requireChange(attr: Partial<SrqAttr>, mask: number): void {
  requireObject('modifySrq', 'attr', attr);
  requireInteger('modifySrq', 'mask', mask, 0, C.IBV_SRQ_MAX_WR | C.IBV_SRQ_LIMIT);
  if ((mask & C.IBV_SRQ_MAX_WR) !== 0) requireInteger('modifySrq', 'maxWr', attr.maxWr, 1, LIMITS.maxQpWr);
  if ((mask & C.IBV_SRQ_LIMIT) !== 0)
    requireInteger('modifySrq', 'srqLimit', attr.srqLimit, 0, LIMITS.maxQpWr);
}
