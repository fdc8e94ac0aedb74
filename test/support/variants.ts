import { test } from 'vitest';

/**
 * Declares a test for each value, which stands for %s in the title. `npm test` runs that of the first value, and
 * `npm run test:long` those of the others.
 */
export function variants<T extends string>(
  title: string,
  values: readonly T[],
  run: (value: T) => Promise<void> | void,
  { timeout = 30_000, skip = false } = {},
): void {
  for (const [i, value] of values.entries()) {
    const tags = i === 0 ? [] : ['long'];
    test.skipIf(skip)(title.replace('%s', value), { tags, timeout }, () => run(value));
  }
}
