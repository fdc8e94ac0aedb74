/** Checks of verb arguments with exact messages for users; the addon's own checks follow. */
import { InvalidArgumentError, shown } from '../../verbs/errors.ts';

/** @throws InvalidArgumentError if the value is not an object */
export function requireObject(verb: string, name: string, value: unknown): void {
  if (typeof value === 'object' && value !== null) return;
  throw new InvalidArgumentError(`${verb}: ${name} must be an object, got ${shown(value)}`, { verb });
}

/** @throws InvalidArgumentError if the value is not a whole number from `min` to `max` */
export function requireWhole(verb: string, name: string, value: unknown, min: number, max: number): void {
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return;
  throw new InvalidArgumentError(
    `${verb}: ${name} must be a whole number from ${min} to ${max}, got ${shown(value)}`,
    { verb },
  );
}

/**
 * Maps anything that is not a handle to -1, which is never a handle, so that conversion cannot turn it into one. 0 is
 * kept, because it means no object.
 */
export function handleOf(value: unknown): number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < 2 ** 31 ? value : -1;
}
