/** Mixtures of claims and figures, written in the words of `isoverbs mix`. */
import { type Mix, type MixChange, mixApp } from '../../mix/mixture.ts';

/** Everything but the applications. */
export type MixOptions = Omit<MixChange, 'apps'>;

const SHORT = { duration: '5ms', warmup: '1ms' };

/** A mixture of 5 ms, the first of which is not measured, unless `more` says otherwise. */
export function mix(profile: string, apps: string | readonly string[], more: MixOptions = {}): Mix {
  const words = typeof apps === 'string' ? [apps] : apps;
  return { profile, apps: words.map(mixApp), ...SHORT, ...more };
}
