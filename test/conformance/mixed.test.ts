import { test } from 'vitest';
import { chainNames, check, plan } from './differential.ts';

const { runs, seed } = plan('mixed');

/** One chain of each kind; the others are variants of these. */
const SOME = [
  'pass-through',
  'arbitrary',
  'perf 256',
  'perf, in turns',
  'perf, as it finds',
  'token bucket',
  'chunk',
  'justitia',
  'palos',
  'fair',
  'tassel',
  'limited, in pieces',
];

for (const name of chainNames) {
  const options = { tags: SOME.includes(name) ? [] : ['long'], timeout: 600_000 };
  test(`a program over all verbs sees no difference: ${name}`, options, () =>
    check('mixed', name, runs, seed),
  );
}
