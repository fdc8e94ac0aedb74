// Fails each verb of each example program at call 1, 2, 3 ..., once or from then on, and each of its completions. The
// program must report one error, name the right request, not hang and leave nothing behind. `npm test` fails only the
// first and the last call of each verb; `npm run test:faults` fails all.
import { afterAll, expect, test } from 'vitest';
import { FAILABLE_VERBS, type FailableVerb, type FaultOptions } from '../../src/interceptors/index.ts';
import { EXAMPLES, problems, type Run, Stage } from './sweep.ts';

const FULL = process.env.ISOVERBS_FAULTS === 'full';
const stage = new Stage();
afterAll(() => stage.close());

/** Values 1, 2, 3 ... count + 1; with the last value no call fails. */
function numbers(count: number): number[] {
  const all = Array.from({ length: count + 1 }, (_, i) => i + 1);
  return FULL ? all : [...new Set([1, count, count + 1])].filter((n) => n >= 1);
}

function plans(base: Run): FaultOptions[] {
  const verbs = Object.keys(base.calls).filter((verb): verb is FailableVerb =>
    (FAILABLE_VERBS as readonly string[]).includes(verb),
  );
  const failing = verbs.flatMap((verb) =>
    numbers(base.calls[verb]).flatMap((call) => [
      { verb, call },
      { verb, call, persistent: true },
    ]),
  );
  const completions = numbers(base.completions).map((nth) => ({ completion: 'error', nth }) as const);
  const sent = base.calls.postSend ?? 0;
  return [...failing, ...completions, ...numbers(sent).map((killAt) => ({ killAt }))];
}

/** `npm run test:long` runs the others, too. */
const SHORT = [
  'async-events',
  'completion-events',
  'file-transfer',
  'inline',
  'kv-store',
  'multicast',
  'read-write',
  'rdma-cm-echo',
  'ud-hello',
];

for (const example of Object.keys(EXAMPLES))
  test(example, {
    tags: SHORT.includes(example) ? [] : ['long'],
    timeout: FULL ? 1_800_000 : 60_000,
  }, async () => {
    const base = await stage.run(example, null);
    if (base === null) throw new Error('it hangs without any fault');
    expect(problems(base, {}, base)).toEqual([]);
    expect([base.errors, base.leftOpen]).toEqual([[], 0]);
    const all = plans(base);
    expect(all.length).toBeGreaterThan(30);
    const wrong: string[] = [];
    for (const options of all) {
      const found = problems(await stage.run(example, options), options, base);
      if (found.length > 0) wrong.push(`${JSON.stringify(options)}: ${found.join('; ')}`);
    }
    expect(wrong).toEqual([]);
  });
