// Runs every command of docs/tutorial.md, in one shell, except `npm install`: the packages are linked instead. Needs a build.
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { MAIN } from '../support/main.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const TEXT = readFileSync(join(ROOT, 'docs/tutorial.md'), 'utf8');
const COMMANDS = [...TEXT.matchAll(/^```sh\n([\s\S]*?)^```/gm)].flatMap(([, block]) =>
  block.trim().split('\n'),
);

const folder = mkdtempSync(join(tmpdir(), 'isoverbs-tutorial-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** What `npm install` gives to a project: the packages, and the command in .bin. */
function linkPackages(project: string): void {
  const bin = join(project, 'node_modules/.bin');
  mkdirSync(bin, { recursive: true });
  symlinkSync(ROOT, join(project, 'node_modules/isoverbs'));
  symlinkSync(join(ROOT, 'node_modules/zod'), join(project, 'node_modules/zod'));
  const command = `#!/bin/sh\nexec '${process.execPath}' '${MAIN}' "$@"\n`;
  writeFileSync(join(bin, 'isoverbs'), command);
  chmodSync(join(bin, 'isoverbs'), 0o755);
}

test('every command of the tutorial runs, and prints what the page says', {
  timeout: 180_000,
  tags: ['long'],
}, () => {
  linkPackages(folder);
  mkdirSync(join(folder, 'my-store'));
  linkPackages(join(folder, 'my-store'));
  expect(COMMANDS.length).toBeGreaterThan(10);
  const script = COMMANDS.filter((line) => line !== 'npm install').flatMap((line) => [
    `echo '@@ ${line}'`,
    `${line} 2>&1 || echo "FAILED: $?"`,
  ]);
  const { NODE_TEST_CONTEXT, ISOVERBS_DEVICE, NODE_OPTIONS, ...inherited } = process.env;
  const env = { ...inherited, ISOVERBS_NO_ADDON: '1', ISOVERBS_LOG: '', npm_config_update_notifier: 'false' };
  const { stdout } = spawnSync('bash', ['-c', script.join('\n')], {
    cwd: folder,
    env,
    encoding: 'utf8',
    timeout: 170_000,
  });
  const said = new Map(
    stdout.split(/^@@ /m).map((part) => [part.split('\n')[0], part.split('\n').slice(1).join('\n')]),
  );
  expect(stdout).not.toContain('FAILED');
  expect([...said.keys()]).toEqual(expect.arrayContaining(COMMANDS.filter((line) => line !== 'npm install')));
  expect(said.get('npm start')).toContain('sim0 holds: hello');
  expect(said.get('npx isoverbs trace run.trace')).toMatch(/RDMA_WRITE|postSend/);
  const latencyUs = (options: string) => {
    const output = said.get(`npx isoverbs mix ${options}`) ?? '';
    return Number(/^D .*?(\d\.\d\d) +\d\.\d\d +\d\.\d\d/m.exec(output.split('avg us').pop() ?? '')?.[1]);
  };
  const run = '--duration 4ms --warmup 1ms';
  expect(latencyUs(`--app D ${run}`)).toBeCloseTo(1.1, 1);
  expect(latencyUs(`--app B:size=1MiB --app D ${run}`)).toBeCloseTo(5, 1);
  expect(latencyUs(`--app B:size=1MiB --app D ${run} --policy perf`)).toBeCloseTo(1.4, 1);
  expect(readFileSync(join(folder, 'my-store/report/report.html'), 'utf8')).toContain('perf-2b');
});
