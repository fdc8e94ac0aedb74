/** Justitia's experiment: a latency application (D) and a message-rate one (M), each alone and beside large messages. */

import { avgUs, mmps, p50Us, p99Us } from '../../mix/metrics.ts';
import { type Check, type Mix, mix, type Runs } from '../engine/claim.ts';
import { type Expectation, falls, ratio, reported, rises } from '../engine/expect.ts';

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

/** The factors of Justitia's figures 3 and 4, and what the median is that the first one is a factor of. */
export function factorsOfFigures(p50: number, p99: number, alone: string): Check[] {
  return [
    slower('median of the latency application to its median alone', p50Us, ratio(p50)),
    slower('its p99 to its p99 alone', p99Us, ratio(p99)),
    rarer('rate of the throughput application to its rate alone', falls(2.85)),
    {
      what: 'median of the latency application alone',
      unit: 'us',
      measure: (runs: Runs) => p50Us(runs.d, 'D'),
      expect: reported(alone),
    },
  ];
}
