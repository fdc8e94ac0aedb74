/** Numbers on the command line. */
import { InvalidArgumentError } from 'commander';

/** @throws InvalidArgumentError unless the text is a number above 0 */
export function positive(text: string): number {
  const value = Number(text);
  if (!(value > 0 && Number.isFinite(value))) throw new InvalidArgumentError('It must be a number above 0.');
  return value;
}
