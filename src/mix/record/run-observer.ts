/** Observers of a run of a mix. A run without observers has no code of theirs on its way. */
import type { Interceptor } from '../../shim/compose.ts';
import type { Core } from '../../sim/host/core.ts';
import type { World } from '../../sim/world.ts';

/** A queue pair of an application and its peer, by handle. */
export interface QueuePairs {
  readonly qp: number;
  readonly peer: number;
}

/** Sees a run of a mix, and must not change it. */
export interface RunObserver {
  /** The hosts and cables exist, but nothing has happened yet. */
  begin(world: World): void;
  /** The interceptors that see requests and completions of applications, and those at the device, of each host. */
  interceptors?(): { readonly above: Interceptor; readonly below: Interceptor };
  /** A core was added to a host. */
  coreAdded?(core: Core, host: number, app: string): void;
  /** A queue pair of an application, by its number, was connected for the first time. */
  connected?(app: string, queuePair: number, pair: QueuePairs): void;
  /** The run has ended, perhaps early and with an error. */
  end(): void;
}
