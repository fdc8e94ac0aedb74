/** The traps of `npm run test:mutations` match the source, and name existing cases. */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import { cases } from '../conformance/cases/index.ts';
import { candidates } from './mutants.ts';
import { edited, traps } from './traps.ts';

const root = resolve(import.meta.dirname, '../..');
const source = (file: string) => readFileSync(resolve(root, file), 'utf8');

test('there are fourteen traps', () => {
  expect(traps.map(({ trap }) => trap)).toEqual(Array.from({ length: 14 }, (_, i) => i + 1));
});

test.each(traps)('trap $trap: $what', ({ edits, caughtBy }) => {
  for (const edit of edits) expect(edited(source(edit[0]), edit)).not.toBe(source(edit[0]));
  expect(caughtBy === undefined || cases.some(({ name }) => name.includes(caughtBy))).toBe(true);
});

test('every random mutant is a different program', () => {
  const text =
    'export function f(a: number): number {\n  if (a < 1 && a > 0) a += 2;\n  g(a);\n  return a;\n}\n';
  const found = candidates('f.ts', text).map(
    ({ start, end, to }) => text.slice(0, start) + to + text.slice(end),
  );
  expect(new Set(found).size).toBe(found.length);
  expect(found).toContain(text.replace('a < 1', 'a <= 1'));
  expect(found).toContain(text.replace('g(a);', ';'));
  expect(found).not.toContain(text);
});
