/** What a person may get wrong in the arguments of a verb, said exactly; the addon's own checks come after. */
import { InvalidArgumentError, shown } from '../../verbs/errors.ts';

/** @throws InvalidArgumentError for what is no object */
export function object(verb: string, name: string, value: unknown): void {
  if (typeof value === 'object' && value !== null) return;
  throw new InvalidArgumentError(`${verb}: ${name} must be an object, got ${shown(value)}`, { verb });
}

/** @throws InvalidArgumentError for what is no whole number from `min` to `max` */
export function whole(verb: string, name: string, value: unknown, min: number, max: number): void {
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return;
  throw new InvalidArgumentError(
    `${verb}: ${name} must be a whole number from ${min} to ${max}, got ${shown(value)}`,
    { verb },
  );
}

/** What is no handle must not become one by conversion: -1, which none is. 0 stays, where it means none. */
export function handleOf(value: unknown): number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < 2 ** 31 ? value : -1;
}
