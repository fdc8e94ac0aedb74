// Each guard of this folder finds the fault that is planted in a small tree, and accepts the tree without it.
import { describe, expect, test } from 'vitest';
import { importCycles, unacceptedCycles } from './cycles.ts';
import { undocumentedExports } from './docstrings.ts';
import { missingEntryPoints, missingModules, type PackageFile } from './entry-points.ts';
import { impureUnitTests, impurities } from './purity.ts';
import { indirectImports, namedSystems, roomsLoadedWith, unknownRooms, wrongImports } from './rooms.ts';
import { fullFolders, longFiles, longFunctions, longPolicies } from './sizes.ts';
import { treeOf } from './source-tree.ts';

const lines = (count: number) => Array.from({ length: count }, () => '  work();').join('\n');

describe('rooms', () => {
  test('a folder that is not a room is found', () => {
    expect(unknownRooms(treeOf({ 'src/verbs/a.ts': '', 'src/attic/b.ts': '', 'src/open.ts': '' }))).toEqual([
      'attic',
    ]);
  });

  test.each([
    ['import', "import { b } from '../sim/b.ts';"],
    ['type import', "import type { B } from '../sim/b.ts';"],
    ['re-export', "export * from '../sim/b.ts';"],
    ['lazy import', "export const load = () => import('../sim/b.ts');"],
    ['import in a type', "export type B = import('../sim/b.ts').B;"],
    ['import for its effects', "import '../sim/b.ts';"],
    ['import over two lines', "import {\n  b,\n} from\n  '../sim/b.ts';"],
  ])('an import of a lower room is found: %s', (_, text) => {
    expect(wrongImports(treeOf({ 'src/shim/a.ts': text }))).toEqual(['src/shim/a.ts -> ../sim/b.ts']);
    expect(wrongImports(treeOf({ 'src/providers/a.ts': text }))).toEqual([]);
  });

  test.each([
    ['a specifier that ends in .js', "import { b } from '../sim/b.js';"],
    ['a specifier without an ending', "export * from './b';"],
    ['the name that benchmarks use', "import { b } from '#src/sim/b.ts';"],
    ['the package itself', "import { openDevice } from 'isoverbs';"],
    ['an entry point of the package', "import { createFabric } from 'isoverbs/sim';"],
  ])('an import that the other guards cannot follow is found: %s', (_, text) => {
    expect(indirectImports(treeOf({ 'src/shim/a.ts': text }))).toHaveLength(1);
    expect(indirectImports(treeOf({ 'src/shim/a.ts': "import '../verbs/b.ts'; import 'zod';" }))).toEqual([]);
  });

  test('an import assignment of a lower room is found', () => {
    const tree = treeOf({ 'src/shim/a.ts': "import b = require('../sim/b.ts');" });
    expect(wrongImports(tree)).toEqual(['src/shim/a.ts -> ../sim/b.ts']);
  });

  test('a coordinator or daemon that names a system is found, in code and comments', () => {
    const text = "import { performance } from 'node:perf_hooks';\n// PeRF's master\n";
    const found = ["src/coordinator/a.ts:2 // PeRF's master", "src/daemon/b.ts:2 // PeRF's master"];
    const files = { 'src/coordinator/a.ts': text, 'src/daemon/b.ts': text, 'src/policies/c.ts': text };
    expect(namedSystems(treeOf(files))).toEqual(found);
    expect(namedSystems(treeOf({ 'src/daemon/d.ts': "const of = 'token-bucket';" }))).toHaveLength(1);
  });

  test('an import in a comment or a string does not count', () => {
    const text = "// import { b } from '../sim/b.ts';\nexport const a = \"import '../sim/b.ts'\";";
    expect(wrongImports(treeOf({ 'src/shim/a.ts': text }))).toEqual([]);
  });

  test('a policy that imports a provider and a file of src that imports a test are found', () => {
    const tree = treeOf({
      'src/policies/a.ts': "import '../providers/b.ts';",
      'src/cli/c.ts': "import '../../test/d.ts';",
    });
    expect(wrongImports(tree)).toEqual([
      'src/policies/a.ts -> ../providers/b.ts',
      'src/cli/c.ts -> ../../test/d.ts',
    ]);
  });

  test('rooms loaded with a file include those of indirect imports, but not of types or lazy imports', () => {
    const tree = treeOf({
      'src/cli/a.ts':
        "import './b.ts';\nimport type { P } from '../policies/p.ts';\nexport const s = () => import('../sim/s.ts');",
      'src/cli/b.ts': "export { type T } from '../objects/t.ts';",
      'src/objects/t.ts': 'export type T = 1;',
      'src/policies/p.ts': '',
      'src/sim/s.ts': '',
    });
    expect(roomsLoadedWith(tree, 'src/cli/a.ts')).toEqual(new Set(['cli', 'objects']));
  });
});

