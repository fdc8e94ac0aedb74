/** Justitia's experiment: a latency application (D) and a message-rate one (M), each alone and beside large messages. */
import { type Check, type Mix, mix, type Runs } from './claim.ts';
import { type Expectation, falls, rises } from './expect.ts';
import { avgUs, mmps } from './metrics.ts';

const D = 'D:size=16,think=1us';
const M = 'M:size=16,batch=64';

/** The runs `d`, `bd`, `m` and `bm`; `more` is of all of them. */
export function besideB(profile: string, b: string, more: Partial<Mix> = {}): Record<string, Mix> {
  const long = { duration: '20ms', ...more };
  return {
    d: mix(profile, D, more),
    bd: mix(profile, [b, D], long),
    m: mix(profile, M, more),
    bm: mix(profile, [b, M], long),
  };
}

/** A latency of D beside B to that alone. */
export function slower(what: string, us: typeof avgUs, expect: Expectation): Check {
  return { what, unit: 'x', measure: (runs: Runs) => us(runs.bd, 'D') / us(runs.d, 'D'), expect };
}

/** The rate of M beside B to that alone. */
export function rarer(what: string, expect: Expectation): Check {
  return { what, unit: 'x', measure: (runs: Runs) => mmps(runs.bm, 'M') / mmps(runs.m, 'M'), expect };
}

/** Both anomalies are there, whatever their size. */
export const ANOMALIES: readonly Check[] = [
  slower('latency of D beside B to its latency alone', avgUs, rises()),
  rarer('rate of M beside B to its rate alone', falls()),
];
