/** `isoverbs init`: writes a small project that runs at once. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Command } from 'commander';
import { ConfigError } from '../../verbs/errors.ts';
import { describe } from '../manual.ts';

/** The root of this package, and its package.json. */
const ROOT = fileURLToPath(new URL('../../../', import.meta.url));
const OWN: Manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));

interface Manifest {
  version: string;
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
}

interface InitFlags {
  typescript?: boolean;
}

/** Adds `init` to the command. */
export function addInit(command: Command): void {
  const sub = command
    .command('init')
    .description('write a small project: a store, a client, and tests on simulated devices')
    .argument('[dir]', 'the folder, which is created if it does not exist', '.')
    .option('--typescript', 'write TypeScript instead of JavaScript')
    .action((dir: string, { typescript = false }: InitFlags) => init(resolve(dir), typescript));
  describe(sub, {
    about:
      'Writes a server that keeps texts in its memory, a client that reads and writes them with one-sided requests, ' +
      'and tests on a simulated fabric. Both run on a machine without RDMA. Existing files are never changed.',
    examples: [
      ['isoverbs init my-store', 'write a JavaScript project into my-store'],
      ['isoverbs init my-typed-store --typescript', 'the same in TypeScript'],
    ],
    failed: 'a file cannot be written',
    seeAlso: ['docs/guide.md', 'docs/testing.md'],
  });
}

function init(dir: string, typescript: boolean): void {
  const from = join(ROOT, 'templates', typescript ? 'typescript' : 'javascript');
  const files = new Map(readdirSync(from).map((name) => [name, readFileSync(join(from, name), 'utf8')]));
  files.set('package.json', `${JSON.stringify(manifest(dir, typescript), null, 2)}\n`);
  files.set('.gitignore', typescript ? 'node_modules\ndist\n' : 'node_modules\n');
  const there = [...files.keys()].filter((name) => existsSync(join(dir, name)));
  if (there.length > 0) {
    throw new ConfigError(
      `init: ${dir} has ${there.join(', ')} already; name another folder: isoverbs init DIR`,
    );
  }
  mkdirSync(dir, { recursive: true });
  for (const [name, text] of files) writeFileSync(join(dir, name), text);
  const within = relative('.', dir);
  const path = within.startsWith('..') ? dir : within;
  const into = path === '' ? '' : `cd ${path} && `;
  process.stdout.write(
    `Wrote ${[...files.keys()].sort().join(', ')} to ${dir}.\n\n` +
      `  ${into}npm install\n  npm start   # the store and a client in one process\n  npm test    # on simulated devices\n`,
  );
}

function manifest(dir: string, typescript: boolean): object {
  const { dependencies, devDependencies } = OWN;
  const compile = typescript ? 'tsc && ' : '';
  const at = typescript ? 'dist/' : '';
  const types = ['typescript', '@types/node'];
  return {
    name:
      basename(dir)
        .toLowerCase()
        .replace(/[^a-z0-9-]/g, '-')
        .replace(/^-+/, '') || 'store',
    private: true,
    type: 'module',
    scripts: { start: `${compile}node ${at}main.js`, test: `${compile}node --test ${at}store.test.js` },
    dependencies: { isoverbs: ownSource(), zod: dependencies.zod },
    ...(typescript && {
      devDependencies: Object.fromEntries(types.map((name) => [name, devDependencies[name]])),
    }),
  };
}

/** What a package.json names to get this package from where it came from: a clone, a tarball, git, or the registry. */
function ownSource(): string {
  const root = ROOT.replace(/[\\/]$/, '');
  const modules = dirname(root);
  if (!root.split(/[\\/]/).includes('node_modules')) return `file:${root}`;
  const resolved = resolvedIn(modules);
  if (resolved?.startsWith('file:')) return `file:${resolve(modules, '..', resolved.slice('file:'.length))}`;
  // Registries have their tarballs under `/-/`.
  return resolved === undefined || resolved.includes('/-/') ? `^${OWN.version}` : resolved;
}

/** The source that npm noted for this package in a node_modules folder; undefined without a note. */
function resolvedIn(modules: string): string | undefined {
  const lock = join(modules, '.package-lock.json');
  if (!existsSync(lock)) return undefined;
  return JSON.parse(readFileSync(lock, 'utf8')).packages?.['node_modules/isoverbs']?.resolved;
}
