/**
 * Tricks by which a user may try to get more than its share under the daemon: programs, and how many run when. Those that
 * `isoverbs compare --evade` simulates, too, have the same names there.
 */
import { SHARED_TRICKS } from '#src/compare/tricks.ts';

/** Users. Those from FIRST_SUBORDINATE on belong to CHEAT. */
export const CHEAT = 60_001;
export const HONEST = 60_002;
export const FIRST_SUBORDINATE = 700_000;
export const SUBORDINATES = 16;

/** What one user runs. */
export interface Trick {
  readonly name: string;
  /** The environment of test/hostile/children/greedy.mjs. */
  readonly env: Readonly<Record<string, string>>;
  /** The users whose programs run at the same time; default: one of CHEAT. */
  readonly uids?: readonly number[];
  /** Each program ends after this time and is replaced by another; default: it runs until the end. */
  readonly lifeSeconds?: number;
  /** Clients beside the program, which have contexts but send nothing; with false counters, or only with queue pairs. */
  readonly ghosts?: { readonly contexts: number; readonly lies: boolean };
}

const HOLD = { TRICK: 'hold', TURNS: '1' };
const REOPEN = { TRICK: 'reopen', TURNS: '1' };

/** What an honest program does, and so what every trick is compared with. */
export const NONE: Trick = { name: 'none', env: HOLD };

export const TRICKS: readonly Trick[] = [
  { name: 'never runs its event loop', env: { TRICK: 'hold' } },
  { name: SHARED_TRICKS.reopen, env: REOPEN },
  { name: SHARED_TRICKS.reopen8, env: { ...REOPEN, CONTEXTS: '8' } },
  { name: 'the same, and never runs its event loop', env: { TRICK: 'reopen', CONTEXTS: '8' } },
  { name: 'opens its context under ever new names', env: { TRICK: 'names', TURNS: '1' } },
  { name: SHARED_TRICKS.contexts32, env: { ...HOLD, CONTEXTS: '32' } },
  { name: SHARED_TRICKS.processes16, env: HOLD, uids: Array.from({ length: 16 }, () => CHEAT) },
  { name: 'is one short process after the other', env: HOLD, lifeSeconds: 0.25 },
  {
    name: `is processes of ${SUBORDINATES} subordinate users`,
    env: HOLD,
    uids: Array.from({ length: SUBORDINATES }, (_, i) => FIRST_SUBORDINATE + i),
  },
  {
    name: 'has 64 ghosts: contexts that live but send nothing',
    env: HOLD,
    ghosts: { contexts: 64, lies: false },
  },
  { name: 'has 64 contexts with false counters', env: HOLD, ghosts: { contexts: 64, lies: true } },
];
