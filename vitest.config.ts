import { existsSync, readdirSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { defineConfig, type Plugin } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

const DEVICES = '/sys/class/infiniband';
const hasDevice = existsSync(DEVICES) && readdirSync(DEVICES).length > 0;
const isEmulated = process.env.ISOVERBS_GROUND === 'rxe';
const ALL = ['test/**/*.test.ts', 'examples/**/*.test.ts'];
/** Folders. */
const SHARING =
  'architecture,command,compare,conformance,crash,faults,mix,papers,perftest,process,sim,unit,verbs';
/**
 * Tests of the code alone and of programs that they start, which share processes and loads of the sources, because a load
 * takes half a second. A test that measures or changes its process has its own, and so does one that requires that nothing
 * else prints. Where there is no device, its tests are skipped, and need no process of their own.
 */
const shared = isEmulated
  ? 'test/verbs/**/*.test.ts'
  : `test/{${hasDevice ? SHARING : `${SHARING},device`}}/**/!(heap|renamed-options).test.ts`;

const SRC = join(import.meta.dirname, 'src');
/** Takes modules anew for each test, which Node.js cannot do. */
const RELOADS = 'test/unit/renamed-options.test.ts';

/**
 * Loads the compiled sources, in `npm test` and others that build them. In vitest's own modules each use of an import is a call, so
 * that simulations take four times as long.
 */
const built: Plugin = {
  name: 'built',
  enforce: 'pre',
  resolveId(id, importer = '') {
    if (importer.endsWith(RELOADS) || importer.startsWith(SRC)) return null;
    const path = id.startsWith('#src/')
      ? join(SRC, id.slice('#src/'.length))
      : resolve(dirname(importer), id);
    const within = relative(SRC, path);
    if (!/^[.#/]/.test(id) || within.startsWith('..') || !within.endsWith('.ts')) return null;
    return join(import.meta.dirname, 'dist', within.replace(/ts$/, 'js'));
  },
};

/** The files that take longest, in this order. */
const LONGEST = [
  'conformance/suite',
  'conformance/mixed',
  'mix/fair',
  'process/register-process',
  'mix/script',
  'command/cli',
  'sim/tassel-policy',
  'papers/reproduce',
  'conformance/shim',
  'hostile/reopen',
  'daemon/commands',
  'daemon/target-rates',
  'daemon/fleet',
  'daemon/module-policy',
  'daemon/groups',
  'daemon/processes',
  'daemon/worker-driver',
  'daemon/failures',
  'drivers/endings',
].map((name) => join(import.meta.dirname, `test/${name}.test.ts`));
const missing = LONGEST.filter((file) => !existsSync(file));
if (missing.length > 0)
  throw new Error(`vitest.config.ts: LONGEST names files that do not exist: ${missing}`);

/**
 * Starts the longest files of each project first, lest one of them runs alone at the end. Without the durations of an
 * earlier run, vitest sorts files by their sizes.
 */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const projects = [...new Set(sorted.map(({ project }) => project))];
    const rank = ({ project, moduleId }: TestSpecification) => {
      const place = LONGEST.indexOf(moduleId);
      return projects.indexOf(project) * 1000 + (place < 0 ? LONGEST.length : place);
    };
    return sorted.sort((a, b) => rank(a) - rank(b));
  }
}

export default defineConfig({
  plugins: process.env.ISOVERBS_BUILT === '1' ? [built] : [],
  // `#src/...` in bench/ resolves to the sources here, as for the compiler (package.json, imports).
  ssr: { resolve: { conditions: ['source', 'node', 'import', 'module', 'default'] } },
  test: {
    // Projects add these patterns to their own.
    include: [],
    testTimeout: 30_000,
    hookTimeout: 30_000,
    sequence: { sequencer: LongestFirst },
    server: { deps: { external: [/\/dist\//] } },
    // The ledgers of shims are checked in all tests, and leaks of tests are not reported.
    setupFiles: ['test/support/assertions.ts', 'test/support/leaks.ts'],
    // Tests of a real device check its object counts and drop its packets, so only one file may run at a time.
    maxWorkers: isEmulated ? 1 : '100%',
    projects: [
      { extends: true, test: { name: 'shared', include: [shared], isolate: false } },
      { extends: true, test: { name: 'others', include: ALL, exclude: [shared, 'node_modules/**'] } },
    ],
    tags: [
      {
        name: 'long',
        description: 'slow variations of other tests; CI runs a fifth of their files',
      },
      {
        name: 'wide',
        description:
          'test files that take longer than others; CI runs them after `npm test`, which may take 6 minutes',
      },
    ],
  },
});
