/** All cases of the conformance suite. */
import type { Case } from '../suite/case.ts';
import { cases as cm } from './cm.ts';
import { cases as events } from './events.ts';
import { cases as faults } from './faults.ts';
import { cases as posting } from './posting.ts';
import { cases as queues } from './queues.ts';
import { cases as reliable } from './reliable.ts';
import { cases as shared } from './shared.ts';
import { cases as states } from './states.ts';
import { cases as unreliable } from './unreliable.ts';
import { cases as waits } from './waits.ts';
import { cases as windows } from './windows.ts';

export const cases: readonly Case[] = [
  ...reliable,
  ...faults,
  ...posting,
  ...unreliable,
  ...shared,
  ...states,
  ...windows,
  ...queues,
  ...events,
  ...waits,
  ...cm,
];
