import fc from 'fast-check';
import { expect, test } from 'vitest';
import { chains } from './chains.ts';
import { eventProgram, runEvents } from './events.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 150);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_121);

for (const [name, { chain, wait }] of Object.entries(chains)) {
  test(`an event-driven program cannot tell: ${name}`, async () => {
    await fc.assert(
      fc.asyncProperty(eventProgram, async (p) => {
        const bare = await runEvents(p, [], wait);
        expect(bare.unfinished).not.toContain(true);
        expect(await runEvents(p, chain(), wait)).toEqual(bare);
      }),
      { numRuns: RUNS, seed: SEED, interruptAfterTimeLimit: 60_000 },
    );
  });
}
