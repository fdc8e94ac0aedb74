/** Verbs of queue pairs that few devices support. */
import { IBV_WR_SEND_WITH_INV } from '../../verbs/constants.ts';
import type { Ece, QpRateLimit } from '../../verbs/types.ts';
import type { Verbs } from '../../verbs/verbs.ts';
import type { NativeVerbs } from './addon.ts';
import { requireObject, requireWhole } from './check.ts';

const U32 = 0xffffffff;

export function qpExVerbs(native: NativeVerbs) {
  return {
    modifyQpRateLimit(qp: number, limit: QpRateLimit): void {
      const verb = 'modifyQpRateLimit';
      requireObject(verb, 'limit', limit);
      const { rateLimitKbps, maxBurstBytes = 0, typicalPktBytes = 0 } = limit;
      requireWhole(verb, 'rateLimitKbps', rateLimitKbps, 0, U32);
      requireWhole(verb, 'maxBurstBytes', maxBurstBytes, 0, U32);
      requireWhole(verb, 'typicalPktBytes', typicalPktBytes, 0, 0xffff);
      native.modifyQpRateLimit(qp, rateLimitKbps, maxBurstBytes, typicalPktBytes);
    },
    queryQpDataInOrder(qp: number, opcode: number, flags: number): number {
      requireWhole('queryQpDataInOrder', 'opcode', opcode, 0, IBV_WR_SEND_WITH_INV);
      requireWhole('queryQpDataInOrder', 'flags', flags, 0, 1);
      return native.queryQpDataInOrder(qp, opcode, flags);
    },
    queryEce: native.queryEce,
    setEce(qp: number, ece: Ece): void {
      requireObject('setEce', 'ece', ece);
      requireWhole('setEce', 'vendorId', ece.vendorId, 0, U32);
      requireWhole('setEce', 'options', ece.options, 0, U32);
      native.setEce(qp, ece.vendorId, ece.options);
    },
  } satisfies Partial<Verbs>;
}
