// @module-tag wide
import { test } from 'vitest';
import { tagsOfWay } from './chains.ts';
import { chainNames, check, plan } from './differential.ts';

const { runs, seed } = plan('mixed');

for (const name of chainNames) {
  // shim.test.ts runs fair.
  const options = { tags: tagsOfWay(name, 'fair'), timeout: 600_000 };
  test(`a program over all verbs sees no difference: ${name}`, options, () =>
    check('mixed', name, runs, seed),
  );
}
