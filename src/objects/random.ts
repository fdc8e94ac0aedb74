import { randomInt } from 'node:crypto';
import type { Provider } from '../verbs/index.ts';

/** A random whole number below `below`: the provider's, so that a replayed program meets the recorded ones. */
export function randomBelow(provider: Provider, below: number): number {
  return provider.random?.(below) ?? randomInt(below);
}
