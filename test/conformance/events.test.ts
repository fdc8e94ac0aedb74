import { test } from 'vitest';
import { chainNames, check, plan } from './differential.ts';

const { runs, seed } = plan('events');

test.each(chainNames)(
  'an event-driven program sees no difference: %s',
  (name) => check('events', name, runs, seed),
  600_000,
);
