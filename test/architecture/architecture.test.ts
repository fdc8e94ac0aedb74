// The layout of the repository follows docs/architecture.md. planted-faults.test.ts shows that each guard can fail.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { type AcceptedCycle, importCycles, unacceptedCycles } from './cycles.ts';
import { undocumentedExports } from './docstrings.ts';
import { missingEntryPoints, missingModules } from './entry-points.ts';
import { impureUnitTests, impurities } from './purity.ts';
import { indirectImports, namedSystems, roomsLoadedWith, unknownRooms, wrongImports } from './rooms.ts';
import { fullFolders, longFiles, longFunctions, longPolicies, MAX_SRC_FILES } from './sizes.ts';
import { pick, readTree } from './source-tree.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const tree = readTree(ROOT, ['src', 'bench', 'test']);
const src = pick(tree, (path) => path.startsWith('src/'));

/** Accepted cycles by type, and their maximum number; a cycle that can be cut cheaply is cut instead. */
const ACCEPTED_CYCLES: readonly AcceptedCycle[] = [];
const MAX_TYPE_CYCLES = 3;

describe('rooms', () => {
  test('every folder of src is a room', () => {
    expect(unknownRooms(src)).toEqual([]);
  });

  test('a room imports only rooms above it', () => {
    expect(wrongImports(src)).toEqual([]);
  });

  test('the coordinator and the daemon name no system whose policy they serve', () => {
    expect(namedSystems(src)).toEqual([]);
  });

  test('files of src import each other by relative paths that end in .ts, so that these guards see them', () => {
    expect(indirectImports(src)).toEqual([]);
    const files = readdirSync(join(ROOT, 'src'), { recursive: true, withFileTypes: true });
    const others = files.filter((one) => one.isFile() && !/\.(ts|json)$/.test(one.name));
    expect(others.map(({ name }) => name)).toEqual([]);
  });

  test('pure rooms use no clock, timer, randomness, thread, file or asynchronous code', () => {
    expect(impurities(src)).toEqual([]);
  });

  test.each(['cli/program', 'cli/commands/run', 'cli/commands/tenants', 'cli/commands/top'])(
    'isoverbs asks the daemon without loading policies or the simulator: src/%s.ts',
    (name) => {
      const rooms = roomsLoadedWith(src, `src/${name}.ts`);
      expect(rooms).toContain('verbs');
      for (const room of ['policies', 'sim', 'mix', 'compare', 'perftest', 'papers', 'drivers', 'objects']) {
        expect(rooms).not.toContain(room);
      }
    },
  );
});

describe('sizes', () => {
  test('functions have at most 70 lines', () => {
    expect(longFunctions(tree)).toEqual([]);
  });

  test('files have at most 500 lines unless their header gives a reason', () => {
    expect(longFiles(tree)).toEqual([]);
  });

  test('the policy token-bucket has at most 150 lines', () => {
    expect(longPolicies(src)).toEqual([]);
  });

  test('folders of src and bench have at most 25 files, except those of src/papers', () => {
    const limited = pick(tree, (path) => !path.startsWith('test/') && !path.startsWith('src/papers/'));
    expect(fullFolders(limited)).toEqual([]);
  });

  test(`src has at most ${MAX_SRC_FILES} files`, () => {
    expect(src.size).toBeLessThanOrEqual(MAX_SRC_FILES);
  });
});

describe('tests', () => {
  test('unit tests start no process or thread and need no build', () => {
    expect(impureUnitTests(tree)).toEqual([]);
  });
});

describe('imports', () => {
  test('no import cycles by value', () => {
    expect(importCycles(src, ['value'])).toEqual([]);
  });

  test('at most three import cycles by type, except those with a reason', () => {
    const { cycles, stale } = unacceptedCycles(importCycles(src, ['value', 'type']), ACCEPTED_CYCLES);
    expect(cycles.slice(MAX_TYPE_CYCLES)).toEqual([]);
    expect(stale).toEqual([]);
  });
});

describe('public names', () => {
  test('every exported name of the policies, the policy interface and the main entry point has a docstring', () => {
    const policies = [...src.keys()].filter((path) => path.startsWith('src/policies/'));
    expect(undocumentedExports(src, [...policies, 'src/shim/policy.ts', 'src/index.ts'])).toEqual([]);
  });

  test('every file that package.json names exists', () => {
    const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
    expect(missingEntryPoints(manifest, (path) => existsSync(join(ROOT, path)))).toEqual([]);
  });

  test('every module that a worker starts from exists', () => {
    expect(missingModules(src)).toEqual([]);
  });
});
