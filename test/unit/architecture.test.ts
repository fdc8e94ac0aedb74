// The rooms of the house and what may not enter them (docs/architecture.md).
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { expect, test } from 'vitest';

const SRC = resolve(import.meta.dirname, '../../src');

/** A room may import those above it in this list, never one below. */
const ROOMS = [
  'verbs',
  'shim',
  'coordinator',
  'policies',
  'interceptors',
  'sim',
  'objects',
  'providers',
  'drivers',
  'daemon',
  'mix',
  'compare',
  'perftest',
  'papers',
  'entry',
  'cli',
];

/** Rooms that know no clock, timer, randomness, thread or file. */
const PURE = ['verbs', 'shim', 'coordinator', 'policies', 'sim'];

const BANNED: readonly [RegExp, string][] = [
  [/\bDate\b/, 'Date'],
  [/\bperformance\b/, 'performance'],
  [/\bhrtime\b/, 'hrtime'],
  [/\bMath\.random\b/, 'Math.random'],
  [/\bcrypto\b/, 'crypto'],
  [/\bset(Timeout|Interval|Immediate)\b/, 'a timer'],
  [/\bqueueMicrotask\b|\bnextTick\b/, 'a task queue'],
  [/\bprocess\b/, 'process'],
  [/\bWorker\b/, 'threads'],
  [/\bAtomics\b/, 'memory that threads share'],
  [/from 'node:/, 'a Node.js module'],
  [/\bawait\b|\basync\b/, 'async code'],
];

/** Members of one device may be in several threads: their places are taken by compare and exchange. */
const SHARED = 'coordinator/member-table.ts';

/** Modules of the registry that a room may use; the others use none. */
const PACKAGES: Record<string, string[]> = { policies: ['zod'] };

function sources(dir: string): string[] {
  return readdirSync(dir, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => join(dir, name));
}

function roomOf(file: string): string {
  const parts = relative(SRC, file).split('/');
  return parts.length === 1 ? 'entry' : parts[0];
}

function withoutComments(text: string): string {
  return text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|\s)\/\/.*$/gm, '');
}

function imports(text: string): string[] {
  return [...text.matchAll(/(?:from|import)\s*\(?\s*'([^']+)'/g)].map((match) => match[1]);
}

const files = sources(SRC);

test('every folder of src is a room', () => {
  expect([...new Set(files.map(roomOf))].filter((room) => !ROOMS.includes(room))).toEqual([]);
});

test('a room imports only those above it', () => {
  const wrong: string[] = [];
  for (const file of files) {
    const room = roomOf(file);
    for (const name of imports(readFileSync(file, 'utf8'))) {
      if (!name.startsWith('.')) continue;
      const target = roomOf(resolve(file, '..', name));
      if (ROOMS.indexOf(target) > ROOMS.indexOf(room)) wrong.push(`${relative(SRC, file)} -> ${name}`);
    }
  }
  expect(wrong).toEqual([]);
});

/** Files that are loaded with this one, itself among them. */
function loadedWith(file: string, found = new Set<string>()): Set<string> {
  if (found.has(file)) return found;
  found.add(file);
  const text = withoutComments(readFileSync(file, 'utf8'));
  for (const [, clause, name] of text.matchAll(/^(?:import|export) ([^;]*?)from '(\.[^']+)';/gm)) {
    if (!clause.startsWith('type ')) loadedWith(resolve(file, '..', name), found);
  }
  return found;
}

test.each(['../program', 'run', 'tenants', 'top'])(
  'isoverbs asks the daemon without loading policies and simulator: cli/commands/%s.ts',
  (name) => {
    const rooms = new Set([...loadedWith(join(SRC, `cli/commands/${name}.ts`))].map(roomOf));
    expect(rooms).toContain('verbs');
    for (const room of ['policies', 'sim', 'mix', 'compare', 'perftest', 'papers', 'drivers', 'objects'])
      expect(rooms).not.toContain(room);
  },
);

test('a policy imports no provider and no simulator', () => {
  const wrong = files
    .filter((file) => roomOf(file) === 'policies')
    .filter((file) =>
      imports(readFileSync(file, 'utf8')).some((name) => /\/(providers|sim|drivers)\//.test(name)),
    );
  expect(wrong).toEqual([]);
});

test('pure rooms know no clock, timer, randomness, thread or file', () => {
  const wrong: string[] = [];
  for (const file of files.filter((name) => PURE.includes(roomOf(name)))) {
    const text = withoutComments(readFileSync(file, 'utf8'));
    for (const [pattern, what] of BANNED) {
      if (relative(SRC, file) === SHARED && what === 'memory that threads share') continue;
      if (pattern.test(text)) wrong.push(`${relative(SRC, file)} uses ${what}`);
    }
    const allowed = PACKAGES[roomOf(file)] ?? [];
    for (const name of imports(text)) {
      if (!name.startsWith('.') && !allowed.includes(name))
        wrong.push(`${relative(SRC, file)} imports ${name}`);
    }
  }
  expect(wrong).toEqual([]);
});

test('the checker sees what it should see', () => {
  expect(imports("import { a } from '../sim/x.ts';\nawait import('../cli/y.ts')")).toEqual([
    '../sim/x.ts',
    '../cli/y.ts',
  ]);
  expect(withoutComments('/* Date */ a; // Date\nb')).not.toMatch(/Date/);
  expect(BANNED.some(([pattern]) => pattern.test('const t = Date.now();'))).toBe(true);
});

test('functions stay under 70 lines', () => {
  const long: string[] = [];
  for (const file of files) {
    const lines = readFileSync(file, 'utf8').split('\n');
    let start = -1;
    let indent = '';
    lines.forEach((line, i) => {
      const opens =
        /^(\s*)(?!if|for|while|switch|else|do\b|try|return|export const \w+ = \{|const \w+ = \{).*\)(: [^=]+)? (=> )?\{$/.exec(
          line,
        );
      if (start < 0 && opens) {
        start = i;
        indent = opens[1];
      } else if (start >= 0 && line.startsWith(`${indent}}`)) {
        if (i - start > 70) long.push(`${relative(SRC, file)}:${start + 1} has ${i - start} lines`);
        start = -1;
      }
    });
  }
  expect(long).toEqual([]);
});
