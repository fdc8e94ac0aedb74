/** Without the addon, an install succeeds, and the package reports what is missing; a failed rebuild changes nothing. */
// @module-tag wide
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
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
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test } from 'vitest';
import { prebuildsFolder } from '../../src/providers/native-addon.ts';
import {
  addonStatus,
  createRdmaCoreProvider,
  isAddonAvailable,
} from '../../src/providers/rdma-core/index.ts';
import { NoDeviceError } from '../../src/verbs/index.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const script = join(ROOT, 'scripts/install.mjs');
const before = process.env.ISOVERBS_NO_ADDON;

afterEach(() => {
  if (before === undefined) delete process.env.ISOVERBS_NO_ADDON;
  else process.env.ISOVERBS_NO_ADDON = before;
});

function install(env: NodeJS.ProcessEnv, file = script) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [file], { env, encoding: 'utf8' });
  return { status, stderr, lines: stdout.trimEnd().split('\n') };
}

const BY_NPM = { npm_lifecycle_event: 'install' };
const BY_HAND = { npm_lifecycle_event: undefined };

test('ISOVERBS_NO_ADDON=1 builds nothing and says so in one line', () => {
  const { status, stderr, lines } = install({ ...process.env, ...BY_HAND, ISOVERBS_NO_ADDON: '1' });
  expect([status, stderr, lines.length]).toEqual([0, '', 1]);
  expect(lines[0]).toMatch(/not built \(ISOVERBS_NO_ADDON=1\); /);
});

test.runIf(process.platform === 'linux')('a machine without a compiler', () => {
  const folder = mkdtempSync(join(tmpdir(), 'isoverbs-path-'));
  symlinkSync(process.execPath, join(folder, 'node'));
  const env = { PATH: folder, HOME: process.env.HOME };
  const { status, lines } = install({ ...env, ...BY_NPM });
  expect([status, lines.length]).toEqual([0, 1]);
  expect(lines[0]).toMatch(/no C\+\+ compiler/);
  expect(install(env)).toMatchObject({ status: 1, lines });
});

/** A compiler that writes `new` instead of compiling, unless `FAILS` is set. */
const COMPILER = `#!/bin/sh
[ "$1" = --version ] && exit 0
[ -z "$FAILS" ] || { echo 'fatal error: planted' >&2; exit 1; }
while [ $# -gt 1 ]; do
  case $1 in
    -o) printf new >"$2" ;;
    -MF) printf 'x: x\n' >"$2" ;;
  esac
  shift
done
`;

describe.runIf(process.platform === 'linux')('a rebuild', () => {
  /** A copy of the project with a working addon, and the environment for that compiler. */
  function project() {
    const folder = mkdtempSync(join(tmpdir(), 'isoverbs-project-'));
    for (const name of ['scripts', 'build/Release']) mkdirSync(join(folder, name), { recursive: true });
    for (const name of ['native', 'node_modules']) symlinkSync(join(ROOT, name), join(folder, name));
    for (const name of ['binding.gyp', 'scripts/install.mjs'])
      copyFileSync(join(ROOT, name), join(folder, name));
    const addon = join(folder, 'build/Release/isoverbs.node');
    writeFileSync(addon, 'old');
    const CXX = join(folder, 'compiler');
    writeFileSync(CXX, COMPILER, { mode: 0o755 });
    const env = { ...process.env, ...BY_HAND, ISOVERBS_NO_ADDON: '', CXX, LINK: CXX };
    const rebuild = (more: NodeJS.ProcessEnv) =>
      install({ ...env, ...more }, join(folder, 'scripts/install.mjs'));
    return { folder, rebuild, content: () => readFileSync(addon, 'utf8') };
  }

  test('that fails leaves the working addon in place, and exits with 1 unless it is part of an install', () => {
    const { folder, rebuild, content } = project();
    const { status, lines } = rebuild({ FAILS: '1' });
    expect([status, lines.length]).toEqual([1, 1]);
    expect(lines[0]).toMatch(
      /not built \(.*planted; log: \S+\); the one that was built before stays in place\.$/,
    );
    expect(rebuild({ FAILS: '1', ...BY_NPM }).status).toBe(0);
    expect(content()).toBe('old');
    rmSync(folder, { recursive: true });
  });

  test('that succeeds replaces the addon', () => {
    const { folder, rebuild, content } = project();
    const { status, lines } = rebuild({});
    expect([status, lines.length]).toEqual([0, 1]);
    expect(lines[0]).toMatch(/^isoverbs: the addon was built/);
    expect(content()).toBe('new');
    expect(readdirSync(join(folder, 'build/Release'))).toEqual(['isoverbs.node', 'isoverbs_ipc.node']);
    rmSync(folder, { recursive: true });
  });
});

