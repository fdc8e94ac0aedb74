/** All cases of the conformance suite. */
import type { Case } from '../suite/case.ts';
import { cases as faults } from './faults.ts';
import { cases as posting } from './posting.ts';
import { cases as reliable } from './reliable.ts';

export const cases: readonly Case[] = [...reliable, ...faults, ...posting];
