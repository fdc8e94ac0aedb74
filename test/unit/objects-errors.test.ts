// docs/errors.md agrees with the table of errors.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import * as V from '../../src/verbs/index.ts';

const page = readFileSync(resolve(import.meta.dirname, '../../docs/errors.md'), 'utf8');
const unwrapped = (text: string) => text.replace(/\n(?!\n)/g, ' ');
const sections = new Map(
  page
    .split(/^## /m)
    .slice(1)
    .map((section) => [section.slice(0, section.indexOf('\n')), section]),
);

test('every code has its section, and there are no other sections', () => {
  const codes = Object.keys(V.ERRORS);
  expect([...sections.keys()].filter((title) => title.startsWith('ISO_'))).toEqual(codes);
});

test.each(Object.entries(V.ERRORS))('%s: class, meaning and advice', (code, { meaning, advice }) => {
  const error = V.makeError(code as V.ErrorCode, 'm', { verb: 'v', errno: 1 });
  expect(error).toBeInstanceOf(V.IsoverbsError);
  expect(error).toMatchObject({ code, name: error.constructor.name, verb: 'v', errno: 1, message: 'm' });
  const section = unwrapped(sections.get(code) as string);
  expect(section).toContain(`\`${error.name}\``);
  expect(section).toContain(meaning);
  expect(section).toContain(advice);
});
