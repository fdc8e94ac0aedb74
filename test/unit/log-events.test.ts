// Each line of the daemon's log has a code that docs/operations.md lists, and each code of the page is used.
import { readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import ts from 'typescript';
import { expect, test } from 'vitest';
import { walk } from '../architecture/source-tree.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const FILES = [
  'src/cli/commands/daemon.ts',
  ...readdirSync(join(ROOT, 'src/daemon'), { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('.ts') && !path.startsWith('client'))
    .map((path) => join('src/daemon', path)),
];
const METHODS = ['info', 'warn', 'warnError', 'error', 'debug', 'write'];

/** The code that a call of a log gives its line; null: it has none; undefined: it is no such call, or passes one on. */
function eventOf(call: ts.CallExpression): string | null | undefined {
  const { expression } = call;
  if (!ts.isPropertyAccessExpression(expression) || !METHODS.includes(expression.name.text)) return undefined;
  const text = expression.expression.getText();
  const isPino = /(^|\.)(log|logger)$/.test(text);
  const isOwn = /(^|\.)connectionLog$/.test(text) || (text === 'this' && expression.name.text !== 'debug');
  const [first] = call.arguments;
  if (isPino) {
    if (first === undefined || !ts.isObjectLiteralExpression(first)) return null;
    const property = first.properties.find((one) => one.name?.getText() === 'event');
    if (property !== undefined && ts.isShorthandPropertyAssignment(property)) return undefined;
    if (property === undefined || !ts.isPropertyAssignment(property)) return null;
    return ts.isStringLiteral(property.initializer) ? property.initializer.text : null;
  }
  if (!isOwn || first === undefined) return undefined;
  return ts.isStringLiteral(first) ? first.text : undefined;
}

test('every line of the log has a documented event, and every documented event exists', () => {
  const used = new Set<string>();
  const without: string[] = [];
  for (const path of FILES) {
    const file = ts.createSourceFile(
      path,
      readFileSync(join(ROOT, path), 'utf8'),
      ts.ScriptTarget.Latest,
      true,
    );
    walk(file, (node) => {
      if (!ts.isCallExpression(node)) return;
      const event = eventOf(node);
      if (event === null) without.push(`${path}: ${node.getText()}`);
      else if (event !== undefined) used.add(event);
    });
  }
  expect(without).toEqual([]);
  const page = readFileSync(join(ROOT, 'docs/operations.md'), 'utf8');
  const table = page.slice(page.indexOf('| event | line |'), page.indexOf('## When something fails'));
  const documented = [...table.matchAll(/^\| ((?:`[\w-]+`(?:, )?)+) \|/gm)].flatMap(([, cell]) =>
    [...cell.matchAll(/`([\w-]+)`/g)].map(([, code]) => code),
  );
  expect([...used].sort()).toEqual(documented.sort());
});
