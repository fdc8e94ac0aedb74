// The rooms of src and the direction of imports between them (docs/architecture.md).
import { references, type SourceTree } from './source-tree.ts';

/** A room may import those above it in this list, never one below. 'entry' stands for the files of src itself. */
export const ROOMS = [
  'verbs',
  'roce',
  'shim',
  'chunk-weights',
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

/** Rooms that a room must not import, although the order of the list allows it. */
const FORBIDDEN: Readonly<Record<string, readonly string[]>> = { policies: ['providers', 'sim', 'drivers'] };

/** The room of a file, by its path from the root of the repository. */
export function roomOf(path: string): string {
  const [top, room, ...rest] = path.split('/');
  if (top !== 'src') return top;
  return rest.length === 0 ? 'entry' : room;
}

/** Rooms of the tree missing from the list. */
export function unknownRooms(tree: SourceTree): string[] {
  return [...new Set([...tree.keys()].map(roomOf))].filter((room) => !ROOMS.includes(room));
}

/** Imports from a room into one below it, or out of src. */
export function wrongImports(tree: SourceTree): string[] {
  const wrong: string[] = [];
  for (const [path, file] of tree) {
    const room = roomOf(path);
    for (const { target, specifier } of references(file)) {
      if (target === null) continue;
      const other = roomOf(target);
      const isWrong =
        !ROOMS.includes(other) ||
        ROOMS.indexOf(other) > ROOMS.indexOf(room) ||
        FORBIDDEN[room]?.includes(other);
      if (isWrong) wrong.push(`${path} -> ${specifier}`);
    }
  }
  return wrong;
}

/** Imports of src that name another file of the package in a way that the other guards do not follow. */
export function indirectImports(tree: SourceTree): string[] {
  return [...tree].flatMap(([path, file]) =>
    references(file)
      .map(({ specifier }) => specifier)
      .filter(
        (name) => /^(#|isoverbs(\/|$))/.test(name) || (name.startsWith('.') && !/\.(ts|json)$/.test(name)),
      )
      .map((name) => `${path} -> ${name}`),
  );
}

/** Rooms whose code is loaded together with a file: modules that `import()` loads later do not count. */
export function roomsLoadedWith(tree: SourceTree, path: string): Set<string> {
  const loaded = new Set<string>();
  const load = (name: string) => {
    const file = tree.get(name);
    if (file === undefined || loaded.has(name)) return;
    loaded.add(name);
    for (const { target, kind } of references(file)) if (target !== null && kind === 'value') load(target);
  };
  load(path);
  return new Set([...loaded].map(roomOf));
}

/** The names of systems, which belong to their policies' folders. */
const SYSTEMS = /\bperf\b|\bmaster|\btoken-?bucket/i;
/** Rooms that serve every policy alike. */
const IMPARTIAL = ['coordinator', 'daemon'];

/** Lines of impartial rooms that name a system, in code or comments. */
export function namedSystems(tree: SourceTree): string[] {
  return [...tree].flatMap(([path, file]) =>
    path.startsWith('src/') && IMPARTIAL.includes(roomOf(path))
      ? file.text
          .split('\n')
          .flatMap((line, i) => (SYSTEMS.test(line) ? [`${path}:${i + 1} ${line.trim()}`] : []))
      : [],
  );
}
