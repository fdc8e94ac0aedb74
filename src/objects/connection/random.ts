import { randomInt } from 'node:crypto';
import type { Provider } from '../../verbs/index.ts';

/** A random integer below `below`, from the provider where it has one, so that a replay repeats the recorded numbers. */
export function randomBelow(provider: Provider, below: number): number {
  return provider.random?.(below) ?? randomInt(below);
}
