// The projects that `isoverbs init` writes, with this package in their node_modules. Needs a build.
// @module-tag wide
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterEach, expect, test } from 'vitest';

const ROOT = resolve(import.meta.dirname, '../..');
const MAIN = join(ROOT, 'dist/cli/main.js');
const TIMEOUT = { timeout: 120_000 };

const folder = mkdtempSync(join(tmpdir(), 'isoverbs-init-'));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function run(command: string, args: readonly string[], cwd: string) {
  const env = { ...process.env, ISOVERBS_NO_ADDON: '1', ISOVERBS_LOG: '', NODE_OPTIONS: '', NODE_PATH: '' };
  // A run within another test run would report to it.
  const { NODE_TEST_CONTEXT, ISOVERBS_DEVICE, ...rest } = env as NodeJS.ProcessEnv;
  const child = spawnSync(command, args, { cwd, env: rest, encoding: 'utf8', timeout: 100_000 });
  return { code: child.status, out: child.stdout, err: child.stderr };
}
const node = (args: readonly string[], cwd: string) => run(process.execPath, args, cwd);

const LANGUAGES: [string, string[], string[]][] = [
  ['JavaScript', [], []],
  ['TypeScript', ['--typescript'], ['long']],
];
for (const [language, words, tags] of LANGUAGES) {
  test(`a project in ${language} runs, and its tests pass`, { ...TIMEOUT, tags }, () => runs(words));
}

function runs(words: readonly string[]): void {
  const project = join(folder, 'My_Store');
  mkdirSync(folder, { recursive: true });
  const written = node([MAIN, 'init', 'My_Store', ...words], folder);
  expect(written).toMatchObject({ code: 0, err: '' });
  expect(written.out).toContain('cd My_Store && npm install');
  const manifest = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8'));
  expect(manifest).toMatchObject({ name: 'my-store', type: 'module' });
  mkdirSync(join(project, 'node_modules/@types'), { recursive: true });
  const packages = Object.keys({ ...manifest.dependencies, ...manifest.devDependencies });
  for (const name of packages) {
    symlinkSync(
      name === 'isoverbs' ? ROOT : join(ROOT, 'node_modules', name),
      join(project, 'node_modules', name),
    );
  }
  const start = words.length === 0 ? 'main.js' : 'dist/main.js';
  if (words.length > 0) {
    const compiled = node([join(ROOT, 'node_modules/typescript/bin/tsc')], project);
    expect(compiled).toEqual({ code: 0, out: '', err: '' });
  }
  expect(manifest.scripts.start).toContain(`node ${start}`);
  expect(node([start], project)).toEqual({ code: 0, out: 'sim0 holds: hello\n', err: '' });
  expect(node([start, 'serve'], project)).toEqual({
    code: 1,
    out: '',
    err: 'programs in two processes require ISOVERBS_PROVIDER=soft, or an RDMA NIC\n',
  });
  const [, tests] = /node --test (.*)$/.exec(manifest.scripts.test) ?? [];
  const tested = node(['--test', tests], project);
  expect(tested.code).toBe(0);
  expect(tested.out).toMatch(/pass 4\b/);
}

test('a project takes isoverbs from where it was installed', TIMEOUT, () => {
  const modules = join(folder, 'app/node_modules');
  const copy = join(modules, 'isoverbs');
  mkdirSync(copy, { recursive: true });
  for (const part of ['dist', 'templates', 'package.json']) {
    cpSync(join(ROOT, part), join(copy, part), { recursive: true });
  }
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
  const sourceIn = (dir: string, resolved?: string) => {
    const packages = { 'node_modules/isoverbs': { version: '0.1.0', resolved } };
    writeFileSync(join(modules, '.package-lock.json'), JSON.stringify({ packages }));
    const { code, err } = node([join(copy, 'dist/cli/main.js'), 'init', dir], folder);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    return JSON.parse(readFileSync(join(folder, dir, 'package.json'), 'utf8')).dependencies.isoverbs;
  };
  const tarball = join(folder, 'packs/isoverbs-0.1.0.tgz');
  expect(sourceIn('tarball', 'file:../packs/isoverbs-0.1.0.tgz')).toBe(`file:${tarball}`);
  const git = 'git+ssh://git@example.org/isoverbs.git#1234567';
  expect(sourceIn('git', git)).toBe(git);
  expect(sourceIn('registry', 'https://registry.example/isoverbs/-/isoverbs-0.1.0.tgz')).toBe('^0.1.0');
  expect(sourceIn('unknown')).toBe('^0.1.0');
});

test('init changes no file that exists', TIMEOUT, () => {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'store.js'), 'mine');
  const { code, err } = node([MAIN, 'init'], folder);
  expect(code).toBe(2);
  expect(err).toMatch(/has store\.js already; name another folder: isoverbs init DIR/);
  expect(readdirSync(folder)).toEqual(['store.js']);
});

test('rxe hands its options and the command to the script, and exits with its status', TIMEOUT, () => {
  const { code, err } = node([MAIN, 'rxe', '--cpus', 'many', '--', 'node', '--version'], ROOT);
  expect({ code, err }).toEqual({
    code: 125,
    err: 'rxe-run: --cpus, --mem and --timeout take whole numbers\n',
  });
  expect(node([MAIN, 'rxe'], ROOT)).toMatchObject({
    code: 125,
    err: expect.stringContaining('usage: rxe-run'),
  });
});
