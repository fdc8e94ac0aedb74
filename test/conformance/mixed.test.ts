import { test } from 'vitest';
import { chainNames, check, plan } from './differential.ts';

const { runs, seed } = plan('mixed');

test.each(chainNames)(
  'a program over all verbs sees no difference: %s',
  (name) => check('mixed', name, runs, seed),
  600_000,
);
