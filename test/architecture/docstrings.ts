// Docstrings of exported names, including declarations behind re-exports.
import ts from 'typescript';
import { position, references, type SourceTree } from './source-tree.ts';

/** Exported names of these files whose declaration has no docstring. */
export function undocumentedExports(tree: SourceTree, paths: Iterable<string>): string[] {
  const found = new Set<string>();
  for (const path of paths) {
    for (const [name, declaration] of exportsOf(tree, path)) {
      if (declaration === null) found.add(`${path} exports ${name}, which is declared nowhere`);
      else if (!isDocumented(declaration)) found.add(`${position(declaration)} ${name} has no docstring`);
    }
  }
  return [...found];
}

type Declarations = Map<string, ts.Node | null>;

/** Exported names of a file with their declarations; null where there is no declaration in the tree. */
function exportsOf(tree: SourceTree, path: string, seen: readonly string[] = []): Declarations {
  const file = tree.get(path);
  const found: Declarations = new Map();
  if (file === undefined || seen.includes(path)) return found;
  const from = (specifier: ts.Expression): Declarations => {
    const name = (specifier as ts.StringLiteral).text;
    const target = references(file).find((reference) => reference.specifier === name)?.target ?? '';
    return exportsOf(tree, target, [...seen, path]);
  };
  for (const statement of file.statements) {
    if (ts.isExportDeclaration(statement)) {
      const { exportClause: clause, moduleSpecifier } = statement;
      if (clause === undefined) for (const [name, node] of from(moduleSpecifier!)) found.set(name, node);
      else if (ts.isNamespaceExport(clause)) found.set(clause.name.text, statement);
      else {
        const source = moduleSpecifier === undefined ? localsOf(file, from) : from(moduleSpecifier);
        for (const { name, propertyName } of clause.elements) {
          found.set(name.text, source.get((propertyName ?? name).text) ?? null);
        }
      }
    } else if (ts.isExportAssignment(statement)) {
      found.set('default', statement);
    } else if (isExported(statement)) {
      for (const name of declaredNames(statement)) if (!found.has(name)) found.set(name, statement);
    }
  }
  return found;
}

/** Names that a file declares or imports, with their declarations. */
function localsOf(file: ts.SourceFile, from: (specifier: ts.Expression) => Declarations): Declarations {
  const found: Declarations = new Map();
  for (const statement of file.statements) {
    if (ts.isImportDeclaration(statement)) {
      const bindings = statement.importClause?.namedBindings;
      if (bindings === undefined || !ts.isNamedImports(bindings)) continue;
      const source = from(statement.moduleSpecifier);
      for (const { name, propertyName } of bindings.elements) {
        found.set(name.text, source.get((propertyName ?? name).text) ?? null);
      }
    } else {
      for (const name of declaredNames(statement)) if (!found.has(name)) found.set(name, statement);
    }
  }
  return found;
}

function declaredNames(statement: ts.Statement): string[] {
  if (ts.isVariableStatement(statement)) {
    return statement.declarationList.declarations.flatMap(({ name }) => boundNames(name));
  }
  const { name } = statement as ts.Statement & { name?: ts.Node };
  if (name !== undefined && ts.isIdentifier(name)) return [name.text];
  return isExported(statement) ? ['default'] : [];
}

function boundNames(name: ts.BindingName): string[] {
  if (ts.isIdentifier(name)) return [name.text];
  return name.elements.flatMap((element) =>
    ts.isOmittedExpression(element) ? [] : boundNames(element.name),
  );
}

const isExported = (node: ts.Node) =>
  ts.canHaveModifiers(node) &&
  ts.getModifiers(node)?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) === true;

/** Whether a non-empty comment of the form `/** ... *\/` stands directly before a declaration, or before its list. */
function isDocumented(node: ts.Node): boolean {
  const isOwn = ts
    .getJSDocCommentsAndTags(node)
    .some((part) => ts.isJSDoc(part) && /\w/.test(part.getText()));
  const previous = isOwn ? undefined : previousInList(node);
  return isOwn || (previous !== undefined && isDocumented(previous));
}

/** Uppercase constants on consecutive lines are a list, which has one docstring at its head. */
function previousInList(node: ts.Node): ts.Node | undefined {
  const { statements } = node.getSourceFile();
  const previous = statements[statements.indexOf(node as ts.Statement) - 1];
  if (!isConstant(node) || previous === undefined || !isConstant(previous)) return undefined;
  const between = node.getSourceFile().text.slice(previous.end, node.getStart());
  return /\n\s*\n/.test(between) ? undefined : previous;
}

const isConstant = (node: ts.Node): boolean =>
  ts.isVariableStatement(node) &&
  node.declarationList.declarations.every(({ name }) => /^[A-Z][A-Z\d_]*$/.test(name.getText()));
