/** Runs of mixtures in words, and applications with their defaults. */
import { expect } from 'vitest';
import { parseApp, parsePolicy } from '../../src/mix/parse.ts';
import { type App, appsOf, paramsOf } from '../../src/mix/resolve.ts';
import type { MixResult } from '../../src/mix/result.ts';
import { runMix } from '../../src/mix/run.ts';
import { DEFAULTS, type MixSpec } from '../../src/mix/spec.ts';

/** Changes to the defaults of a mix; `use` is its policy in words. */
export type Changes = Partial<MixSpec> & { use?: string };

/** Runs a mix, which must break no invariant. */
export async function runApps(apps: string[], { use = 'none', ...changes }: Changes): Promise<MixResult> {
  const spec = { ...DEFAULTS, ...parsePolicy(use), ...changes, apps: apps.map(parseApp) };
  const result = await runMix(spec);
  expect(result.invariants).toEqual([]);
  return result;
}

/** An application with its defaults. */
export function resolve(text: string): App {
  const spec = { ...DEFAULTS, apps: [parseApp(text)] };
  return appsOf(spec, paramsOf(spec))[0];
}
