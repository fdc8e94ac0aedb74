// Files that package.json and worker threads name as text: the compiler does not notice when they move.
import { dirname, join, normalize } from 'node:path';
import ts from 'typescript';
import { position, type SourceTree, walk } from './source-tree.ts';

export interface PackageFile {
  readonly bin?: Readonly<Record<string, string>>;
  readonly exports?: Readonly<Record<string, string | Readonly<Record<string, string>>>>;
  readonly scripts?: Readonly<Record<string, string>>;
}

/**
 * The source of a file that the compiler writes: dist/x.js and dist/x.d.ts come from src/x.ts, out/bench from bench.
 */
function sourceOf(path: string): string {
  return normalize(path)
    .replace(/^dist\/(.*?)(\.d\.ts|\.js)$/, 'src/$1.ts')
    .replace(/^out\/bench\/(.*)\.js$/, 'bench/$1.ts');
}

/** Paths in `bin`, `exports` and `scripts` of package.json for which there is no file. */
export function missingEntryPoints(manifest: PackageFile, exists: (path: string) => boolean): string[] {
  const targets = Object.values(manifest.exports ?? {}).flatMap((entry) =>
    typeof entry === 'string' ? [entry] : Object.values(entry),
  );
  const words = Object.values(manifest.scripts ?? {}).flatMap((script) =>
    script.split(/\s+/).filter((word) => /^(dist|out\/bench|scripts|test|bench)\/[\w./-]+$/.test(word)),
  );
  const paths = [...Object.values(manifest.bin ?? {}), ...targets, ...words];
  return [...new Set(paths)].filter((path) => !exists(sourceOf(path)));
}

/** Modules named by `new URL('./worker.js', import.meta.url)` that are not in the tree. */
export function missingModules(tree: SourceTree): string[] {
  const found: string[] = [];
  for (const [path, file] of tree) {
    walk(file, (node) => {
      if (!ts.isNewExpression(node) || node.expression.getText() !== 'URL') return;
      const [name, base] = node.arguments ?? [];
      if (base?.getText() !== 'import.meta.url' || !ts.isStringLiteral(name)) return;
      if (!name.text.startsWith('.') || !name.text.endsWith('.js')) return;
      const target = normalize(join(dirname(path), name.text)).replace(/\.js$/, '.ts');
      if (target.startsWith('src/') && !tree.has(target)) found.push(`${position(node)} -> ${name.text}`);
    });
  }
  return found;
}
