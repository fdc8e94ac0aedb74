// docs/policies/tassel.md describes every option of the policy, with its default.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import { tasselOptions } from '../../../src/policies/tassel/options.ts';

test('docs/policies/tassel.md has a row for each option, with its default', () => {
  const page = readFileSync(resolve(import.meta.dirname, '../../../docs/policies/tassel.md'), 'utf8');
  const [, section] = /\n## Options\n([\s\S]*?)\n## /.exec(page)!;
  const rows = [...section.matchAll(/^\| `(\w+)` \| (.*?) \| .+ \|$/gm)];
  expect(rows.map(([, name]) => name)).toEqual(Object.keys(tasselOptions.shape));
  const defaults = tasselOptions.parse({}) as Record<string, unknown>;
  for (const [, name, value] of rows) {
    const preset = defaults[name];
    if (preset !== undefined) expect(value, name).toBe(typeof preset === 'object' ? 'none' : `${preset}`);
  }
});
