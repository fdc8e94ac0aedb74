/** The forms of Palos: as a scheduler in the NIC, as a policy on a NIC without it, and the bare device. */

import type { Mix } from '../../mix/mixture.ts';
import type { MixResult } from '../../mix/result.ts';
import { PROFILES } from '../../sim/profile/profiles.ts';
import { type Check, FORMS, type Form, type Runs } from '../engine/claim.ts';
import { closedForm, type Expectation } from '../engine/expect.ts';
import { type MixOptions, mix } from '../engine/mix.ts';
import type { Packets } from './closed-form.ts';

const PROFILE = 'cx5-100g';
const MTU_BYTES = 1500;
const { headerBytes, rethBytes, linkGbps } = PROFILES[PROFILE];

/** The packets of the device. */
export const PACKETS: Packets = { mtuBytes: MTU_BYTES, headerBytes, rethBytes };
/** Bytes on the wire per microsecond. */
export const LINK_BYTES_PER_US = linkGbps * 125;
/** The sizes of small messages in fig. 7. */
export const SIZES = [256, 512, 1024, 2048, 4096];
export const LARGE_BYTES = 2e6;

/** Options of Palos, which both forms have. */
export interface PalosOptions {
  readonly sums?: 'configured' | 'active';
}

/** How a mixture runs in a form. */
function changeOf(form: Form, { sums }: PalosOptions): MixOptions {
  if (form === 'bare') return {};
  if (form === 'software') return { policy: sums === undefined ? 'palos' : `palos:sums=${sums}` };
  return { set: { scheduler: 'palos', ...(sums !== undefined && { palosSums: sums }) } };
}

/** A mixture on the device of section V. */
export function flows(apps: string | readonly string[], more: MixOptions = {}): Mix {
  return mix(PROFILE, apps, { ...more, set: { mtuBytes: MTU_BYTES, pcieGbps: 128, ...more.set } });
}

/** The same in a form. */
export function flowsIn(
  form: Form,
  apps: string | readonly string[],
  more: MixOptions = {},
  options: PalosOptions = {},
): Mix {
  const change = changeOf(form, options);
  return flows(apps, { ...more, ...change, set: { ...more.set, ...change.set } });
}

/** A mixture for each form: `NAME hardware`, `NAME software`, `NAME bare`. */
export function inForms(
  name: string,
  apps: string | readonly string[],
  more: MixOptions = {},
  forms: readonly Form[] = FORMS,
): Record<string, Mix> {
  return Object.fromEntries(forms.map((form) => [`${name} ${form}`, flowsIn(form, apps, more)]));
}

/** The result of a mixture of inForms() in the form that a check measures. */
export type Named = (name: string) => MixResult;

/** A check for each form that has an expectation. */
export function inEach(
  what: Pick<Check, 'what' | 'at' | 'unit'>,
  expect: Partial<Readonly<Record<Form, Expectation>>>,
  measure: (named: Named, runs: Runs) => number,
): Check[] {
  return FORMS.flatMap((form) => {
    const expected = expect[form];
    if (expected === undefined) return [];
    const named = (runs: Runs) => (name: string) => runs[`${name} ${form}`];
    return [{ ...what, form, expect: expected, measure: (runs: Runs) => measure(named(runs), runs) }];
  });
}

/** The same expectation for both forms of Palos. */
export const both = (expected: Expectation) => ({ hardware: expected, software: expected });

/** A share in closed form: within 1 % in hardware, and within 3 % in software. */
export const share1or3 = (value: number) => ({
  hardware: closedForm(value, 0.01),
  software: closedForm(value, 0.03),
});

/** Labels of an application: one tenant, in which each group has a weight. */
export const inGroup = (group: string, groupWeight?: number) =>
  `tenant=t,group=${group}${groupWeight === undefined ? '' : `,groupWeight=${groupWeight}`}`;

/** Large flows, each an application of one queue pair. */
export const large = (labels: string, count = 1) => `B:name=large,size=2MB,count=${count},${labels}`;
/** 16 small flows. */
export const small = (bytes: number, labels: string) => `M:name=small,size=${bytes},qps=16,${labels}`;
