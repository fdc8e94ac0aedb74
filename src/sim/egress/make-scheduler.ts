/** Creates the schedulers that a profile names. */
import type { NicParams } from '../profile/params.ts';
import { type ClassScheduler, SingleClass } from './class-scheduler.ts';
import { Ets } from './ets.ts';
import { FixedRound } from './fixed-round.ts';
import type { QpScheduler } from './qp-scheduler.ts';
import { TailRound } from './qp-scheduler.ts';
import { StrictPriority } from './strict-priority.ts';

/** Creates the scheduler of the queue pairs of a port, or of one of its classes. */
export type MakeQpScheduler = (params: Readonly<NicParams>) => QpScheduler;

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

export const qpSchedulerOf: MakeQpScheduler = ({ rrOrder }) =>
  rrOrder === 'fixed' ? new FixedRound() : new TailRound();
