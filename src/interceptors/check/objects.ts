/** The control verbs under `check`: who is of whom, and whether things are moved and destroyed in order. */
import * as C from '../../verbs/constants.ts';
import { IsoverbsError } from '../../verbs/errors.ts';
import type { Provider, QpAttr, Verbs } from '../../verbs/provider.ts';
import { type Books, CheckedQp, WorkQueue } from './books.ts';
import type { Findings } from './findings.ts';

/** What has to wait for its children. */
const PARENTS = [
  'closeDevice',
  'deallocPd',
  'closeXrcd',
  'destroyCq',
  'destroySrq',
  'destroyCompChannel',
] as const;

/** Verbs that name one object first. */
const NAMING = [
  'pollCq',
  'reqNotifyCq',
  'postSend',
  'postRecv',
  'postSrqRecv',
  'modifyQp',
  'queryQp',
] as const;

/** Calls a verb; the mistake that its error tells of is found, and the error goes on. */
function watched<T>(findings: Findings, books: Books, verb: string, subject: number, call: () => T): T {
  try {
    return call();
  } catch (error) {
    if (!(error instanceof IsoverbsError)) throw error;
    if (error.code === 'ISO_ERR_BUSY') findings.add('ISO_CHECK_DESTROY_ORDER', verb, subject, error.message);
    if (error.code === 'ISO_ERR_STATE') findings.add('ISO_CHECK_TRANSITION', verb, subject, error.message);
    if (error.code === 'ISO_ERR_HANDLE' && books.closed.has(subject)) {
      findings.add('ISO_CHECK_CLOSED', verb, subject, error.message);
    }
    throw error;
  }
}

/** Puts `watched` around the verbs whose errors tell of mistakes. */
export function watching(next: Provider, books: Books, findings: Findings): Partial<Verbs> {
  const verbs: Record<string, unknown> = {};
  for (const verb of [...PARENTS, ...NAMING]) {
    const call = next[verb] as (subject: number, ...rest: unknown[]) => unknown;
    const closes = (PARENTS as readonly string[]).includes(verb);
    verbs[verb] = (subject: number, ...rest: unknown[]) => {
      const answer = watched(findings, books, verb, subject, () => call(subject, ...rest));
      if (closes) books.closed.add(subject);
      return answer;
    };
  }
  return verbs as Partial<Verbs>;
}

/** The verbs that make and destroy what the books are about. */
export function bookkeeping(next: Provider, books: Books, findings: Findings): Partial<Verbs> {
  return { ...memoryVerbs(next, books, findings), ...queueVerbs(next, books, findings) };
}

function memoryVerbs(next: Provider, books: Books, findings: Findings): Partial<Verbs> {
  return {
    openDevice(name, options) {
      const context = next.openDevice(name, options);
      books.devices.set(context, next.queryDevice(context));
      return context;
    },
    allocPd(context) {
      const pd = next.allocPd(context);
      books.pds.set(pd, context);
      return pd;
    },
    allocMr(pd, lengthBytes, access) {
      const info = next.allocMr(pd, lengthBytes, access);
      books.addRegion(pd, info, access);
      return info;
    },
    regMr(pd, memory, byteOffset, lengthBytes, access) {
      const info = next.regMr(pd, memory, byteOffset, lengthBytes, access);
      books.addRegion(pd, info, access);
      return info;
    },
    regDmabufMr(pd, offsetBytes, lengthBytes, iova, fd, access) {
      const info = next.regDmabufMr(pd, offsetBytes, lengthBytes, iova, fd, access);
      books.addRegion(pd, info, access);
      return info;
    },
    reregMr(mr, change) {
      const info = next.reregMr(mr, change);
      const before = books.regions.get(mr);
      books.removeRegion(mr);
      books.addRegion(change.pd ?? before?.pd ?? 0, info, change.access ?? before?.access ?? 0);
      return info;
    },
    deregMr(mr) {
      const region = books.regions.get(mr);
      const named = [...books.outstanding()].filter(({ regions }) => regions.some((one) => one === region));
      if (region !== undefined && named.length > 0) {
        // Of unsignaled ones nobody knows; they may well be done.
        const severity = named.some(({ signaled }) => signaled) ? 'error' : 'warning';
        const text = `${named.length} name the region with lkey 0x${region.info.lkey.toString(16)}`;
        findings.add('ISO_CHECK_MEMORY_BUSY', 'deregMr', mr, text, severity);
      }
      next.deregMr(mr);
      books.removeRegion(mr);
      books.closed.add(mr);
    },
    destroyAh(ah) {
      const named = [...books.outstanding()].filter((wr) => wr.ah === ah && wr.signaled);
      if (named.length > 0)
        findings.add('ISO_CHECK_AH_BUSY', 'destroyAh', ah, `${named.length} sends name it`);
      next.destroyAh(ah);
      books.closed.add(ah);
    },
  };
}

