/**
 * Charges the requests that a policy issues to a core: the application's (inline), or the policy's own (worker). In
 * both cases the application's polls drive the policy, so a busy worker does not collect several completions per poll
 * as a real one would. With expensive steps the model is therefore slower than a real worker.
 */
import type { DriverName } from '../drivers/index.ts';
import type { Interceptor } from '../shim/compose.ts';
import { BUSY_UNTIL, type Core } from '../sim/host/core.ts';
import type { ShimCosts } from '../sim/profile/params.ts';
import type { World } from '../sim/world.ts';
import { handleIndex } from '../verbs/handles.ts';

export class ShimCpu {
  private readonly world: World;
  private readonly costs: Readonly<ShimCosts>;
  private readonly isWorker: boolean;
  /** The application's core, by index of the queue pair's handle. */
  private readonly cores: Core[] = [];
  /** Rings of the applications: they have already paid for posts from these. */
  private readonly appRings = new Set<number>();
  /** [0]: the time until which the worker's core is busy; [1]: the core time that the policy has used. */
  private readonly times = new Float64Array(2);

  constructor(world: World, driver: DriverName, costs: Readonly<ShimCosts>) {
    this.world = world;
    this.costs = costs;
    this.isWorker = driver === 'worker';
  }

  /** Core time that the policy has used so far. */
  get usedNs(): number {
    return this.times[1];
  }

  /** Registers an application's queue pair: the ring it posts from, and the core that posts. */
  assignCore(qp: number, ring: number, core: Core): void {
    this.cores[handleIndex(qp)] = core;
    this.appRings.add(ring);
  }

  /** The interceptor that charges; it belongs below the policies. */
  interceptor(): Interceptor {
    return {
      name: 'shim-cpu',
      wrap: (next) => ({
        postSend: (qp, ring, start, count) => {
          if (this.appRings.has(ring)) return next.postSend(qp, ring, start, count);
          const { cpuAhead } = this.world;
          const before = cpuAhead[0];
          this.charge(qp, count);
          const accepted = next.postSend(qp, ring, start, count);
          cpuAhead[0] = before;
          return accepted;
        },
      }),
    };
  }

  /** Delays the batch until its core has finished making it. */
  private charge(qp: number, count: number): void {
    const { world, times } = this;
    const { shimPostNs, shimWrNs, handoverNs } = this.costs;
    const nowNs = world.clock[0];
    const costNs = shimPostNs + count * shimWrNs;
    times[1] += costNs;
    const core = this.cores[handleIndex(qp)];
    if (this.isWorker || core === undefined) {
      // The worker sees a post `handoverNs` after the application's call has returned.
      const readyNs = nowNs + world.cpuAhead[0] + (this.isWorker ? handoverNs : 0);
      times[0] = Math.max(times[0], readyNs) + costNs;
      world.cpuAhead[0] = times[0] - nowNs;
      return;
    }
    core.times[BUSY_UNTIL] = Math.max(core.times[BUSY_UNTIL], nowNs) + costNs;
    world.cpuAhead[0] = core.times[BUSY_UNTIL] - nowNs;
  }
}
