// Runs the code of docs/guide.md as one program, and each block of other pages as a separate program, on simulated
// devices. A block that is an excerpt of an example needs only to be the same there. Needs a build.
// @module-tag wide
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import ts from 'typescript';
import { expect, test } from 'vitest';
import { eachShort } from '../support/variants.ts';

const ROOT = resolve(import.meta.dirname, '../..');

function blocksOf(page: string): string[] {
  const text = readFileSync(resolve(ROOT, page), 'utf8');
  return [...text.matchAll(/```js\n([\s\S]*?)```/g)].map((match) => match[1]);
}

const EXAMPLES = readdirSync(resolve(ROOT, 'examples'), { recursive: true, encoding: 'utf8' })
  .filter((path) => path.endsWith('.mjs'))
  .map((path) => readFileSync(resolve(ROOT, 'examples', path), 'utf8'));

/** Whether other tests run the code, as a part of an example. */
const isExcerpt = (block: string) => EXAMPLES.some((text) => text.includes(block));

/** Closes the contexts that a block leaves open, which would otherwise be reported as leaks. */
function closing(block: string): string {
  const opened = [...block.matchAll(/const (\w+) = openDevice\(/g)].map((match) => `${match[1]}.close();`);
  return opened.filter((close) => !block.includes(close)).join(' ');
}

function node(program: string) {
  const child = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    cwd: ROOT,
    env: { ...process.env, NODE_OPTIONS: '', ISOVERBS_NO_ADDON: '1', ISOVERBS_DEVICE: 'sim0' },
    encoding: 'utf8',
    timeout: 30_000,
  });
  return { code: child.status, out: child.stdout, err: child.stderr };
}

/** Errors of a program that exists only here, as a strict TypeScript project in this folder would report them. */
function typeErrors(program: string): string[] {
  const path = resolve(ROOT, 'docs/snippets.mts');
  const options: ts.CompilerOptions = {
    target: ts.ScriptTarget.ES2023,
    module: ts.ModuleKind.NodeNext,
    types: ['node'],
    strict: true,
    noEmit: true,
    skipLibCheck: true,
  };
  const host = ts.createCompilerHost(options);
  const { fileExists, readFile, getSourceFile } = host;
  host.fileExists = (name) => name === path || fileExists(name);
  host.readFile = (name) => (name === path ? program : readFile(name));
  host.getSourceFile = (name, version, ...more) =>
    name === path ? ts.createSourceFile(name, program, version) : getSourceFile(name, version, ...more);
  const errors = ts.getPreEmitDiagnostics(ts.createProgram([path], options, host));
  return errors.map(({ file, start = 0, messageText }) => {
    const line = file?.text.slice(0, start).split('\n').length ?? 0;
    return `${line}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`;
  });
}

test('the guide is a strict TypeScript program', () => {
  expect(typeErrors(blocksOf('docs/guide.md').join('\n'))).toEqual([]);
  expect(typeErrors("import { openDevice } from 'isoverbs';\nopenDevice().allocPD();")).toHaveLength(1);
}, 60_000);

test('the TypeScript policy of docs/policies.md is its example, and compiles under strict', () => {
  const text = readFileSync(resolve(ROOT, 'docs/policies.md'), 'utf8');
  const [block] = [...text.matchAll(/```ts\n([\s\S]*?)```/g)].map((match) => match[1]);
  expect(block).toBe(readFileSync(resolve(ROOT, 'examples/policies/byte-window.ts'), 'utf8'));
  expect(typeErrors(block)).toEqual([]);
}, 60_000);

test('the guide runs from top to bottom', () => {
  const blocks = blocksOf('docs/guide.md');
  expect(blocks.length).toBeGreaterThan(4);
  const program = `${blocks.join('\n')}\nif (n > 0) throw new Error('left over');\ncontext.close(); console.log('end of the guide');`;
  const { code, out, err } = node(program);
  expect({ code, err }).toEqual({ code: 0, err: '' });
  expect(out.trimEnd().split('\n').at(-1)).toBe('end of the guide');
});

eachShort(3, [
  'README.md',
  'docs/interceptors.md',
  'docs/configuration.md',
  'docs/policies.md',
  'docs/policies/palos.md',
  'docs/wait-enable.md',
])('the code in %s runs unchanged', (page) => {
  const folder = mkdtempSync(join(tmpdir(), 'isoverbs-docs-'));
  const blocks = blocksOf(page);
  expect(blocks.length).toBeGreaterThan(0);
  try {
    for (const block of blocks.filter((one) => !isExcerpt(one))) {
      // Names devices that may be missing, and writes a file.
      const program = block
        .replace(/'(mlx5_0|rxe0)'/g, "'sim0'")
        .replace("'app.trace'", JSON.stringify(join(folder, 'app.trace')));
      expect(node(`${program}\n${closing(block)}`)).toMatchObject({ code: 0, err: '' });
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});
