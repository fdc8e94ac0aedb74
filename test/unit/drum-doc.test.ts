// docs/policies/drum.md describes every option of the policy, with its default, and which of them are fixed.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import { drumOptions, FIXED } from '../../src/policies/drum/options.ts';

const page = readFileSync(resolve(import.meta.dirname, '../../docs/policies/drum.md'), 'utf8');
const [, section] = /\n## Options\n([\s\S]*?)\n## /.exec(page)!;
const rows = [...section.matchAll(/^\| `(\w+)` \| (.*?) \| .+ \|$/gm)];

test('docs/policies/drum.md has a row for each option', () => {
  expect(rows.map(([, name]) => name)).toEqual(Object.keys(drumOptions.shape));
});

test('docs/policies/drum.md has the defaults of options that have one', () => {
  const defaults = drumOptions.parse({}) as Record<string, unknown>;
  for (const [, name, value] of rows)
    if (defaults[name] !== undefined) expect(value, name).toBe(`${defaults[name]}`);
});

test('docs/policies/drum.md names the options that cannot change', () => {
  const names = new Intl.ListFormat('en-GB').format(FIXED.map((name) => `\`${name}\``));
  expect(section).toContain(`${names} cannot change`);
});
