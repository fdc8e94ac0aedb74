/** Random mutants: operators, constants, conditions and statements of a source file, one changed at a time. */
import ts from 'typescript';

const K = ts.SyntaxKind;

export interface Mutant {
  readonly file: string;
  readonly line: number;
  readonly start: number;
  readonly end: number;
  readonly from: string;
  readonly to: string;
  /** The original line. */
  readonly source: string;
}

type Add = (node: ts.Node, to: string) => void;

/** The replacement of each operator. */
const OPERATORS = new Map<ts.SyntaxKind, string>([
  [K.LessThanToken, '<='],
  [K.LessThanEqualsToken, '<'],
  [K.GreaterThanToken, '>='],
  [K.GreaterThanEqualsToken, '>'],
  [K.EqualsEqualsEqualsToken, '!=='],
  [K.ExclamationEqualsEqualsToken, '==='],
  [K.PlusToken, '-'],
  [K.MinusToken, '+'],
  [K.AmpersandAmpersandToken, '||'],
  [K.BarBarToken, '&&'],
  [K.AmpersandToken, '|'],
  [K.PlusEqualsToken, '-='],
  [K.MinusEqualsToken, '+='],
  [K.AsteriskToken, '+'],
]);

/** All mutants of one file. */
export function candidates(file: string, text: string): Mutant[] {
  const tree = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const found: Mutant[] = [];
  const lines = text.split('\n');
  const add: Add = (node, to) => {
    const start = node.getStart(tree);
    const { line } = tree.getLineAndCharacterOfPosition(start);
    const from = text.slice(start, node.getEnd());
    if (from !== to)
      found.push({ file, line: line + 1, start, end: node.getEnd(), from, to, source: lines[line].trim() });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node) || ts.isInterfaceDeclaration(node) || ts.isTypeNode(node)) return;
    mutate(node, add);
    ts.forEachChild(node, visit);
  };
  visit(tree);
  return found;
}

function mutate(node: ts.Node, add: Add): void {
  if (ts.isBinaryExpression(node)) {
    const to = OPERATORS.get(node.operatorToken.kind);
    if (to !== undefined) add(node.operatorToken, to);
  } else if (ts.isNumericLiteral(node)) {
    add(node, String(Number(node.text) + 1));
  } else if (node.kind === K.TrueKeyword) add(node, 'false');
  else if (node.kind === K.FalseKeyword) add(node, 'true');
  else if (ts.isIfStatement(node) || ts.isConditionalExpression(node)) {
    const condition = ts.isIfStatement(node) ? node.expression : node.condition;
    add(condition, 'true');
    add(condition, 'false');
  } else if (ts.isExpressionStatement(node) && node.expression.kind !== K.SuperKeyword) add(node, ';');
  else if (ts.isPrefixUnaryExpression(node) && node.operator === K.ExclamationToken) {
    add(node, node.operand.getText());
  }
}

/** A seeded choice without repetition. */
export function choose<T>(all: readonly T[], count: number, seed: number): T[] {
  const rest = [...all];
  const chosen: T[] = [];
  let state = seed >>> 0;
  while (chosen.length < count && rest.length > 0) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    chosen.push(rest.splice(Math.floor((state / 2 ** 32) * rest.length), 1)[0]);
  }
  return chosen;
}
