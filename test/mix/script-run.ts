// Runs of scripts, and what their timelines say.
import { join } from 'node:path';
import { expect } from 'vitest';
import { jobOf } from '../../src/mix/jobs.ts';
import { mixApp } from '../../src/mix/mixture.ts';
import type { MixResult, Timeline } from '../../src/mix/result.ts';
import { runMix } from '../../src/mix/run.ts';

interface Options {
  readonly profile?: string;
  readonly policy?: string;
  readonly duration?: string;
  readonly seed?: number;
  readonly set?: Readonly<Record<string, string | number>>;
}

export const POINTS = 20;

/** A policy that requires of the ones inside it that each request completes once; see exactly-once.mjs. */
export const EXACTLY_ONCE = join(import.meta.dirname, 'exactly-once.mjs');

/** Runs a script with a timeline of 20 points, and requires that nothing fails or is lost. */
export async function run(
  at: readonly string[],
  apps: readonly string[],
  o: Options = {},
): Promise<MixResult> {
  const { profile = 'minimal', policy = 'none', duration = '10ms', seed = 1, set = {} } = o;
  const mix = { profile, policy, duration, set, warmup: '500us', at, apps: apps.map(mixApp) };
  const { spec, command } = jobOf(mix, seed);
  const result = await runMix({ ...spec, timelinePoints: POINTS, gauges: true });
  expect(result.invariants, command).toEqual([]);
  for (const { name, errors } of result.apps) expect(errors, `${command}: ${name}`).toBe(0);
  return result;
}

export function lineOf(result: MixResult, name: string): Timeline['apps'][number] {
  const found = result.timeline!.apps.find((one) => one.name === name);
  if (found === undefined) throw new Error(`no app ${name}`);
  return found;
}

/** A gauge of a tenant on host 0 over time; 0 while it is left out. */
export function gaugeOf(result: MixResult, tenant: string, name: string): readonly (number | null)[] {
  const found = result.timeline!.gauges!.find(
    (one) => one.device === 'sim0' && one.tenant === tenant && one.name === name,
  );
  return found?.values ?? Array(POINTS).fill(0);
}

/** By exactly-once.mjs: the completed and the outstanding signaled requests of a tenant. */
export function requestsOf(result: MixResult, tenant: string): { completed: number; outstanding: number } {
  const own = result.policyStates!.filter((one) => one.policy === 'exactly-once' && one.tenant === tenant);
  const sum = (key: 'kind' | 'does') => own.reduce((all, one) => all + Number(one[key]), 0);
  return { completed: sum('kind'), outstanding: sum('does') };
}

export const mean = (values: readonly number[]) => values.reduce((sum, one) => sum + one, 0) / values.length;
