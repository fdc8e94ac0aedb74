/** The control verbs under `check`: they track objects, and report wrong transitions and wrong destroy orders. */
import * as C from '../../verbs/constants.ts';
import { IsoverbsError } from '../../verbs/errors.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { QpAttr } from '../../verbs/types.ts';
import type { Verbs } from '../../verbs/verbs.ts';
import type { Findings } from './findings.ts';
import { CheckedQp, type Ledger, WorkQueue } from './ledger.ts';

/** Verbs that fail while children of the object exist. */
const PARENT_DESTROYERS = [
  'closeDevice',
  'deallocPd',
  'closeXrcd',
  'destroyCq',
  'destroySrq',
  'destroyCompChannel',
] as const;

/** Other verbs that take an object's handle as their first argument. */
const HANDLE_VERBS = [
  'createGroup',
  'setGroup',
  'destroyGroup',
  'pollCq',
  'reqNotifyCq',
  'postSend',
  'postRecv',
  'postSrqRecv',
  'modifyQp',
  'queryQp',
] as const;

/** Calls a verb, reports the mistake behind an error, and rethrows the error. */
function reportMistake<T>(
  findings: Findings,
  ledger: Ledger,
  verb: string,
  subject: number,
  call: () => T,
): T {
  try {
    return call();
  } catch (error) {
    if (!(error instanceof IsoverbsError)) throw error;
    if (error.code === 'ISO_ERR_BUSY') findings.add('ISO_CHECK_DESTROY_ORDER', verb, subject, error.message);
    if (error.code === 'ISO_ERR_STATE') findings.add('ISO_CHECK_TRANSITION', verb, subject, error.message);
    if (error.code === 'ISO_ERR_HANDLE' && ledger.closed.has(subject)) {
      findings.add('ISO_CHECK_CLOSED', verb, subject, error.message);
    }
    throw error;
  }
}

/** Wraps the verbs whose errors reveal mistakes. */
export function watchedVerbs(next: Provider, ledger: Ledger, findings: Findings): Partial<Verbs> {
  const verbs: Record<string, unknown> = {};
  for (const verb of [...PARENT_DESTROYERS, ...HANDLE_VERBS]) {
    const call = next[verb] as (subject: number, ...rest: unknown[]) => unknown;
    const closes = (PARENT_DESTROYERS as readonly string[]).includes(verb);
    verbs[verb] = (subject: number, ...rest: unknown[]) => {
      const answer = reportMistake(findings, ledger, verb, subject, () => call(subject, ...rest));
      if (closes) ledger.closed.add(subject);
      return answer;
    };
  }
  return verbs as Partial<Verbs>;
}

/** The verbs that create, modify and destroy the objects in the ledger. */
export function ledgerVerbs(next: Provider, ledger: Ledger, findings: Findings): Partial<Verbs> {
  return { ...memoryVerbs(next, ledger, findings), ...queueVerbs(next, ledger, findings) };
}

function memoryVerbs(next: Provider, ledger: Ledger, findings: Findings): Partial<Verbs> {
  return {
    openDevice(name, options) {
      const context = next.openDevice(name, options);
      ledger.devices.set(context, next.queryDevice(context));
      return context;
    },
    allocPd(context) {
      const pd = next.allocPd(context);
      ledger.pds.set(pd, context);
      return pd;
    },
    allocMr(pd, lengthBytes, access) {
      const info = next.allocMr(pd, lengthBytes, access);
      ledger.addRegion(pd, info, access);
      return info;
    },
    regMr(pd, memory, byteOffset, lengthBytes, access) {
      const info = next.regMr(pd, memory, byteOffset, lengthBytes, access);
      ledger.addRegion(pd, info, access);
      return info;
    },
    regDmabufMr(pd, offsetBytes, lengthBytes, iova, fd, access) {
      const info = next.regDmabufMr(pd, offsetBytes, lengthBytes, iova, fd, access);
      ledger.addRegion(pd, info, access);
      return info;
    },
    reregMr(mr, change) {
      const info = next.reregMr(mr, change);
      const before = ledger.regions.get(mr);
      ledger.removeRegion(mr);
      ledger.addRegion(change.pd ?? before?.pd ?? 0, info, change.access ?? before?.access ?? 0);
      return info;
    },
    deregMr(mr) {
      const region = ledger.regions.get(mr);
      const named = [...ledger.outstanding()].filter(({ regions }) => regions.some((one) => one === region));
      if (region !== undefined && named.length > 0) {
        // Unsignaled requests may have completed without a trace.
        const severity = named.some(({ signaled }) => signaled) ? 'error' : 'warning';
        const text = `${named.length} requests name lkey 0x${region.info.lkey.toString(16)}`;
        findings.add('ISO_CHECK_MEMORY_BUSY', 'deregMr', mr, text, severity);
      }
      next.deregMr(mr);
      ledger.removeRegion(mr);
      ledger.closed.add(mr);
    },
    destroyAh(ah) {
      const named = [...ledger.outstanding()].filter((wr) => wr.ah === ah && wr.signaled);
      if (named.length > 0)
        findings.add('ISO_CHECK_AH_BUSY', 'destroyAh', ah, `${named.length} sends name it`);
      next.destroyAh(ah);
      ledger.closed.add(ah);
    },
  };
}

