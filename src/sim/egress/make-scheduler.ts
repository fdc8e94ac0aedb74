/** Creates the schedulers that a profile names. */
import type { NicParams } from '../profile/params.ts';
import { type ClassScheduler, SingleClass } from './class-scheduler.ts';
import { Ets } from './ets.ts';
import { FixedRound } from './fixed-round.ts';
import type { NicWeights } from './palos/nic-weights.ts';
import { Palos } from './palos/palos-scheduler.ts';
import type { QpScheduler } from './qp-scheduler.ts';
import { TailRound } from './qp-scheduler.ts';
import { StrictPriority } from './strict-priority.ts';

/**
 * Creates the scheduler of the queue pairs of a port, or of one of its classes. `weights` are those of the port's NIC, if
 * its scheduler uses any.
 */
export type MakeQpScheduler = (params: Readonly<NicParams>, weights: NicWeights | null) => QpScheduler;

export function classSchedulerOf(params: Readonly<NicParams>): ClassScheduler {
  switch (params.scheduler) {
    case 'sp':
      return new StrictPriority();
    case 'ets':
      return new Ets(params.etsWeights, params.mtuBytes);
    default:
      return new SingleClass();
  }
}

export const qpSchedulerOf: MakeQpScheduler = (params, weights) => {
  if (weights !== null) return new Palos(params, weights);
  return params.rrOrder === 'fixed' ? new FixedRound() : new TailRound();
};