describe('pure rooms', () => {
  test.each([
    ['const t = Date.now();', 'the clock'],
    ['const t = performance.now();', 'the clock'],
    ['const n = Math.random();', 'randomness'],
    ["const n = Math['random']();", 'randomness'],
    ['const { random } = crypto;', 'randomness'],
    ['setTimeout(f, 1);', 'a timer'],
    ["globalThis['setTimeout'](f, 1);", 'any global'],
    ['process.exit();', 'the process'],
    ['const p: NodeJS.Process = host.process;', 'the process'],
    ['Atomics.store(a, 0, 1);', 'memory that threads share'],
    ['async function f() {}', 'asynchronous code'],
    ['const f = async () => 1;', 'asynchronous code'],
    ['for await (const x of y) f(x);', 'asynchronous code'],
  ])('%s', (text, what) => {
    expect(impurities(treeOf({ 'src/sim/a.ts': text }))).toEqual([`src/sim/a.ts:1 uses ${what}`]);
    expect(impurities(treeOf({ 'src/daemon/a.ts': text }))).toEqual([]);
  });

  test.each(["import fs from 'fs';", "import { open } from 'node:fs';", "const z = require('zod');"])(
    '%s',
    (text) => {
      expect(impurities(treeOf({ 'src/shim/a.ts': text }))).toHaveLength(1);
    },
  );

  test.each([
    'const { random } = Math;',
    'const m = Math; m.random();',
    "Math['random']();",
    "global['Date'];",
    'AbortSignal.timeout(1);',
    "new Event('x').timeStamp;",
    'new Intl.DateTimeFormat().format();',
    'new MessageChannel();',
    'new WeakRef({});',
    "fetch('http://localhost');",
  ])('an indirect use of clock or randomness is found: %s', (text) => {
    expect(impurities(treeOf({ 'src/sim/a.ts': text }))).not.toEqual([]);
    expect(impurities(treeOf({ 'src/sim/a.ts': 'Math.max(1, Math.PI);' }))).toEqual([]);
  });

  test('only policies import zod, and only the table of members uses Atomics', () => {
    expect(impurities(treeOf({ 'src/policies/a.ts': "import { z } from 'zod';" }))).toEqual([]);
    expect(impurities(treeOf({ 'src/sim/a.ts': "import { z } from 'zod';" }))).toEqual([
      'src/sim/a.ts imports zod',
    ]);
    expect(
      impurities(treeOf({ 'src/coordinator/member-table.ts': 'Atomics.load(a, 0); Date.now();' })),
    ).toEqual(['src/coordinator/member-table.ts:1 uses the clock']);
  });

  test('a warning is allowed, the rest of the process is not', () => {
    expect(impurities(treeOf({ 'src/sim/a.ts': "process.emitWarning('old name');" }))).toEqual([]);
    expect(impurities(treeOf({ 'src/sim/a.ts': 'process.env.A;' }))).toHaveLength(1);
  });

  test('comments and strings may name the clock', () => {
    expect(
      impurities(treeOf({ 'src/sim/a.ts': "/** {@link Date} */ const a = 'Date'; // Date.now()" })),
    ).toEqual([]);
  });
});

describe('unit tests', () => {
  test.each([
    "import { spawnSync } from 'node:child_process';",
    "import { Worker } from 'node:worker_threads';",
    "import '../../dist/index.js';",
    "const main = resolve(import.meta.dirname, '../../dist/cli/main.js');",
    'const main = `dist/cli/main.js`;',
  ])('%s', (text) => {
    expect(impureUnitTests(treeOf({ 'test/unit/a.test.ts': text })).length).toBeGreaterThan(0);
    expect(impureUnitTests(treeOf({ 'test/process/a.test.ts': text }))).toEqual([]);
  });
});

