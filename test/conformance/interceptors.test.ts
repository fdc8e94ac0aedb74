/** Interceptors that only observe: a program does not notice them, and their files agree with what the program saw. */
// @module-tag wide
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { createReplay, readTrace, record, trace } from '../../src/interceptors/index.ts';
import { createPolicy } from '../../src/policies/index.ts';
import { type Ground, program, runProgram } from './program.ts';
import { simGround } from './sim-ground.ts';

const RUNS = Math.min(Number(process.env.ISOVERBS_RUNS ?? 15), 5000);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_121);

const folder = mkdtempSync(join(tmpdir(), 'isoverbs-conformance-'));
afterAll(() => rmSync(folder, { recursive: true }));

const perf = () =>
  createPolicy('perf', { isolation: 'always', subMsgSizeBytes: 512, zeroWaitUnitBytes: 128 });

function tally(path: string) {
  const counts = { posted: 0, completed: 0, lost: 0 };
  for (const record of readTrace(path).records()) {
    if (record.verb === 'postSend' && record.status === 'posted') counts.posted++;
    if (record.verb === 'pollCq') counts.completed++;
    counts.lost += record.lost ?? 0;
  }
  return counts;
}

test('traced outside and inside a policy that splits', async () => {
  await fc.assert(
    fc.asyncProperty(program, async (p) => {
      const bare = await runProgram(p, [], simGround());
      const [outer, inner] = ['outer', 'inner'].map((name) => trace({ file: join(folder, `${name}.trace`) }));
      const traced = await runProgram(p, [outer, perf(), inner], simGround());
      outer.close();
      inner.close();
      expect(traced).toEqual(bare);
      const application = tally(outer.files[0]);
      const device = tally(inner.files[0]);
      const taken = bare.trace.posts.reduce((sum, line) => sum + Number.parseInt(line, 10), 0);
      const seen = Object.entries(bare.trace).reduce(
        (n, [name, list]) => n + (name === 'posts' ? 0 : list.length),
        0,
      );
      expect(application).toEqual({ posted: taken, completed: seen, lost: 0 });
      expect(device.posted).toBeGreaterThanOrEqual(taken);
    }),
    { numRuns: RUNS, seed: SEED },
  );
}, 120_000);

/** The recording includes times. */
function replayGround(file: string): Ground {
  const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
  return { ...simGround(), provider: createReplay(file).provider, run: turn, advance: turn };
}

test('recorded under a policy that splits, and replayed', async () => {
  await fc.assert(
    fc.asyncProperty(program, async (p) => {
      const bare = await runProgram(p, [], simGround());
      const recorder = record({ file: join(folder, 'program.record') });
      const recorded = await runProgram(p, [recorder, perf()], simGround());
      recorder.close();
      expect(recorded).toEqual(bare);
      const replayed = await runProgram(p, [], replayGround(recorder.files[0]));
      expect({ ...replayed, data: bare.data }).toEqual(bare);
    }),
    { numRuns: RUNS, seed: SEED },
  );
}, 120_000);
