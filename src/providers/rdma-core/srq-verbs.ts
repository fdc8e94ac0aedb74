/** Shared receive queues and XRC domains. */
import * as C from '../../verbs/constants.ts';
import { InvalidArgumentError, UnsupportedError } from '../../verbs/errors.ts';
import type { SrqAttr, SrqInfo, SrqInitAttr } from '../../verbs/types.ts';
import type { Verbs } from '../../verbs/verbs.ts';
import type { NativeVerbs } from './addon.ts';
import { handleOf, requireObject, requireWhole } from './check.ts';

const MAX_U32 = 0xffffffff;

function checkType(verb: string, srqType: number): void {
  if (srqType === C.IBV_SRQT_BASIC || srqType === C.IBV_SRQT_XRC) return;
  if (srqType === C.IBV_SRQT_TM) {
    throw new UnsupportedError(`${verb}: shared receive queues with tag matching are not supported`, {
      verb,
    });
  }
  throw new InvalidArgumentError(`${verb}: srqType must be one of IBV_SRQT_*, got ${String(srqType)}`, {
    verb,
  });
}

export function srqVerbs(native: NativeVerbs) {
  return {
    openXrcd: native.openXrcd,
    closeXrcd: native.closeXrcd,
    createSrq(pd: number, attr: SrqInitAttr): SrqInfo {
      const verb = 'createSrq';
      requireObject(verb, 'attr', attr);
      const { maxWr, maxSge, srqType = C.IBV_SRQT_BASIC } = attr;
      requireWhole(verb, 'maxWr', maxWr, 1, MAX_U32);
      requireWhole(verb, 'maxSge', maxSge, 0, MAX_U32);
      checkType(verb, srqType);
      if (srqType === C.IBV_SRQT_BASIC) return native.createSrq(pd, maxWr, maxSge, 0, 0);
      // Absent handles become -1, which the addon rejects by name.
      return native.createSrq(pd, maxWr, maxSge, handleOf(attr.xrcd), handleOf(attr.cq));
    },
    modifySrq(srq: number, attr: Partial<SrqAttr>, mask: number): void {
      const verb = 'modifySrq';
      requireObject(verb, 'attr', attr);
      requireWhole(verb, 'mask', mask, 1, C.IBV_SRQ_MAX_WR | C.IBV_SRQ_LIMIT);
      const maxWr = (mask & C.IBV_SRQ_MAX_WR) !== 0 ? attr.maxWr : 0;
      const srqLimit = (mask & C.IBV_SRQ_LIMIT) !== 0 ? attr.srqLimit : 0;
      requireWhole(verb, 'maxWr', maxWr, 0, MAX_U32);
      requireWhole(verb, 'srqLimit', srqLimit, 0, MAX_U32);
      native.modifySrq(srq, maxWr ?? 0, srqLimit ?? 0, mask);
    },
    querySrq: native.querySrq,
    destroySrq: native.destroySrq,
  } satisfies Partial<Verbs>;
}
