import { test } from 'vitest';
import { tagsOfWay } from './chains.ts';
import { chainNames, check, plan } from './differential.ts';

const { runs, seed } = plan('events');

for (const name of chainNames) {
  test(
    `an event-driven program sees no difference: ${name}`,
    { tags: tagsOfWay(name), timeout: 600_000 },
    () => check('events', name, runs, seed),
  );
}
