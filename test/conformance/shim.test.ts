import { test } from 'vitest';
import { chainNames, check, plan } from './differential.ts';

const { runs, seed } = plan('reliable');

test.each(chainNames)('a program cannot tell: %s', (name) => check('reliable', name, runs, seed), 600_000);