describe('sizes', () => {
  const body = lines(69);
  /** Each function starts on line 2 and ends 70 lines later. */
  const functions = {
    'a function': `\nfunction f() {\n${body}\n}`,
    'an arrow function': `\nconst f = () => {\n${body}\n};`,
    'an arrow function in an object': `\nconst o = { f: () => {\n${body}\n} };`,
    'a method in an object': `\nconst o = { f() {\n${body}\n} };`,
    'a method': `class A {\nf() {\n${body}\n} }`,
    'a method named forEachMember': `class A {\nforEachMember(): void {\n${body}\n} }`,
    'a method named tryPost': `class A {\ntryPost(): boolean {\n${body}\n} }`,
    'a method named returnTokens': `class A {\nreturnTokens(): void {\n${body}\n} }`,
    'a method named switchTo': `class A {\nswitchTo(): void {\n${body}\n} }`,
    'a method named whileIdle': `class A {\nwhileIdle(): void {\n${body}\n} }`,
    'a method with parameters over several lines': `class A {\nf(\n  a: number,\n): void {\n${lines(67)}\n} }`,
    'a constructor': `class A {\nconstructor() {\n${body}\n} }`,
    'a getter': `class A {\nget a() {\n${body}\n} }`,
    'a setter': `class A {\nset a(b) {\n${body}\n} }`,
    'a private method': `class A {\n#f() {\n${body}\n} }`,
    'a generator': `\nfunction* f() {\n${body}\n}`,
    'a callback': `\nlist.forEach((one) => {\n${body}\n});`,
    'a static block': `class A {\nstatic {\n${body}\n} }`,
    'an exported default function': `\nexport default function () {\n${body}\n}`,
  };
  test.each(Object.entries(functions))('%s of 71 lines is found', (_, text) => {
    const end = text.includes('(one)') || text.includes('o = { f: ') ? 1 : 0;
    expect(longFunctions(treeOf({ 'src/a.ts': text }))).toHaveLength(1);
    expect(longFunctions(treeOf({ 'src/a.ts': text }))[0]).toMatch(
      end ? /has \d+ lines/ : /a\.ts:2 has \d+ lines/,
    );
    expect(longFunctions(treeOf({ 'src/a.ts': text.replace('  work();\n', '') }))).toEqual([]);
  });

  test('a docstring does not count', () => {
    const text = `/**\n * ${lines(9)}\n */\nfunction f() {\n${lines(68)}\n}`;
    expect(longFunctions(treeOf({ 'src/a.ts': text }))).toEqual([]);
  });

  test.each([
    "describe('a', ",
    "describe.each([1])('a', ",
    "describe.skipIf(no)('a', { timeout: 1 }, ",
    "feature('a', {}, ",
  ])('the callback of %s may be long, a function in it may not, and only in tests', (call) => {
    const text = `${call}() => {\n${body}\n});`;
    expect(longFunctions(treeOf({ 'test/a.test.ts': text }))).toEqual([]);
    expect(longFunctions(treeOf({ 'src/a.ts': text }))).toHaveLength(1);
    const inner = `${call}() => {\ntest('b', () => {\n${body}\n});\n});`;
    expect(longFunctions(treeOf({ 'test/a.test.ts': inner }))).toEqual(['test/a.test.ts:2 has 71 lines']);
  });

  test('a file of 501 lines is found unless its header gives a reason', () => {
    const text = `${lines(501)}\n`;
    expect(longFiles(treeOf({ 'src/a.ts': text }))).toEqual(['src/a.ts has 501 lines']);
    expect(longFiles(treeOf({ 'src/a.ts': `${lines(500)}\n` }))).toEqual([]);
    const reason = 'Longer than 500 lines: one table of the standard.';
    expect(longFiles(treeOf({ 'src/a.ts': `// A table. ${reason}\n${text}` }))).toEqual([]);
    expect(longFiles(treeOf({ 'src/a.ts': `/**\n * A table.\n * ${reason}\n */\n${text}` }))).toEqual([]);
    expect(longFiles(treeOf({ 'src/a.ts': `// Longer than 500 lines:\n${text}` }))).toHaveLength(1);
    expect(longFiles(treeOf({ 'src/a.ts': `${text}// ${reason}` }))).toHaveLength(1);
  });

  test('a token-bucket of 151 lines is found, and so is one that is gone', () => {
    const path = 'src/policies/token-bucket/token-bucket.ts';
    expect(longPolicies(treeOf({ [path]: `${lines(151)}\n` }))).toEqual([`${path} has 151 lines`]);
    expect(longPolicies(treeOf({ [path]: `${lines(150)}\n` }))).toEqual([]);
    expect(longPolicies(treeOf({}))).toEqual([`${path} does not exist`]);
  });

  test('a folder of 26 files is found; files of its folders do not count', () => {
    const texts = Object.fromEntries(Array.from({ length: 26 }, (_, i) => [`src/sim/a${i}.ts`, '']));
    expect(fullFolders(treeOf(texts))).toEqual(['src/sim has 26 files']);
    const { 'src/sim/a0.ts': moved, ...others } = texts;
    expect(fullFolders(treeOf({ ...others, 'src/sim/b/a0.ts': moved }))).toEqual([]);
  });
});

