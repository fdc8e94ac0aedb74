/** What fair is to do on hosts whose cores are late or stand still: the link stays busy, and D is not delayed further. */

import { avgUs, gbps } from '../../mix/metrics.ts';
import type { MixResult } from '../../mix/result.ts';
import { PROFILES } from '../../sim/profile/profiles.ts';
import type { Check, Claim, Runs } from '../engine/claim.ts';
import { atLeast, atMost } from '../engine/expect.ts';
import { type MixOptions, mix } from '../engine/mix.ts';
import { wirePerByte } from '../palos/closed-form.ts';
import { alongside, checksOf, D, GOAL, PROFILE, WITH_D } from './lines.ts';

const { linkGbps } = PROFILES[PROFILE];
/** The payload that the link carries in messages of B. */
const CAPACITY_GBPS = linkGbps / wirePerByte(2 ** 20, PROFILES[PROFILE]);
const LEAST_OF_LINK = 0.9;
const MOST_US = 1.5 * WITH_D.avgUs;

/** Enough messages for the longest time without a poll: the link carries 12 of them in a millisecond. */
const B = 'B:depth=32';

const linkLine = (name: string): Check[] =>
  checksOf({
    name,
    what: `${name}: bandwidth of B, relative to the capacity of the link`,
    unit: 'x',
    expect: atLeast(LEAST_OF_LINK),
    alone: 'B',
    measure: (run) => gbps(run, 'B') / CAPACITY_GBPS,
  });

/** Every poll that finds nothing keeps the core for this time, and timers of policies fire as late. */
const late = (time: string): MixOptions => ({ set: { pollMissNs: time, timerLateNs: time } });

const LATE: Readonly<Record<string, MixOptions>> = {
  'polls on time': {},
  'polls late by up to 15 us': late('15us'),
  'polls late by up to 1 ms': { ...late('1ms'), duration: '40ms', warmup: '10ms' },
};
const PROMPT = 'D on time';

/** The average latency of D, with what late polls add to that of D alone taken off. */
function withoutOwnPolls(name: string, run: MixResult, runs: Runs): number {
  return avgUs(run, 'D') - avgUs(runs[`${name} alone D`], 'D') + avgUs(runs[PROMPT], 'D');
}

const latePolls: Claim = {
  id: 'late-polls',
  system: 'fair',
  part: 5,
  title: 'B and D on hosts whose cores poll late',
  source: `${GOAL}: 0.9 of the link, and 1.5 times 1.4 us`,
  shows: [],
  note:
    'All cores of a host are equally late, also that of D. What late polls add to the latency of D alone on a bare device ' +
    'is therefore taken off. A delay of D that ends before its next poll does not show.',
  mixes: Object.assign(
    { [PROMPT]: mix(PROFILE, D) },
    ...Object.entries(LATE).map(([name, more]) => alongside(name, [B, D], more)),
  ),
  checks: Object.keys(LATE).flatMap((name) => [
    ...linkLine(name),
    ...checksOf({
      name,
      what: `${name}: average latency of D, without what its own late polls add`,
      unit: 'us',
      expect: atMost(MOST_US),
      alone: 'D',
      measure: (run, runs) => withoutOwnPolls(name, run, runs),
    }),
  ]),
};

const STALLED = '15 us in every 100 us';
const RUN_US = 6000;
const PERIOD_US = 100;
const STALLS: MixOptions = {
  at: Array.from({ length: RUN_US / PERIOD_US }, (_, i) => `${i * PERIOD_US + 50}us:stall 0 15us`),
  duration: `${RUN_US}us`,
  warmup: '1ms',
};

const stalls: Claim = {
  id: 'stalls',
  system: 'fair',
  part: 5,
  title: 'B and D on a host that stands still for 15 us in every 100 us',
  source: `${GOAL}: 0.9 of the link, and 1.5 times 1.4 us`,
  shows: [],
  note: 'D stands still, too, which adds to its latency on the bare device as well.',
  mixes: alongside(STALLED, [B, D], STALLS),
  checks: [
    ...linkLine(STALLED),
    ...checksOf({
      name: STALLED,
      what: `${STALLED}: average latency of D`,
      unit: 'us',
      expect: atMost(MOST_US),
      alone: 'D',
      measure: (run) => avgUs(run, 'D'),
    }),
  ],
};

export const CLAIMS: readonly Claim[] = [latePolls, stalls];
