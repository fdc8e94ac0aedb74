/** Tenants with weights under fair. */

import { share } from '../../mix/metrics.ts';
import type { Check, Claim } from '../engine/claim.ts';
import { compared } from '../engine/compared.ts';
import { closedForm } from '../engine/expect.ts';
import { mix } from '../engine/mix.ts';
import { boundLines, checksOf, D, GOAL, POLICIES, PROFILE, WITH_D } from './lines.ts';

const WEIGHTS = [1, 2, 4];
/** Where a weight changes: of the tenant of weight 1, 1 ms before the end of the warm-up. */
const CHANGED = [4, 2, 4];
const CHANGE = { at: [`1ms:set B1 weight=${CHANGED[0]}`], duration: '6ms', warmup: '2ms' };
const SLACK = 0.02;

const APPS = [...WEIGHTS.map((weight) => `B:name=B${weight},weight=${weight}`), D];

function sharesOf(name: string, weights: readonly number[]): Check[] {
  const all = weights.reduce((sum, weight) => sum + weight, 0);
  return WEIGHTS.flatMap((original, i) =>
    checksOf({
      name,
      what: `${name}: share of B${original} in the payload of all B`,
      unit: '',
      expect: closedForm(weights[i] / all, SLACK),
      measure: (run) => share(run, `B${original}`) / (1 - share(run, 'D')),
    }),
  );
}

const FIXED = 'weights 1, 2 and 4';
const LATER = 'weights 4, 2 and 4 after a change';

const weights: Claim = {
  id: 'tenant-weights',
  system: 'fair',
  part: 4,
  title: 'Three tenants B with weights alongside D',
  source: `${GOAL}: shares by weight within 2 %; D as alongside one B`,
  shows: [],
  note: 'Rates that are guaranteed to tenants are not checked: mixtures can limit rates, but not guarantee them.',
  mixes: { ...compared(POLICIES, FIXED, APPS), [`${FIXED} alone D`]: mix(PROFILE, D) },
  checks: [...sharesOf(FIXED, WEIGHTS), ...boundLines(FIXED, { ...WITH_D, gbps: undefined })],
};

const weightOfTenant: Claim = {
  id: 'weight-of-tenant',
  system: 'fair',
  part: 4,
  title: 'The weight of one of three tenants B changes from 1 to 4 while they run',
  source: `${GOAL}: within 1 ms, shares follow the new weights within 2 %`,
  shows: [],
  note: 'Measuring starts 1 ms after the change.',
  smoke: true,
  mixes: compared(POLICIES, LATER, APPS, CHANGE),
  checks: sharesOf(LATER, CHANGED),
};

export const CLAIMS: readonly Claim[] = [weights, weightOfTenant];
