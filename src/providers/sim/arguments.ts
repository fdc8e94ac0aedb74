/** Checks of arguments. Each message names the verb, the argument and the expected value. */

import type { WrRing } from '../../sim/queues/post.ts';
import { EINVAL } from '../../verbs/constants.ts';
import { ConfigError, InvalidArgumentError, shown } from '../../verbs/errors.ts';
import { HDR_ERRNO, HDR_REASON, REASON_RANGE, within } from '../../verbs/layout.ts';

export function requireInteger(verb: string, name: string, value: unknown, min: number, max: number): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value;
  throw new InvalidArgumentError(
    `${verb}: ${name} must be an integer from ${min} to ${max}, got ${shown(value)}`,
    { verb },
  );
}

export function requireObject(verb: string, name: string, value: unknown): void {
  if (typeof value === 'object' && value !== null) return;
  throw new InvalidArgumentError(`${verb}: ${name} must be an object, got ${shown(value)}`, { verb });
}

/** Requires a function, or null for none. */
export function requireListener(verb: string, listener: unknown): void {
  if (listener === null || typeof listener === 'function') return;
  throw new InvalidArgumentError(`${verb}: listener must be a function or null, got ${shown(listener)}`, {
    verb,
  });
}

/** A count in words, such as 'a completion queue' or '3 queue pairs'. */
export function countOf(n: number, one: string): string {
  return n === 1 ? `a ${one}` : `${n} ${one}s`;
}

/** Whether the slots lie inside the ring. If not, sets errno and reason in the ring's header. */
export function inside(ring: WrRing, start: number, count: number): boolean {
  if (within(ring.capacity, start, count)) return true;
  ring.words[HDR_ERRNO] = EINVAL;
  ring.words[HDR_REASON] = REASON_RANGE;
  return false;
}

/** The size and seed of the fabric of this process, from its environment. @throws ConfigError that names the variable */
export function simulatedDevices(): { hosts: number; seed: number } {
  return {
    hosts: fromEnv('ISOVERBS_SIM_HOSTS', 2, 1, 4096),
    seed: fromEnv('ISOVERBS_SEED', 1, 0, 2 ** 53),
  };
}

function fromEnv(name: string, otherwise: number, min: number, max: number): number {
  const text = process.env[name];
  if (text === undefined || text === '') return otherwise;
  const value = Number(text);
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  throw new ConfigError(`${name} must be an integer from ${min} to ${max}, got '${text}'`);
}
