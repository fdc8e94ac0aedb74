/** The tests of perftest(1) that `isoverbs bench` runs. */

export type Verb = 'write' | 'send' | 'read' | 'atomic';

/** One of perftest's programs: ib_write_bw is `write_bw`. */
export interface TestKind {
  readonly name: string;
  readonly verb: Verb;
  readonly measures: 'bw' | 'lat';
}

export const TESTS: readonly TestKind[] = (['write', 'send', 'read', 'atomic'] as const).flatMap((verb) =>
  (['bw', 'lat'] as const).map((measures) => ({ name: `${verb}_${measures}`, verb, measures })),
);
