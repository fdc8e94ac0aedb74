// Limits on the length of functions and files, and on the number of files.
import { dirname } from 'node:path';
import ts from 'typescript';
import { position, type SourceTree, walk } from './source-tree.ts';

export const MAX_FUNCTION_LINES = 70;
export const MAX_FILE_LINES = 500;
export const MAX_FOLDER_FILES = 25;
export const MAX_SRC_FILES = 895;

/** Policies that show how short one can be, and their maximum number of lines. */
export const SHORT_POLICIES: ReadonlyMap<string, number> = new Map([
  ['src/policies/token-bucket/token-bucket.ts', 150],
]);

/** The header comment of a longer file says why: "Longer than 500 lines: the state machine is one table." */
const REASON = /Longer than 500 lines: (?:\S+\s+){2}\S/;

/** Functions of the tests that only group tests: their callbacks may be as long as the group. */
const GROUPS = ['describe', 'feature'];

/** Functions, methods, constructors, accessors, arrow functions and static blocks of more than 70 lines. */
export function longFunctions(tree: SourceTree): string[] {
  const found: string[] = [];
  for (const [path, file] of tree) {
    const isTest = path.startsWith('test/');
    walk(file, (node) => {
      if (!hasBody(node) || (isTest && isGroup(node))) return;
      const lines = file.getLineAndCharacterOfPosition(node.end).line - lineOf(node) + 1;
      if (lines > MAX_FUNCTION_LINES) found.push(`${position(node)} has ${lines} lines`);
    });
  }
  return found;
}

const lineOf = (node: ts.Node) => node.getSourceFile().getLineAndCharacterOfPosition(node.getStart()).line;

const hasBody = (node: ts.Node) =>
  ts.isClassStaticBlockDeclaration(node) ||
  (ts.isFunctionLike(node) && 'body' in node && node.body !== undefined);

/** Whether a function is the callback of `describe(...)`, `describe.each(...)(...)` and the like. */
function isGroup(node: ts.Node): boolean {
  if (!ts.isCallExpression(node.parent) || node.parent.expression === node) return false;
  let callee: ts.Expression = node.parent.expression;
  while (ts.isCallExpression(callee) || ts.isPropertyAccessExpression(callee)) callee = callee.expression;
  return ts.isIdentifier(callee) && GROUPS.includes(callee.text);
}

const linesOf = (file: ts.SourceFile) => file.text.replace(/\n$/, '').split('\n').length;

/** Short policies that have become longer than their maximum, or are gone. */
export function longPolicies(tree: SourceTree): string[] {
  return [...SHORT_POLICIES].flatMap(([path, most]) => {
    const file = tree.get(path);
    if (file === undefined) return [`${path} does not exist`];
    return linesOf(file) > most ? [`${path} has ${linesOf(file)} lines`] : [];
  });
}

/** Files of more than 500 lines whose header comment gives no reason. */
export function longFiles(tree: SourceTree): string[] {
  const found: string[] = [];
  for (const [path, file] of tree) {
    const lines = linesOf(file);
    const start = file.statements[0]?.getStart() ?? file.text.length;
    const header = file.text.slice(0, start).replace(/^\s*(\/\/|\/?\*+)/gm, '');
    if (lines > MAX_FILE_LINES && !REASON.test(header)) found.push(`${path} has ${lines} lines`);
  }
  return found;
}

/** Folders that directly contain more than 25 files. */
export function fullFolders(tree: SourceTree): string[] {
  const counts = new Map<string, number>();
  for (const path of tree.keys()) counts.set(dirname(path), (counts.get(dirname(path)) ?? 0) + 1);
  const full = [...counts].filter(([, count]) => count > MAX_FOLDER_FILES);
  return full.map(([folder, count]) => `${folder} has ${count} files`);
}