describe('import cycles', () => {
  const cycle = (first: string, second: string) =>
    treeOf({ 'src/a/a.ts': first, 'src/a/b.ts': second, 'src/c.ts': "import './a/a.ts';" });

  test.each([
    ['two imports', "import { b } from './b.ts';", "import { a } from './a.ts';"],
    [
      'imports of types that load the file',
      "import { type B } from './b.ts';",
      "import { a } from './a.ts';",
    ],
    ['re-exports', "export * from './b.ts';", "export { a } from './a.ts';"],
  ])('a cycle by value is found: %s', (_, first, second) => {
    expect(importCycles(cycle(first, second), ['value'])).toEqual([['src/a/a.ts', 'src/a/b.ts']]);
  });

  test('a cycle through three files and a file that imports itself are found', () => {
    const tree = treeOf({
      'src/a.ts': "import './b.ts';",
      'src/b.ts': "import './c.ts';",
      'src/c.ts': "import './a.ts';",
      'src/d.ts': "import './d.ts';",
    });
    expect(importCycles(tree, ['value'])).toEqual([['src/a.ts', 'src/b.ts', 'src/c.ts'], ['src/d.ts']]);
  });

  test.each([
    ['import type', "import type { B } from './b.ts';"],
    ['export type', "export type { B } from './b.ts';"],
    ['a type in place', "export type B = import('./b.ts').B;"],
  ])('a cycle that one %s closes is a cycle by type only', (_, first) => {
    const tree = cycle(first, "import { a } from './a.ts';");
    expect(importCycles(tree, ['value'])).toEqual([]);
    expect(importCycles(tree, ['value', 'type'])).toEqual([['src/a/a.ts', 'src/a/b.ts']]);
  });

  test.each([
    ['a specifier that ends in .js', "export * from './a.js';"],
    ['an import awaited at the top', "export const { a } = await import('./a.ts');"],
  ])('a cycle is found through %s', (_, text) => {
    const tree = treeOf({ 'src/sim/a.ts': "import { b } from './b.ts';", 'src/sim/b.ts': text });
    expect(importCycles(tree, ['value'])).toEqual([['src/sim/a.ts', 'src/sim/b.ts']]);
  });

  test('a lazy import does not close a cycle', () => {
    const tree = cycle("export const b = () => import('./b.ts');", "import { a } from './a.ts';");
    expect(importCycles(tree, ['value', 'type'])).toEqual([]);
  });

  test('an accepted cycle lies in its folder, and an entry that matches no cycle is found', () => {
    const cycles = [
      ['src/a/a.ts', 'src/a/b.ts'],
      ['src/a/c.ts', 'src/d/e.ts'],
    ];
    const accepted = [
      { folder: 'src/a', reason: '' },
      { folder: 'src/d', reason: '' },
    ];
    expect(unacceptedCycles(cycles, accepted)).toEqual({ cycles: [cycles[1]], stale: ['src/d'] });
  });
});

