// Policies reach child processes, worker threads and all copies of the package. Needs a build.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { inheritByChildren } from '../../src/register-children.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const NOTHING = {
  policies: [],
  interceptors: [],
  log: 'warn',
  source: 'nothing',
  interceptorSource: 'nothing',
  driver: 'inline' as const,
} as const;

/** A project in a folder with a space, with two copies of the package under node_modules. */
function project(): string {
  const folder = join(mkdtempSync(join(tmpdir(), 'isoverbs-')), 'my project');
  const copies = ['node_modules/isoverbs', 'node_modules/other/node_modules/isoverbs'];
  for (const copy of copies.map((path) => join(folder, path))) {
    mkdirSync(copy, { recursive: true });
    cpSync(join(ROOT, 'dist'), join(copy, 'dist'), { recursive: true });
    cpSync(join(ROOT, 'package.json'), join(copy, 'package.json'));
    symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'));
  }
  mkdirSync(join(folder, 'elsewhere'));
  writeFileSync(join(folder, 'elsewhere/package.json'), '{}');
  writeFileSync(join(folder, 'package.json'), '{}');
  writeFileSync(join(folder, 'isoverbs.config.yaml'), 'policy: perf\ninterceptors: count\n');
  const report =
    "(i) => { const c = i.openDevice('sim0'); console.log(process.argv[2] ?? process.env.TAG, c.provider.interceptors.join()); c.close(); }";
  writeFileSync(join(folder, 'leaf.mjs'), `import('isoverbs').then(${report});`);
  writeFileSync(join(folder, 'leaf.cjs'), `(${report})(require('isoverbs'));`);
  writeFileSync(join(folder, 'node_modules/other/leaf.mjs'), `import('isoverbs').then(${report});`);
  writeFileSync(join(folder, 'main.mjs'), MAIN);
  return folder;
}

const MAIN = `import { execFileSync, fork, spawnSync } from 'node:child_process';
import { Worker } from 'node:worker_threads';
const at = (name) => new URL(name, import.meta.url);
const spawn = (tag, ...args) => console.log(spawnSync(process.execPath, [...args, tag], { cwd: at('elsewhere'), encoding: 'utf8' }).stdout.trim());
const path = (name) => decodeURI(at(name).pathname);
const done = (emitter) => new Promise((resolve) => emitter.on('exit', resolve));
if (process.argv[2] === 'nested') { spawn('grandchild', path('leaf.mjs')); process.exit(); }
spawn('spawned', path('leaf.mjs'));
spawn('commonjs', path('leaf.cjs'));
spawn('nested', path('main.mjs'));
spawn('copy', path('node_modules/other/leaf.mjs'));
console.log(execFileSync('sh', ['-c', '"$0" leaf.mjs shell', process.execPath], { encoding: 'utf8' }).trim());
await done(fork(path('leaf.mjs'), ['forked'], { execArgv: ['--no-warnings'] }));
await done(new Worker(at('leaf.mjs'), { env: { ...process.env, TAG: 'worker' } }));
await done(new Worker(at('leaf.mjs'), { execArgv: ['--no-warnings'], argv: ['worker-execArgv'] }));
await done(new Worker(at('leaf.mjs'), { env: { TAG: 'worker-env' } }));
`;

test('grandchildren, forks, shells and workers inherit the policies, even with a space in the path', {
  tags: ['long'],
  timeout: 60_000,
}, () => {
  const folder = project();
  const inherited = Object.entries(process.env).filter(([key]) => !key.startsWith('ISOVERBS_'));
  const child = spawnSync(process.execPath, ['--import', 'isoverbs/register', 'main.mjs'], {
    cwd: folder,
    env: {
      ...Object.fromEntries(inherited),
      NODE_OPTIONS: '--max-old-space-size=2048',
      ISOVERBS_NO_ADDON: '1',
    },
    encoding: 'utf8',
    timeout: 60_000,
  });
  expect(child.stderr).toBe('');
  const names = [
    'spawned',
    'commonjs',
    'grandchild',
    'copy',
    'shell',
    'forked',
    'worker',
    'worker-execArgv',
    'worker-env',
  ];
  expect(child.stdout.trim().split('\n')).toEqual(names.map((name) => `${name} count,perf`));
});

test('inheritByChildren() adds the module to NODE_OPTIONS once and keeps the rest', () => {
  const url = pathToFileURL('/a folder/register.js').href;
  const env: Record<string, string | undefined> = {
    NODE_OPTIONS: '--enable-source-maps',
    ISOVERBS_REPLAY: 'x',
  };
  inheritByChildren(url, { ...NOTHING, policies: [], interceptors: [], file: '/etc/isoverbs.json' }, env);
  const expected = {
    NODE_OPTIONS: '--enable-source-maps --import=file:///a%20folder/register.js',
    ISOVERBS_CONFIG: '/etc/isoverbs.json',
  };
  expect(env).toEqual(expected);
  inheritByChildren(url, { ...NOTHING, policies: [], interceptors: [] }, env);
  expect(env).toEqual(expected);
});
