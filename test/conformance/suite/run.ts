/** Runs a case once without interceptors, and compares each chain with that. */
import { compose, type Interceptor } from '../../../src/shim/compose.ts';
import type { Ground } from '../../verbs/ground.ts';
import { type Case, compact } from './case.ts';
import { Scene, type Trace } from './scene.ts';

export interface Outcome {
  readonly trace: Trace;
  /** Completions of each settle(). */
  readonly counts: readonly number[];
}

export async function play(
  one: Case,
  ground: Ground,
  chain: readonly Interceptor[],
  planned: readonly number[] | null,
): Promise<Outcome> {
  const provider = compose(ground.provider, chain);
  const scene = new Scene({ ...ground, provider }, one.setup, planned);
  await one.run(scene);
  return { trace: compact(await scene.finish()), counts: scene.counts };
}