describe.runIf(process.platform === 'linux' && isAddonAvailable())(
  'addons that came with the package',
  () => {
    /** A copy of the package without a built addon, as an install unpacks it. */
    function unpacked() {
      const folder = mkdtempSync(join(tmpdir(), 'isoverbs-prebuilt-'));
      const prebuilds = join(folder, `prebuilds/${process.platform}-${process.arch}`);
      for (const to of [join(folder, 'scripts'), prebuilds]) mkdirSync(to, { recursive: true });
      for (const name of ['binding.gyp', 'package.json', 'scripts/install.mjs'])
        copyFileSync(join(ROOT, name), join(folder, name));
      for (const name of ['native', 'node_modules']) symlinkSync(join(ROOT, name), join(folder, name));
      cpSync(join(ROOT, 'dist'), join(folder, 'dist'), { recursive: true });
      for (const name of ['isoverbs.node', 'isoverbs_ipc.node'])
        copyFileSync(join(ROOT, 'build/Release', name), join(prebuilds, name));
      const devices = (env: NodeJS.ProcessEnv = {}) => {
        const args = [join(folder, 'dist/cli/main.js'), 'devices', '--json'];
        const { stdout } = spawnSync(process.execPath, args, {
          env: { ...process.env, ...env },
          encoding: 'utf8',
        });
        return JSON.parse(stdout) as { addon: string | null; notes: string[] };
      };
      return { folder, prebuilds, devices, file: join(folder, 'scripts/install.mjs') };
    }

    test('are used without a compiler and without install scripts, and one that is built goes first', () => {
      const { folder, devices, file } = unpacked();
      // As with --ignore-scripts.
      expect(devices().addon).toBe('prebuilt');
      const bin = mkdtempSync(join(tmpdir(), 'isoverbs-path-'));
      symlinkSync(process.execPath, join(bin, 'node'));
      const { status, stderr, lines } = install({ PATH: bin, HOME: process.env.HOME, ...BY_NPM }, file);
      expect([status, stderr, lines.length]).toEqual([0, '', 1]);
      expect(lines[0]).toMatch(/^isoverbs: the addon came with the package/);
      expect(devices({ ISOVERBS_NO_ADDON: '1' }).addon).toBeNull();
      mkdirSync(join(folder, 'build'));
      cpSync(join(ROOT, 'build/Release'), join(folder, 'build/Release'), { recursive: true });
      expect(devices().addon).toBe('built here');
      rmSync(folder, { recursive: true });
    });

    test('that cannot be loaded here are replaced by a build, if there is a compiler', {
      tags: ['long'],
    }, () => {
      const { folder, prebuilds, devices, file } = unpacked();
      writeFileSync(join(prebuilds, 'isoverbs.node'), 'of another machine');
      expect(devices().addon).toBeNull();
      expect(devices().notes[0]).toMatch(/the addon is not loaded: .*isoverbs\.node/);
      const bin = mkdtempSync(join(tmpdir(), 'isoverbs-path-'));
      symlinkSync(process.execPath, join(bin, 'node'));
      const { status, lines } = install({ PATH: bin, HOME: process.env.HOME, ...BY_NPM }, file);
      expect(status).toBe(0);
      expect(lines[0]).toMatch(/no C\+\+ compiler/);
      rmSync(folder, { recursive: true });
    });
  },
);

test('the folder of prebuilt addons follows the platform and, on Linux, the C library', () => {
  const glibc = { header: { glibcVersionRuntime: '2.36' } };
  const folder = (platform: NodeJS.Platform, arch: NodeJS.Architecture, report: object) =>
    prebuildsFolder({ platform, arch }, report);
  expect(folder('linux', 'x64', glibc)).toBe('prebuilds/linux-x64');
  expect(folder('linux', 'arm64', glibc)).toBe('prebuilds/linux-arm64');
  expect(folder('linux', 'x64', { header: {} })).toBe('prebuilds/linux-x64-musl');
  expect(folder('linux', 'arm64', { header: {} })).toBe('prebuilds/linux-arm64-musl');
  expect(folder('darwin', 'arm64', {})).toBe('prebuilds/darwin-arm64');
});

test('ISOVERBS_NO_ADDON=1 at run time: a typed error with advice', () => {
  process.env.ISOVERBS_NO_ADDON = '1';
  expect(isAddonAvailable()).toBe(false);
  const status = addonStatus();
  expect(status).toMatchObject({ available: false, loaded: false, libraries: {} });
  expect(status.notes.join('\n')).toMatch(/ISOVERBS_NO_ADDON=1 is set[\s\S]*unset ISOVERBS_NO_ADDON/);
  expect(() => createRdmaCoreProvider()).toThrow(NoDeviceError);
  expect(() => createRdmaCoreProvider()).toThrow(/Possible solutions:\n {2}- unset/);
});
