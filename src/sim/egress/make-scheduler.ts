/** Creates the class scheduler that a profile names. */
import type { NicParams } from '../profile/params.ts';
import { type ClassScheduler, SingleClass } from './class-scheduler.ts';
import { Ets } from './ets.ts';
import { StrictPriority } from './strict-priority.ts';

export function schedulerOf(params: Readonly<NicParams>): ClassScheduler {
  switch (params.scheduler) {
    case 'sp':
      return new StrictPriority();
    case 'ets':
      return new Ets(params.etsWeights, params.mtuBytes);
    default:
      return new SingleClass();
  }
}
