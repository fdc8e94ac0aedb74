import { IBV_QPS_RTS } from '../../verbs/constants.ts';
import type { QpAttr } from '../../verbs/types.ts';
import { SENDING } from '../resource-keeper.ts';

/** The path of a queue pair of the application in `state`, for internal ones next to it. */
export function pathOf(attr: QpAttr, state: number): QpAttr {
  // In RTR, the application has not chosen yet how it sends.
  return state < IBV_QPS_RTS ? { ...attr, ...SENDING, maxRdAtomic: attr.maxDestRdAtomic } : attr;
}
