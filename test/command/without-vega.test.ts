// Commands that draw, where the optional packages vega and vega-lite are not installed. Needs a build.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { MAIN } from '../support/main.ts';
import { eachShort } from '../support/variants.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const folder = mkdtempSync(join(tmpdir(), 'isoverbs-without-vega-'));
afterAll(() => rmSync(folder, { recursive: true }));

const asUrl = (code: string) => `data:text/javascript,${encodeURIComponent(code)}`;

/** Makes Node.js behave as if vega were not installed. */
const HOOK = asUrl(`export async function resolve(name, context, next) {
  if (/^vega(-lite)?$/.test(name)) throw Object.assign(new Error('no ' + name), { code: 'ERR_MODULE_NOT_FOUND' });
  return next(name, context);
}`);
const WITHOUT_VEGA = asUrl(`import { register } from 'node:module'; register(${JSON.stringify(HOOK)});`);

function isoverbs(line: string) {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--import', WITHOUT_VEGA, MAIN, ...line.split(' ')],
    { cwd: ROOT, encoding: 'utf8', timeout: 60_000, env: { ...process.env, ISOVERBS_LOG: '' } },
  );
  return { code: status, out: stdout, err: stderr };
}

eachShort(1, [
  ['mix --app D --plot', 'plot'],
  ['compare --svg', 'svg'],
  ['compare --random 2 --svg', 'svg'],
  ['demo --svg', 'svg'],
  ['drum solve examples/drum/two-hosts.yaml --svg', '--svg'],
])('%s is refused before the run, and leaves files alone', (line, option) => {
  const expected = {
    code: 1,
    out: '',
    err: `isoverbs: ${option}: the optional packages vega and vega-lite are not installed; install them with: npm install vega vega-lite (ISO_ERR_UNSUPPORTED)\n`,
  };
  const picture = join(folder, 'new.svg');
  expect(isoverbs(`${line} ${picture}`)).toEqual(expected);
  expect(existsSync(picture)).toBe(false);
  const old = join(folder, 'old.svg');
  writeFileSync(old, 'an older picture');
  expect(isoverbs(`${line} ${old}`)).toEqual(expected);
  expect(readFileSync(old, 'utf8')).toBe('an older picture');
});

test('reproduce says before the runs that its report will have no pictures, and writes it', {
  tags: ['long'],
}, () => {
  const out = join(folder, 'report');
  const { code, err } = isoverbs(`reproduce --figure drum-4a --seeds 1 --out ${out}`);
  expect({ code, err }).toEqual({
    code: 0,
    err: 'isoverbs: the report will have tables, but no pictures: the optional packages vega and vega-lite are not installed; install them with: npm install vega vega-lite\n',
  });
  expect(readdirSync(out).sort()).toEqual(['report.html', 'report.json', 'report.md', 'runs']);
  expect(readFileSync(join(out, 'report.html'), 'utf8')).toContain('There are no pictures');
});
