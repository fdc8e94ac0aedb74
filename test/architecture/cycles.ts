// Import cycles: groups of files each of which reaches every other.
import { type ReferenceKind, references, type SourceTree } from './source-tree.ts';

/** A cycle by type that is accepted: all of its files lie in this folder. */
export interface AcceptedCycle {
  readonly folder: string;
  readonly reason: string;
}

/** Groups of files that import each other in a circle, each sorted by path. Lazy imports break a circle. */
export function importCycles(tree: SourceTree, kinds: readonly ReferenceKind[]): string[][] {
  const edges = new Map<string, string[]>();
  for (const [path, file] of tree) {
    const targets = references(file).filter(
      ({ target, kind }) => kinds.includes(kind) && tree.has(target ?? ''),
    );
    edges.set(path, [...new Set(targets.map(({ target }) => target as string))]);
  }
  const isLoop = (group: string[]) => group.length > 1 || edges.get(group[0])?.includes(group[0]);
  return components(edges)
    .filter(isLoop)
    .map((group) => group.sort());
}

/** Cycles that no entry accepts, and entries that accept no cycle. */
export function unacceptedCycles(
  cycles: readonly string[][],
  accepted: readonly AcceptedCycle[],
): { cycles: string[][]; stale: string[] } {
  const isIn = (cycle: string[], folder: string) => cycle.every((path) => path.startsWith(`${folder}/`));
  return {
    cycles: cycles.filter((cycle) => !accepted.some(({ folder }) => isIn(cycle, folder))),
    stale: accepted
      .map(({ folder }) => folder)
      .filter((folder) => !cycles.some((cycle) => isIn(cycle, folder))),
  };
}

/** Strongly connected components (Tarjan, SIAM Journal on Computing 1972). */
function components(edges: ReadonlyMap<string, readonly string[]>): string[][] {
  const order = new Map<string, number>();
  const low = new Map<string, number>();
  const stack: string[] = [];
  const found: string[][] = [];
  const visit = (path: string) => {
    order.set(path, order.size);
    low.set(path, order.get(path)!);
    stack.push(path);
    for (const next of edges.get(path)!) {
      if (!order.has(next)) visit(next);
      if (stack.includes(next)) low.set(path, Math.min(low.get(path)!, low.get(next)!));
    }
    if (low.get(path) === order.get(path)) found.push(stack.splice(stack.indexOf(path)));
  };
  for (const path of edges.keys()) if (!order.has(path)) visit(path);
  return found;
}
