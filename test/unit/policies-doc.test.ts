// docs/policies.md documents every member of the interfaces that a policy implements and uses.
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import ts from 'typescript';
import { expect, test } from 'vitest';

const ROOT = resolve(import.meta.dirname, '../..');
const read = (path: string) => readFileSync(resolve(ROOT, path), 'utf8');

/** Names of the members of an interface. */
function membersOf(sourceText: string, interfaceName: string): string[] {
  const file = ts.createSourceFile('source.ts', sourceText, ts.ScriptTarget.Latest, true);
  const found = file.statements.find(
    (node): node is ts.InterfaceDeclaration =>
      ts.isInterfaceDeclaration(node) && node.name.text === interfaceName,
  );
  if (found === undefined) throw new Error(`the source declares no interface ${interfaceName}`);
  return found.members.flatMap(({ name }) => name?.getText(file) ?? []);
}

/** The names in a page's inline code: `pass` of `pass(qp)`, `index` of `qp.index`. Code blocks do not count. */
function namesOf(pageText: string): Set<string> {
  const prose = pageText.replace(/^```[\s\S]*?^```/gm, '');
  const spans = [...prose.matchAll(/`([^`\n]+)`/g)].map((match) => match[1]);
  return new Set(spans.flatMap((span) => /^(?:\w+\.)*(\w+)(?=$|\()/.exec(span)?.[1] ?? []));
}

/** Members of an interface that a page does not name in backticks. */
function missingMembers(sourceText: string, interfaceName: string, pageText: string): string[] {
  const names = namesOf(pageText);
  return membersOf(sourceText, interfaceName).filter((member) => !names.has(member));
}

/** A section of a page with its subsections, because interfaces have members of the same name. */
function sectionOf(pageText: string, heading: string): string {
  const [, section] = pageText.split(`\n## ${heading}\n`);
  if (section === undefined) throw new Error(`the page has no section '${heading}'`);
  return section.split(/^## /m)[0];
}

test.each([
  ['Policy', 'src/shim/policy.ts', 'The policy'],
  ['PolicyNeeds', 'src/shim/policy.ts', 'The policy'],
  ['Actions', 'src/shim/policy.ts', 'Actions'],
  ['QpView', 'src/shim/views.ts', 'Queue pairs and contexts'],
  ['ContextView', 'src/shim/views.ts', 'Queue pairs and contexts'],
  ['Agent', 'src/coordinator/agent.ts', 'Agents'],
  ['AgentActions', 'src/coordinator/agent.ts', 'Agents'],
  ['Resources', 'src/shim/resources.ts', "Queue pairs of the policy's own"],
])('every member of %s (%s) is documented under "%s"', (name, path, heading) => {
  const section = sectionOf(read('docs/policies.md'), heading);
  expect(missingMembers(read(path), name, section)).toEqual([]);
});

test('missingMembers() finds a member that was added to Actions, and no other', () => {
  const source = read('src/shim/policy.ts');
  const planted = source.replace(
    'export interface Actions {',
    'export interface Actions {\n  planted(qp: QpView): void;',
  );
  expect(missingMembers(planted, 'Actions', read('docs/policies.md'))).toEqual(['planted']);
});

test('missingMembers() accepts inline code only, and not the names of parameters', () => {
  const source =
    'interface Other { z: 1 } interface A { readonly a?: number; b(c: number): void; c: string; d: 1; e: 1 }';
  const page = 'c `x.a` and `b(c)`, `d.f`\n\n```js\ne\n```\n';
  expect(missingMembers(source, 'A', page)).toEqual(['c', 'd', 'e']);
  expect(() => missingMembers(source, 'B', page)).toThrow('the source declares no interface B');
});