function queueVerbs(next: Provider, ledger: Ledger, findings: Findings): Partial<Verbs> {
  return {
    createCq(context, cqe, channel, options) {
      const info = next.createCq(context, cqe, channel, options);
      ledger.cqs.set(info.handle, { cqe: info.cqe, pending: 0 });
      return info;
    },
    resizeCq(cq, cqe) {
      const granted = next.resizeCq(cq, cqe);
      const known = ledger.cqs.get(cq);
      if (known !== undefined) known.cqe = granted;
      return granted;
    },
    createSrq(pd, attr) {
      const info = next.createSrq(pd, attr);
      ledger.srqs.set(info.handle, { pd, queue: new WorkQueue(undefined) });
      return info;
    },
    destroySrq(srq) {
      next.destroySrq(srq);
      ledger.srqs.delete(srq);
    },
    createQp(pd, attr) {
      const info = next.createQp(pd, attr);
      const init = { ...attr, cap: info.cap };
      const qp = new CheckedQp(
        info.handle,
        pd,
        init,
        ledger.cqs.get(attr.sendCq),
        ledger.cqs.get(attr.recvCq),
      );
      ledger.qps.set(info.handle, qp);
      return info;
    },
    modifyQp(handle, attr, mask) {
      next.modifyQp(handle, attr, mask);
      const qp = ledger.qps.get(handle);
      if (qp !== undefined) modified(ledger, findings, qp, attr, mask);
    },
    destroyQp(handle) {
      const qp = ledger.qps.get(handle);
      const left = qp?.live ? qp.sends.outstanding.length + qp.recvs.outstanding.length : 0;
      if (left > 0)
        findings.add('ISO_CHECK_QP_BUSY', 'destroyQp', handle, `${left} outstanding; call drain() first`);
      next.destroyQp(handle);
      qp?.sends.clear();
      qp?.recvs.clear();
      ledger.qps.delete(handle);
      ledger.closed.add(handle);
    },
  };
}

function modified(ledger: Ledger, findings: Findings, qp: CheckedQp, attr: QpAttr, mask: number): void {
  if ((mask & C.IBV_QP_STATE) !== 0 && attr.qpState !== undefined) qp.state = attr.qpState;
  if (qp.state === C.IBV_QPS_RESET) {
    qp.sends.clear();
    qp.recvs.clear();
  }
  const device = ledger.device(qp.pd);
  const limits: [name: 'maxRdAtomic' | 'maxDestRdAtomic', bit: number, most: number | undefined][] = [
    ['maxRdAtomic', C.IBV_QP_MAX_QP_RD_ATOMIC, device?.maxQpInitRdAtom],
    ['maxDestRdAtomic', C.IBV_QP_MAX_DEST_RD_ATOMIC, device?.maxQpRdAtom],
  ];
  for (const [name, bit, most = 255] of limits) {
    const value = attr[name];
    if ((mask & bit) === 0 || value === undefined) continue;
    if (name === 'maxRdAtomic') qp.maxRdAtomic = value;
    if (value > most)
      findings.add(
        'ISO_CHECK_RD_ATOMIC',
        'modifyQp',
        qp.handle,
        `${name} is ${value}; the device allows at most ${most}`,
      );
  }
}
