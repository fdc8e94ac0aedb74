// Turns dist into what the package holds: few files, without source maps, and with the types of the entry points alone.
// `npm pack` does this, and brings the build back.
//   node scripts/bundle.mjs              after a build; keeps the build in out/dist
//   node scripts/bundle.mjs --restore    brings the build back
//   node scripts/bundle.mjs --tests      for tests, which start many processes: keeps all modules in dist, but with the
//                                        code of the library in one file, which loads in about half the time; and makes
//                                        a copy of the command in out/cli, which also starts in about half the time
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../', import.meta.url));
const DIST = join(ROOT, 'dist');
/** Where the build is kept: while dist is as in the package, which `npm run prepare` must not change, and for tests. */
const BUILD = join(ROOT, 'out/dist');
const BUILD_OF_TESTS = join(ROOT, 'out/build');
const CLI = join(ROOT, 'out/cli');
/** Modules from which threads or processes start, or which another process loads by its path. */
const BY_PATH = [
  'cli/main',
  'cli/drum/solver-worker',
  'compare/isolation/ends-with-parent',
  'daemon/client/join',
  'drivers/worker/worker',
  'mix/live/process',
  'mix/live/worker',
  'mix/pool-worker',
  'papers/engine/computation-worker',
];
/** Loads in a fifth of the time without its messages in other languages. */
const INCLUDED = /^zod$/;
const ZOD = { name: 'zod', test: /node_modules\/zod\// };
/** A module knows the place that it had before it became part of a chunk. */
const PLACES = 'isoverbs:places';

const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
const ENTRIES = Object.values(exports).flatMap(({ default: path }) =>
  path === undefined ? [] : [path.replace(/^\.\/dist\/(.*)\.js$/, '$1')],
);

/**
 * @param {string} from the folder of the modules
 * @param {string} root where they are taken to be, relative to a chunk
 * @returns {import('rolldown').Plugin}
 */
const places = (from, root) => ({
  name: 'places',
  resolveId: (id) => (id === PLACES ? id : null),
  load: (id) =>
    id === PLACES
      ? `export const placeOf = (path) => new URL("${root}" + path, import.meta.url).href;`
      : null,
  transform(code, id) {
    if (!id.startsWith(from) || !code.includes('import.meta.url')) return null;
    const path = relative(from, id).replaceAll('\\', '/');
    const used = code.replaceAll('import.meta.url', `placeOf(${JSON.stringify(path)})`);
    return { code: `import { placeOf } from '${PLACES}';\n${used}`, map: null };
  },
});

/**
 * Files, and all that they refer to.
 * @param {string[]} files
 * @param {RegExp} reference whose group is a path without its extension
 * @param {string} extension
 */
function reached(files, reference, extension) {
  const found = new Set(files);
  for (const file of found) {
    for (const [, path] of readFileSync(file, 'utf8').matchAll(reference)) {
      found.add(join(dirname(file), path + extension));
    }
  }
  return found;
}

/** The declarations that an entry point needs. */
const declarations = () =>
  reached(
    ENTRIES.map((entry) => join(BUILD, `${entry}.d.ts`)),
    /(?:from |import\(|import )['"](\.{1,2}\/[^'"]+)\.[jt]s['"]/g,
    '.d.ts',
  );

function restore() {
  // It may be of another build.
  rmSync(CLI, { recursive: true, force: true });
  const kept = [BUILD, BUILD_OF_TESTS].find((dir) => existsSync(dir));
  if (kept === undefined) return;
  rmSync(DIST, { recursive: true, force: true });
  renameSync(kept, DIST);
}

/** Modules that the entry points load at once, without these: what they load while they start must be complete. */
function library() {
  const entries = ENTRIES.map((entry) => join(BUILD_OF_TESTS, `${entry}.js`));
  const found = reached(entries, /^(?:import|export)\b[^'"]*['"](\.{1,2}\/[^'"]+)\.js['"]/gm, '.js');
  for (const entry of entries) found.delete(entry);
  return found;
}

/**
 * @param {string} dir
 * @param {Record<string, string>} input
 * @param {import('rolldown').Plugin} plugin
 * @param {{ name: string, test: RegExp | ((id: string) => boolean) }[]} [groups] what is put together
 * @param {RegExp} [included] packages whose code is included
 */
async function write(dir, input, plugin, groups = [], included = /^$/) {
  const { rolldown } = await import('rolldown');
  const external = (/** @type {string} */ id) => /^[a-z@]/i.test(id) && id !== PLACES && !included.test(id);
  const build = await rolldown({ input, external, platform: 'node', plugins: [plugin] });
  await build.write({
    dir,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: 'chunks/[name]-[hash].js',
    keepNames: true,
    codeSplitting: { groups: [{ name: 'places', test: /isoverbs:places/ }, ...groups] },
  });
  await build.close();
}

/** Its modules take themselves to be in dist: what they start or load by a path is there. */
async function bundleCommand() {
  const input = { main: join(DIST, 'cli/main.js') };
  await write(CLI, input, places(DIST, '../../../dist/'), [ZOD], INCLUDED);
}

/** Moves the build out of the way. @param {string} to */
function keepBuild(to) {
  if ([BUILD, BUILD_OF_TESTS].some((dir) => existsSync(dir))) {
    throw new Error('dist is bundled already; node scripts/bundle.mjs --restore');
  }
  mkdirSync(dirname(to), { recursive: true });
  renameSync(DIST, to);
}

/**
 * @param {string} build
 * @param {Iterable<string>} modules
 */
const inputOf = (build, modules) =>
  Object.fromEntries([...modules].map((one) => [one, join(build, `${one}.js`)]));

async function bundleForTests() {
  restore();
  await bundleCommand();
  keepBuild(BUILD_OF_TESTS);
  const modules = readdirSync(BUILD_OF_TESTS, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.js'))
    .map((path) => path.slice(0, -'.js'.length));
  const inLibrary = library();
  const group = { name: 'library', test: (/** @type {string} */ id) => inLibrary.has(id) };
  const plugin = places(BUILD_OF_TESTS, '../');
  await write(DIST, inputOf(BUILD_OF_TESTS, modules), plugin, [ZOD, group], INCLUDED);
  cpSync(BUILD_OF_TESTS, DIST, {
    recursive: true,
    filter: (path) => !/\.js$|\.map$|\.tsbuildinfo$/.test(path),
  });
}

async function bundle() {
  keepBuild(BUILD);
  await write(DIST, inputOf(BUILD, new Set([...ENTRIES, ...BY_PATH])), places(BUILD, '../'));
  for (const file of declarations()) cpSync(file, join(DIST, relative(BUILD, file)));
  const files = readdirSync(DIST, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
  console.error(`bundle: ${files.length} files`);
}

if (process.argv[2] === '--restore') restore();
else if (process.argv[2] === '--tests') await bundleForTests();
else await bundle();
