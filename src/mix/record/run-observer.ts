/** Observers of a run of a mix. A run without observers has no code of theirs on its way. */
import type { World } from '../../sim/world.ts';

/** Sees a run of a mix, and must not change it. */
export interface RunObserver {
  /** The hosts and cables exist, but nothing has happened yet. */
  begin(world: World): void;
  /** The run has ended, perhaps early and with an error. */
  end(): void;
}
