import { test } from 'vitest';

/** The tags of a test. `npm test` runs it if `isShort`, otherwise `npm run test:long` does. */
export const tagsIf = (isShort: boolean): string[] => (isShort ? [] : ['long']);

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
    test.skipIf(skip)(title.replace('%s', value), { tags: tagsIf(i === 0), timeout }, () => run(value));
  }
}

type Cells<T> = T extends readonly unknown[] ? [...T] : [T];

/**
 * `test.each` of these cases. `npm test` runs the first `short` ones, and `npm run test:long` the others, which are
 * variations of them.
 */
export function eachShort<const T>(short: number, cases: readonly T[]) {
  return (title: string, run: (...cells: Cells<T>) => Promise<void> | void, timeout?: number): void => {
    const some = (from: readonly T[], isShort: boolean) => {
      const options = { tags: tagsIf(isShort), ...(timeout !== undefined && { timeout }) };
      test.each(from as readonly unknown[][])(title, options, run as (...cells: unknown[]) => void);
    };
    some(cases.slice(0, short), true);
    some(cases.slice(short), false);
  };
}
