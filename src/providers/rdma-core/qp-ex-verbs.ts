/** Verbs of queue pairs that few devices have. */
import { IBV_WR_SEND_WITH_INV } from '../../verbs/constants.ts';
import type { Ece, QpRateLimit, Verbs } from '../../verbs/provider.ts';
import type { NativeVerbs } from './addon.ts';
import { object, whole } from './check.ts';

const U32 = 0xffffffff;

export function qpExVerbs(native: NativeVerbs) {
  return {
    modifyQpRateLimit(qp: number, limit: QpRateLimit): void {
      const verb = 'modifyQpRateLimit';
      object(verb, 'limit', limit);
      const { rateLimitKbps, maxBurstBytes = 0, typicalPktBytes = 0 } = limit;
      whole(verb, 'rateLimitKbps', rateLimitKbps, 0, U32);
      whole(verb, 'maxBurstBytes', maxBurstBytes, 0, U32);
      whole(verb, 'typicalPktBytes', typicalPktBytes, 0, 0xffff);
      native.modifyQpRateLimit(qp, rateLimitKbps, maxBurstBytes, typicalPktBytes);
    },
    queryQpDataInOrder(qp: number, opcode: number, flags: number): number {
      whole('queryQpDataInOrder', 'opcode', opcode, 0, IBV_WR_SEND_WITH_INV);
      whole('queryQpDataInOrder', 'flags', flags, 0, 1);
      return native.queryQpDataInOrder(qp, opcode, flags);
    },
    queryEce: native.queryEce,
    setEce(qp: number, ece: Ece): void {
      object('setEce', 'ece', ece);
      whole('setEce', 'vendorId', ece.vendorId, 0, U32);
      whole('setEce', 'options', ece.options, 0, U32);
      native.setEce(qp, ece.vendorId, ece.options);
    },
  } satisfies Partial<Verbs>;
}
