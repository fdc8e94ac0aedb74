// Code that must not reach the machine: the pure rooms of src, and the unit tests.
import ts from 'typescript';
import { roomOf } from './rooms.ts';
import { position, references, type SourceTree, walk } from './source-tree.ts';

/** A run in virtual time is deterministic because these rooms cannot obtain anything from the machine. */
const PURE = ['verbs', 'roce', 'shim', 'chunk-weights', 'coordinator', 'policies', 'sim'];

/** Names that reach the machine, wherever they appear in the code. */
const BANNED: Readonly<Record<string, string>> = {
  Date: 'the clock',
  performance: 'the clock',
  hrtime: 'the clock',
  crypto: 'randomness',
  setTimeout: 'a timer',
  setInterval: 'a timer',
  setImmediate: 'a timer',
  queueMicrotask: 'a task queue',
  nextTick: 'a task queue',
  process: 'the process',
  Worker: 'threads',
  Atomics: 'memory that threads share',
  AbortSignal: 'a timer',
  Event: 'the clock',
  Intl: 'the clock',
  MessageChannel: 'a task queue',
  BroadcastChannel: 'a task queue',
  FinalizationRegistry: 'the garbage collector',
  WeakRef: 'the garbage collector',
  fetch: 'the network',
  globalThis: 'any global',
  global: 'any global',
  eval: 'any global',
};

/** A warning, about a renamed option for example, changes nothing in a run. */
const WARNING = 'process.emitWarning';

/** Contexts of one device may run in several threads, which claim their rows by compare-and-exchange. */
const ATOMIC_FILES = ['src/coordinator/member-table.ts'];

/** Packages that a pure room may import. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = { policies: ['zod'], roce: ['node:zlib'] };

/** Uses of the machine in the pure rooms. */
export function impurities(tree: SourceTree): string[] {
  const found: string[] = [];
  for (const [path, file] of tree) {
    if (!path.startsWith('src/') || !PURE.includes(roomOf(path))) continue;
    walk(file, (node) => {
      const what = impurityOf(node);
      if (what === BANNED.Atomics && ATOMIC_FILES.includes(path)) return;
      if (what !== undefined) found.push(`${position(node)} uses ${what}`);
    });
    const allowed = PACKAGES[roomOf(path)] ?? [];
    for (const { specifier, target } of references(file)) {
      if (target === null && !allowed.includes(specifier)) found.push(`${path} imports ${specifier}`);
    }
  }
  return found;
}

function impurityOf(node: ts.Node): string | undefined {
  if (ts.isIdentifier(node) && node.parent.getText() === WARNING) return undefined;
  // Only `Math.name` shows which function is used.
  if (ts.isIdentifier(node) && node.text === 'Math' && !isOwnerOfName(node)) return 'randomness';
  if (ts.isIdentifier(node)) return Object.hasOwn(BANNED, node.text) ? BANNED[node.text] : undefined;
  if (ts.isPropertyAccessExpression(node) && node.getText() === 'Math.random') return 'randomness';
  const isAsync =
    ts.isAwaitExpression(node) ||
    node.kind === ts.SyntaxKind.AsyncKeyword ||
    (ts.isForOfStatement(node) && node.awaitModifier !== undefined);
  return isAsync ? 'asynchronous code' : undefined;
}

const isOwnerOfName = (node: ts.Identifier) =>
  (ts.isPropertyAccessExpression(node.parent) && node.parent.expression === node) ||
  (ts.isQualifiedName(node.parent) && node.parent.left === node);

/** Modules that start processes and threads. */
const STARTERS = ['node:child_process', 'node:worker_threads', 'node:cluster'];

/** Unit tests that start a process or a thread, or that need a build. */
export function impureUnitTests(tree: SourceTree): string[] {
  const found: string[] = [];
  for (const [path, file] of tree) {
    if (!path.startsWith('test/unit/')) continue;
    for (const { specifier } of references(file)) {
      if (STARTERS.includes(specifier)) found.push(`${path} imports ${specifier}`);
    }
    walk(file, (node) => {
      if (ts.isStringLiteralLike(node) && /(^|\/)(dist|out\/bench)\//.test(node.text)) {
        found.push(`${position(node)} needs a build`);
      }
    });
  }
  return found;
}