describe('docstrings', () => {
  const undocumented = (texts: Record<string, string>) =>
    undocumentedExports(treeOf(texts), ['src/index.ts']);

  test.each([
    'export const a = 1;',
    'export const { a } = b;',
    'export function a() {}',
    'export class a {}',
    'export interface a {}',
    'export type a = 1;',
    'const a = 1;\nexport { a };',
    '/** */\nexport const a = 1;',
    '// A comment.\nexport const a = 1;',
    '/* A comment. */\nexport const a = 1;',
  ])('an exported name without a docstring is found: %s', (text) => {
    expect(undocumented({ 'src/index.ts': text })).toEqual([expect.stringContaining('a has no docstring')]);
  });

  test.each([
    '/** A name. */\nexport const a = 1;',
    '/** A name. */\nexport async function a() {}',
    '/** A name. */\nexport function a(): void;\nexport function a(b?: number) {}',
    '/** A name. */\nconst a = 1;\nexport { a as b };',
    'const a = 1;',
  ])('a documented name is accepted: %s', (text) => {
    expect(undocumented({ 'src/index.ts': text })).toEqual([]);
  });

  test.each([
    ["export * from './b.ts';"],
    ["export { a } from './b.ts';"],
    ["export { a as c } from './b.ts';"],
    ["import { a } from './b.ts';\nexport { a };"],
    ["export type { a } from './b.ts';"],
    ["export { type a } from './b.ts';"],
  ])('%s leads to the declaration', (text) => {
    const found = [expect.stringContaining('src/c.ts:1 ')];
    const through = { 'src/b.ts': "export * from './c.ts';" };
    expect(undocumented({ ...through, 'src/index.ts': text, 'src/c.ts': 'export const a = 1;' })).toEqual(
      found,
    );
    expect(
      undocumented({ ...through, 'src/index.ts': text, 'src/c.ts': '/** A name. */ export const a = 1;' }),
    ).toEqual([]);
  });

  test('a list of constants shares the docstring at its head; another list and a function do not', () => {
    const head = '/** States. */\nexport const A = 1;\nexport const B = 2; // Second.\n';
    expect(undocumented({ 'src/index.ts': head })).toEqual([]);
    for (const text of ['\nexport const C = 3;', 'export const c = 3;', 'export function C() {}']) {
      expect(undocumented({ 'src/index.ts': head + text })).toHaveLength(1);
    }
    expect(
      undocumented({ 'src/index.ts': `// States.\n${head.split('\n').slice(1).join('\n')}` }),
    ).toHaveLength(2);
  });

  test('a name that is exported but declared nowhere is found', () => {
    expect(undocumented({ 'src/index.ts': "export { a } from './gone.ts';" })).toHaveLength(1);
  });
});

describe('entry points', () => {
  const files = ['src/cli/main.ts', 'src/index.ts', 'bench/sim.ts', 'package.json', 'scripts/install.mjs'];
  const missing = (manifest: PackageFile) => missingEntryPoints(manifest, (path) => files.includes(path));

  test('files of package.json that exist are accepted', () => {
    const manifest = {
      bin: { isoverbs: 'dist/cli/main.js' },
      exports: { '.': { types: './dist/index.d.ts', default: './dist/index.js' }, './p': './package.json' },
      scripts: { install: 'node scripts/install.mjs --out out/x', sim: 'tsc && node out/bench/sim.js' },
    };
    expect(missing(manifest)).toEqual([]);
  });

  test.each<PackageFile>([
    { bin: { isoverbs: 'dist/main.js' } },
    { exports: { '.': { default: './dist/verbs.js' } } },
    { exports: { '.': { types: './dist/verbs.d.ts' } } },
    { exports: { './verbs': './dist/verbs.js' } },
    { scripts: { bench: 'tsc && node --expose-gc out/bench/gone.js' } },
    { scripts: { docs: 'node scripts/gone.mjs --check' } },
    { scripts: { test: 'vitest run test/gone' } },
  ])('a missing file is found: %j', (manifest) => {
    expect(missing(manifest)).toHaveLength(1);
  });

  test('a worker whose module does not exist is found', () => {
    const text = "new Worker(new URL('./worker.js', import.meta.url));";
    expect(missingModules(treeOf({ 'src/mix/a.ts': text }))).toEqual(['src/mix/a.ts:1 -> ./worker.js']);
    expect(missingModules(treeOf({ 'src/mix/a.ts': text, 'src/mix/worker.ts': '' }))).toEqual([]);
  });
});
