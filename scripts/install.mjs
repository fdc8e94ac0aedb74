/**
 * Builds the addons, for real RDMA devices and for processes that share them, when the package is installed. Never
 * fails the install: without them the package works, with the simulated device. Says in one line what happened.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..');
/** Headers that the distribution installed; the Node-API is the same in all versions, so any will do. */
const SYSTEM_HEADERS = '/usr/include/node/node_api.h';
const BUILD_TIMEOUT_MS = 10 * 60_000;

/** @param {string} why */
function skip(why) {
  console.log(
    `isoverbs: the addon for real RDMA devices was not built (${why}); the simulated device works without it.`,
  );
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

function build() {
  const gyp = createRequire(import.meta.url).resolve('node-gyp/bin/node-gyp.js');
  const args = [gyp, 'rebuild', '--directory', ROOT];
  const dir = nodeDir();
  if (dir !== undefined) args.push(`--nodedir=${dir}`);
  const { status, stdout, stderr, error } = spawnSync(process.execPath, args, {
    cwd: ROOT,
    encoding: 'utf8',
    timeout: BUILD_TIMEOUT_MS,
    maxBuffer: 64 * 1024 * 1024,
  });
  if (status === 0) return;
  const log = join(mkdtempSync(join(tmpdir(), 'isoverbs-')), 'build.log');
  writeFileSync(log, `${stdout ?? ''}\n${stderr ?? ''}\n${error?.stack ?? ''}\n`);
  // A later load must not find half-built files.
  rmSync(join(ROOT, 'build'), { recursive: true, force: true });
  throw new Error(`${error?.message ?? gist(`${stderr}\n${stdout}`)}; log: ${log}`);
}

try {
  const why = obstacle();
  if (why !== '') {
    skip(why);
  } else {
    build();
    const verbs = works('pkg-config', ['--exists', 'libibverbs']);
    const missing = `without rdma-core, whose headers are missing: install libibverbs-dev and pkg-config, then \`node ${join(ROOT, 'scripts/install.mjs')}\``;
    console.log(`isoverbs: the addon was built${verbs ? ' with rdma-core' : ` ${missing}`}.`);
  }
} catch (error) {
  skip(error instanceof Error ? error.message : String(error));
}
