// A set of source texts as syntax trees, and what each file refers to. The tests in this folder read nothing else.
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import ts from 'typescript';

/** Syntax trees by path from the root of the repository: 'src/shim/policy.ts'. */
export type SourceTree = ReadonlyMap<string, ts.SourceFile>;

/**
 * How one file refers to another: 'value' loads it together with the file, 'type' disappears when the file is
 * compiled, 'lazy' loads it later (`import()`).
 */
export type ReferenceKind = 'value' | 'type' | 'lazy';

export interface Reference {
  /** The module as written: './issuer.ts', 'zod', 'node:fs'. */
  readonly specifier: string;
  /** Path from the root of the repository; null for a package. */
  readonly target: string | null;
  readonly kind: ReferenceKind;
}

/** Parses a set of texts, given by path from the root of the repository. */
export function treeOf(texts: Readonly<Record<string, string>>): SourceTree {
  const parse = (path: string) => ts.createSourceFile(path, texts[path], ts.ScriptTarget.Latest, true);
  return new Map(Object.keys(texts).map((path) => [path, parse(path)]));
}

/** Parses every TypeScript file below these folders of the repository. */
export function readTree(root: string, folders: readonly string[]): SourceTree {
  const paths = folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .map((name) => join(folder, name)),
  );
  return treeOf(Object.fromEntries(paths.map((path) => [path, readFileSync(join(root, path), 'utf8')])));
}

/** The part of a tree whose paths the predicate accepts. */
export function pick(tree: SourceTree, accepts: (path: string) => boolean): SourceTree {
  return new Map([...tree].filter(([path]) => accepts(path)));
}

/** Calls `visit` for a node and everything inside it. */
export function walk(node: ts.Node, visit: (node: ts.Node) => void): void {
  visit(node);
  ts.forEachChild(node, (child) => walk(child, visit));
}

/** 'src/shim/policy.ts:12', with lines counted from 1. */
export function position(node: ts.Node): string {
  const file = node.getSourceFile();
  return `${file.fileName}:${file.getLineAndCharacterOfPosition(node.getStart()).line + 1}`;
}

/** Everything that a file imports or re-exports, at the top level or nested. */
export function references(file: ts.SourceFile): Reference[] {
  const found: Reference[] = [];
  const add = (name: ts.Node | undefined, kind: ReferenceKind) => {
    if (name === undefined || !ts.isStringLiteralLike(name)) return;
    const path = normalize(join(dirname(file.fileName), name.text)).replace(/\.js$/, '.ts');
    const target = name.text.startsWith('.') ? path : null;
    found.push({ specifier: name.text, target, kind });
  };
  walk(file, (node) => {
    // `import { type A }` keeps the import statement in the compiled file: only `import type` removes it.
    if (ts.isImportDeclaration(node)) add(node.moduleSpecifier, isTypeClause(node) ? 'type' : 'value');
    else if (ts.isExportDeclaration(node)) add(node.moduleSpecifier, node.isTypeOnly ? 'type' : 'value');
    else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument))
      add(node.argument.literal, 'type');
    else if (ts.isExternalModuleReference(node)) add(node.expression, 'value');
    else if (ts.isCallExpression(node) && isLoader(node.expression))
      add(node.arguments[0], isTopLevelAwait(node) ? 'value' : 'lazy');
  });
  return found;
}

/** `await import()` outside a function is loaded together with the file. */
function isTopLevelAwait(call: ts.CallExpression): boolean {
  if (!ts.isAwaitExpression(call.parent)) return false;
  for (let node: ts.Node = call; node !== undefined; node = node.parent)
    if (ts.isFunctionLike(node)) return false;
  return true;
}

const isTypeClause = (node: ts.ImportDeclaration) =>
  node.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword;

const isLoader = (callee: ts.Expression) =>
  callee.kind === ts.SyntaxKind.ImportKeyword || (ts.isIdentifier(callee) && callee.text === 'require');
