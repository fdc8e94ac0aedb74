/**
 * Builds the addons for the package into `prebuilds/PLATFORM-ARCH`, so that installing it requires no compiler:
 *   node scripts/prebuild.mjs [--arch arm64] [--libc musl] [--if-possible]
 * The Node-API is the same in all versions of Node.js, so one binary serves all. libstdc++ is that of Node.js, and the
 * libraries of rdma-core are opened at run time. For another architecture than this one, a cross compiler of Debian is
 * required (`apt install g++-aarch64-linux-gnu`), and the headers of rdma-core are those of this machine. For musl, as in
 * Alpine Linux, `zig` is required: it contains a C++ library for musl, and builds for both architectures.
 */
import { spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..');
const ADDONS = ['isoverbs.node', 'isoverbs_ipc.node'];
const COMPILERS = { x64: 'x86_64-linux-gnu', arm64: 'aarch64-linux-gnu' };

const CPUS = { x64: 'x86_64', arm64: 'aarch64' };

const {
  arch,
  libc,
  'if-possible': isOptional,
} = parseArgs({
  options: {
    arch: { type: 'string', default: process.arch },
    libc: { type: 'string', default: 'glibc' },
    'if-possible': { type: 'boolean' },
  },
}).values;

/** @param {string} command @param {string[]} args @param {object} options */
function run(command, args, options = {}) {
  const { status, error } = spawnSync(command, args, { stdio: ['ignore', 'ignore', 'inherit'], ...options });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${error?.message ?? `status ${status}`}`);
}

/**
 * The compilers for musl, as scripts in this folder. They strip what they link.
 * @param {string} folder @param {string} cpu
 */
function zigIn(folder, cpu) {
  if (spawnSync('zig', ['version']).status !== 0) throw new Error('--libc musl requires zig on the PATH');
  const headers = join(folder, 'headers');
  mkdirSync(headers);
  // The other headers of this machine are those of glibc.
  for (const name of ['infiniband', 'rdma']) symlinkSync(join('/usr/include', name), join(headers, name));
  const compiler = (/** @type {string} */ name) => {
    const file = join(folder, `zig-${name}`);
    const command = `exec zig ${name} -target ${cpu}-linux-musl -isystem '${headers}' "$@"`;
    writeFileSync(file, `#!/bin/sh\n${command}\n`, { mode: 0o755 });
    return file;
  };
  const cxx = compiler('c++');
  return { CC: compiler('cc'), CXX: cxx, LINK: cxx, LDFLAGS: '-s' };
}

/** The commands of a cross compiler of Debian. @param {string} target */
const crossOf = (target) => ({
  CC: `${target}-gcc`,
  CXX: `${target}-g++`,
  LINK: `${target}-g++`,
  AR: `${target}-ar`,
});

function main() {
  const target = COMPILERS[/** @type {keyof typeof COMPILERS} */ (arch)];
  if (process.platform !== 'linux' || target === undefined) {
    throw new Error(`addons are built on Linux for x64 and arm64, not on ${process.platform} for ${arch}`);
  }
  if (libc !== 'glibc' && libc !== 'musl') throw new Error(`--libc takes glibc or musl, not ${libc}`);
  const isMusl = libc === 'musl';
  const isCross = arch !== process.arch;
  const { resolve } = createRequire(import.meta.url);
  const modules = join(dirname(resolve('node-addon-api/package.json')), '..');
  const folder = mkdtempSync(join(tmpdir(), 'isoverbs-prebuild-'));
  try {
    copyFileSync(join(ROOT, 'binding.gyp'), join(folder, 'binding.gyp'));
    symlinkSync(join(ROOT, 'native'), join(folder, 'native'));
    const nodeDir = join(dirname(process.execPath), '..');
    const headers = existsSync(join(nodeDir, 'include/node/node_api.h')) ? [`--nodedir=${nodeDir}`] : [];
    const gyp = [resolve('node-gyp/bin/node-gyp.js'), 'rebuild', '--silent', `--arch=${arch}`, ...headers];
    run(process.execPath, [...gyp, '--directory', folder], {
      cwd: folder,
      env: {
        ...process.env,
        ...(isMusl
          ? zigIn(folder, CPUS[/** @type {keyof typeof CPUS} */ (arch)])
          : isCross && crossOf(target)),
        NODE_PATH: modules,
      },
    });
    const name = `${process.platform}-${arch}${isMusl ? '-musl' : ''}`;
    const to = join(ROOT, 'prebuilds', name);
    mkdirSync(to, { recursive: true });
    for (const addon of ADDONS) {
      const built = join(folder, 'build/Release', addon);
      if (!isMusl) run(isCross ? `${target}-strip` : 'strip', ['--strip-unneeded', built]);
      copyFileSync(built, join(to, addon));
    }
    console.log(`prebuilds/${name}: ${ADDONS.join(', ')}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

try {
  main();
} catch (error) {
  if (!isOptional) throw error;
  // The package works without them: a compiler, or the simulated device, takes their place.
  console.error(
    `isoverbs: the package has no prebuilt addons for ${arch} with ${libc}: ${error instanceof Error ? error.message : error}`,
  );
}
