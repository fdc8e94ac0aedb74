/**
 * Builds the addons, for real RDMA devices and for processes that share them, unless those that came with the package
 * can be used. Says in one line what happened. Never
 * fails the install of the package, because without them it works with the simulated device; run as a command, exits
 * with 1 if they could not be built. Addons that were built before stay in place until new ones are complete.
 */
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..');
/** Headers that the distribution installed; the Node-API is the same in all versions, so any will do. */
const SYSTEM_HEADERS = '/usr/include/node/node_api.h';
const BUILD_TIMEOUT_MS = 10 * 60_000;

const ADDONS = join(ROOT, 'build/Release');
const isInstall = process.env.npm_lifecycle_event === 'install';

/** @param {string} why */
function skip(why) {
  const without = existsSync(join(ADDONS, 'isoverbs.node'))
    ? 'the one that was built before stays in place'
    : 'the simulated device works without it';
  console.log(`isoverbs: the addon for real RDMA devices was not built (${why}); ${without}.`);
}

/** @param {string} command @param {string[]} args */
function works(command, args) {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0;
}

/** Headers that need no download: of the running node, or of the system. */
function nodeDir() {
  const ofNode = join(dirname(process.execPath), '..');
  if (existsSync(join(ofNode, 'include/node/node_api.h'))) return ofNode;
  return existsSync(SYSTEM_HEADERS) ? '/usr' : undefined;
}

/** The reason for not building; empty if the addons should be built. */
function obstacle() {
  if (process.env.ISOVERBS_NO_ADDON === '1') return 'ISOVERBS_NO_ADDON=1';
  if (process.platform !== 'linux') return `real devices need Linux, this is ${process.platform}`;
  const compiler = (process.env.CXX ?? 'c++').split(' ')[0];
  if (!works(compiler, ['--version']) && !works('g++', ['--version'])) return 'no C++ compiler';
  if (!works('make', ['--version'])) return 'no make';
  return '';
}

/** The last lines that describe an error. @param {string} output */
function gist(output) {
  const lines = output.split('\n').filter((line) => /error|not found|cannot|ENOTFOUND|EAI_AGAIN/i.test(line));
  return (lines[0] ?? 'node-gyp failed').trim().slice(0, 160);
}

/**
 * Replaces each addon in one step, so that a process that starts now loads either the old or the new one, and a process
 * that runs keeps the file it has mapped.
 * @param {string} folder
 */
function replaceAddons(folder) {
  mkdirSync(ADDONS, { recursive: true });
  for (const name of readdirSync(folder).filter((file) => file.endsWith('.node'))) {
    const scratch = join(ADDONS, `${name}.${process.pid}`);
    copyFileSync(join(folder, name), scratch);
    renameSync(scratch, join(ADDONS, name));
  }
}

/** @param {string} folder a temporary one, in which node-gyp runs */
function build(folder) {
  const { resolve } = createRequire(import.meta.url);
  const gyp = resolve('node-gyp/bin/node-gyp.js');
  // binding.gyp looks for this package, which cannot be found from the temporary folder.
  const modules = join(dirname(resolve('node-addon-api/package.json')), '..');
  copyFileSync(join(ROOT, 'binding.gyp'), join(folder, 'binding.gyp'));
  symlinkSync(join(ROOT, 'native'), join(folder, 'native'));
  const args = [gyp, 'rebuild', '--directory', folder];
  const dir = nodeDir();
  if (dir !== undefined) args.push(`--nodedir=${dir}`);
  const { status, stdout, stderr, error } = spawnSync(process.execPath, args, {
    cwd: folder,
    env: { ...process.env, NODE_PATH: modules },
    encoding: 'utf8',
    timeout: BUILD_TIMEOUT_MS,
    maxBuffer: 64 * 1024 * 1024,
  });
  if (status === 0) return replaceAddons(join(folder, 'build/Release'));
  const log = join(mkdtempSync(join(tmpdir(), 'isoverbs-')), 'build.log');
  writeFileSync(log, `${stdout ?? ''}\n${stderr ?? ''}\n${error?.stack ?? ''}\n`);
  throw new Error(`${error?.message ?? gist(`${stderr}\n${stdout}`)}; log: ${log}`);
}

/** Must decide as prebuildsFolder() in src/providers/native-addon.ts does. */
function isMusl() {
  if (process.platform !== 'linux') return false;
  Object.assign(process.report, { excludeNetwork: true });
  const { header } = /** @type {{ header: object }} */ (process.report.getReport());
  return !('glibcVersionRuntime' in header);
}

/** Whether the addons that came with the package can be loaded here, so that nothing need be built. */
function hasPrebuilt() {
  const folder = join(ROOT, 'prebuilds', `${process.platform}-${process.arch}${isMusl() ? '-musl' : ''}`);
  const { npm_config_build_from_source: fromSource = '' } = process.env;
  // In a clone, they may be older than the sources.
  if (!isInstall || existsSync(join(ROOT, '.git')) || !['', 'false'].includes(fromSource)) return false;
  const files = ['isoverbs.node', 'isoverbs_ipc.node'].map((name) => join(folder, name));
  if (!files.every((file) => existsSync(file))) return false;
  // In a process of its own, because an addon of another C library may end the process.
  return works(process.execPath, ['-e', 'for (const file of process.argv.slice(1)) require(file)', ...files]);
}

/** Returns whether the addons are as the caller wants them. */
function main() {
  if (process.env.ISOVERBS_NO_ADDON !== '1' && hasPrebuilt()) {
    console.log(
      'isoverbs: the addon came with the package; `npm_config_build_from_source=true` builds it instead.',
    );
    return true;
  }
  const why = obstacle();
  if (why !== '') {
    skip(why);
    return process.env.ISOVERBS_NO_ADDON === '1';
  }
  const folder = mkdtempSync(join(tmpdir(), 'isoverbs-build-'));
  try {
    build(folder);
  } catch (error) {
    skip(error instanceof Error ? error.message : String(error));
    return false;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  const verbs = works('pkg-config', ['--exists', 'libibverbs']);
  const missing = `without rdma-core, whose headers are missing: install libibverbs-dev and pkg-config, then \`node ${join(ROOT, 'scripts/install.mjs')}\``;
  console.log(`isoverbs: the addon was built${verbs ? ' with rdma-core' : ` ${missing}`}.`);
  return true;
}

if (!main() && !isInstall) process.exitCode = 1;
