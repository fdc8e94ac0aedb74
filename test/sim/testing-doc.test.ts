/** docs/testing.md shows the files that the tests run. */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

test('the code in docs/testing.md is that of examples/testing', () => {
  const blocks = [...read('docs/testing.md').matchAll(/```js\n(.*?)```/gs)].map((match) => match[1].trim());
  const files = ['examples/testing/remote-log.mjs', 'examples/testing/remote-log.test.ts'];
  expect(blocks).toEqual(files.map((file) => read(file).replace('// @ts-nocheck\n', '').trim()));
});