function queueVerbs(next: Provider, books: Books, findings: Findings): Partial<Verbs> {
  return {
    createCq(context, cqe, channel, options) {
      const info = next.createCq(context, cqe, channel, options);
      books.cqs.set(info.handle, { cqe: info.cqe, owed: 0 });
      return info;
    },
    resizeCq(cq, cqe) {
      const granted = next.resizeCq(cq, cqe);
      const known = books.cqs.get(cq);
      if (known !== undefined) known.cqe = granted;
      return granted;
    },
    createSrq(pd, attr) {
      const info = next.createSrq(pd, attr);
      books.srqs.set(info.handle, { pd, queue: new WorkQueue(undefined) });
      return info;
    },
    destroySrq(srq) {
      next.destroySrq(srq);
      books.srqs.delete(srq);
    },
    createQp(pd, attr) {
      const info = next.createQp(pd, attr);
      const init = { ...attr, cap: info.cap };
      const qp = new CheckedQp(info.handle, pd, init, books.cqs.get(attr.sendCq), books.cqs.get(attr.recvCq));
      books.qps.set(info.handle, qp);
      return info;
    },
    modifyQp(handle, attr, mask) {
      next.modifyQp(handle, attr, mask);
      const qp = books.qps.get(handle);
      if (qp !== undefined) modified(books, findings, qp, attr, mask);
    },
    destroyQp(handle) {
      const qp = books.qps.get(handle);
      const left = qp?.live ? qp.sends.outstanding.length + qp.recvs.outstanding.length : 0;
      if (left > 0)
        findings.add('ISO_CHECK_QP_BUSY', 'destroyQp', handle, `${left} of them; drain() it first`);
      next.destroyQp(handle);
      qp?.sends.clear();
      qp?.recvs.clear();
      books.qps.delete(handle);
      books.closed.add(handle);
    },
  };
}

function modified(books: Books, findings: Findings, qp: CheckedQp, attr: QpAttr, mask: number): void {
  if ((mask & C.IBV_QP_STATE) !== 0 && attr.qpState !== undefined) qp.state = attr.qpState;
  if (qp.state === C.IBV_QPS_RESET) {
    qp.sends.clear();
    qp.recvs.clear();
  }
  const device = books.device(qp.pd);
  const limits: [name: 'maxRdAtomic' | 'maxDestRdAtomic', bit: number, most: number | undefined][] = [
    ['maxRdAtomic', C.IBV_QP_MAX_QP_RD_ATOMIC, device?.maxQpInitRdAtom],
    ['maxDestRdAtomic', C.IBV_QP_MAX_DEST_RD_ATOMIC, device?.maxQpRdAtom],
  ];
  for (const [name, bit, most = 255] of limits) {
    const value = attr[name];
    if ((mask & bit) === 0 || value === undefined) continue;
    if (name === 'maxRdAtomic') qp.maxRdAtomic = value;
    if (value > most)
      findings.add('ISO_CHECK_RD_ATOMIC', 'modifyQp', qp.handle, `${name} ${value}, at most ${most}`);
  }
}
