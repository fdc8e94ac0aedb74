/**
 * Puts faults into the shim, one at a time, which the tests must find: each trap, by the case that it names, and nine of
 * ten random mutants. ISOVERBS_MUTANTS (default 50), ISOVERBS_SEED, ISOVERBS_JOBS,
 * ISOVERBS_TIMEOUT_S.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { equivalents } from './equivalents.ts';
import { candidates, choose, type Mutant } from './mutants.ts';
import { LIMIT_MS, type Stage, stages, suite } from './order.ts';
import { edited, traps } from './traps.ts';
import { type Ending, Tree } from './trees.ts';

const COUNT = Number(process.env.ISOVERBS_MUTANTS ?? 50);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_122);
const WANTED = 0.9;

const origin = new Tree();
const source = (file: string) => readFileSync(join(origin.path, file), 'utf8');

/** Trees that no test uses now. */
const idle: Tree[] = [];
const made: Tree[] = [];

async function inTree<T>(run: (tree: Tree) => Promise<T>): Promise<T> {
  const tree = idle.pop() ?? new Tree(origin.path);
  if (!made.includes(tree)) made.push(tree);
  try {
    return await run(tree);
  } finally {
    idle.push(tree);
  }
}

afterAll(() => {
  for (const tree of [origin, ...made]) tree.remove();
});

/**
 * A mutant under which a test does not end counts as killed, because an application would hang. To rule out a slow
 * machine, all tests must pass without a fault, each within a third of the limit.
 */
async function passes(stage: Stage): Promise<void> {
  // Files that are rewritten unchanged: the compiled result must behave like the original.
  const changes = new Map(
    ['src/shim/issue/issuer.ts', 'src/shim/posting.ts'].map((file) => [file, source(file)]),
  );
  const ending = await inTree((tree) => tree.withChanges(changes, () => tree.runTests(stage)));
  console.log(`${stage.name}, without a fault: ${JSON.stringify(ending)}`);
  expect(ending, `${stage.name}, without a fault`).toMatchObject({ killed: false });
  expect(ending.silenceMs, 'more ISOVERBS_TIMEOUT_S are needed').toBeLessThan(LIMIT_MS / 3);
}

const passed = new Map<Stage, Promise<void>>();

/** Once for each stage that is needed. */
function baseline(stage: Stage): Promise<void> {
  const known = passed.get(stage) ?? passes(stage);
  passed.set(stage, known);
  return known;
}

async function runStage(tree: Tree, stage: Stage, options: readonly string[] = []): Promise<Ending> {
  await baseline(stage);
  return tree.runTests(stage, options);
}

describe('traps', () => {
  for (const { trap, what, edits, caughtBy } of traps) {
    test.concurrent(`${trap}: ${what}`, async ({ expect: expectHere }) => {
      const changes = new Map<string, string>();
      for (const edit of edits) changes.set(edit[0], edited(changes.get(edit[0]) ?? source(edit[0]), edit));
      // Runs only those cases of the suite that the trap names.
      const only = caughtBy === undefined ? '--bail=1' : `-t=${caughtBy.replace(/[^\w ]/g, '.')}`;
      const { failed, killed } = await inTree((tree) =>
        tree.withChanges(changes, () => runStage(tree, suite, [only])),
      );
      const found = caughtBy === undefined ? killed : failed.some((name) => name.includes(caughtBy));
      expectHere(found, `${failed.length} cases fail: ${failed.slice(0, 5).join('; ')}`).toBe(true);
    });
  }
});

function shimFiles(): string[] {
  const names = readdirSync(join(origin.path, 'src/shim'), { recursive: true }).map(String);
  const files = names.filter((name) => name.endsWith('.ts')).map((name) => `src/shim/${name}`);
  return files.sort();
}

async function endingOf({ file, start, end, to }: Mutant): Promise<Ending> {
  const text = source(file);
  const changes = new Map([[file, text.slice(0, start) + to + text.slice(end)]]);
  return inTree((tree) =>
    tree.withChanges(changes, async () => {
      let ending = await runStage(tree, stages[0], ['--bail=1']);
      for (const stage of stages.slice(1))
        if (!ending.killed) ending = await runStage(tree, stage, ['--bail=1']);
      return ending;
    }),
  );
}

const isEquivalent = (mutant: Mutant) =>
  equivalents.some(
    ({ file, source: line, from, to }) =>
      file === mutant.file && line === mutant.source && from === mutant.from && to === mutant.to,
  );

describe(`random mutants, seed ${SEED}`, () => {
  const all = shimFiles().flatMap((file) => candidates(file, source(file)));
  const survivors: string[] = [];
  let killedCount = 0;
  let equivalentCount = 0;
  for (const [i, mutant] of choose(all, COUNT, SEED).entries()) {
    const { file, line, from, to } = mutant;
    test.concurrent(`${i + 1}. ${file}:${line}: ${from.split('\n')[0]} -> ${to}`, async () => {
      if (isEquivalent(mutant)) {
        equivalentCount++;
        return console.log('equivalent');
      }
      const { killed, how } = await endingOf(mutant);
      if (killed) killedCount++;
      else survivors.push(`${file}:${line}: ${from.split('\n')[0]} -> ${to}    ${mutant.source}`);
      console.log(killed ? `killed by: ${how}` : 'SURVIVED');
    });
  }

  test('nine in ten are killed', () => {
    const counted = killedCount + survivors.length;
    console.log(
      [
        `${killedCount} of ${counted} killed, ${equivalentCount} equivalent, of ${all.length} that there are`,
        ...survivors,
      ].join('\n'),
    );
    expect(killedCount).toBeGreaterThanOrEqual(WANTED * counted);
  });
});
