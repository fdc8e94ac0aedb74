/**
 * Charges what a policy does by itself to a core: the application's (inline), or one of its own (worker). In both it is
 * the application's polls that let the policy go on, so a worker that is busy does not put completions together as
 * its own polls would: with dear steps it comes out slower here than it is.
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
  /** By index of the queue pair's handle: the application's core. */
  private readonly cores: Core[] = [];
  /** Rings of the applications: what is posted from them, they have paid for. */
  private readonly appRings = new Set<number>();
  /** Until when the worker's core is busy; and how long the policy has computed, in all. */
  private readonly times = new Float64Array(2);

  constructor(world: World, driver: DriverName, costs: Readonly<ShimCosts>) {
    this.world = world;
    this.costs = costs;
    this.isWorker = driver === 'worker';
  }

  /** Core time that the policy has used. */
  get usedNs(): number {
    return this.times[1];
  }

  /** A queue pair of an application, the ring that it posts from, and who posts. */
  assignCore(qp: number, ring: number, core: Core): void {
    this.cores[handleIndex(qp)] = core;
    this.appRings.add(ring);
  }

  /** To be put below the policies. */
  interceptor(): Interceptor {
    return {
      name: 'shim-cpu',
      wrap: (next) => ({
        postSend: (qp, ring, start, count) => {
          if (this.appRings.has(ring)) return next.postSend(qp, ring, start, count);
          const { cpuAhead } = this.world;
          const before = cpuAhead[0];
          this.charge(qp, count);
          const taken = next.postSend(qp, ring, start, count);
          cpuAhead[0] = before;
          return taken;
        },
      }),
    };
  }

  /** The batch leaves when the core that makes it has done so. */
  private charge(qp: number, count: number): void {
    const { world, times } = this;
    const { shimPostNs, shimWrNs, handoverNs } = this.costs;
    const nowNs = world.clock[0];
    const costNs = shimPostNs + count * shimWrNs;
    times[1] += costNs;
    const core = this.cores[handleIndex(qp)];
    if (this.isWorker || core === undefined) {
      // What the application has posted reaches the worker when that call is over, and some time later.
      const readyNs = nowNs + world.cpuAhead[0] + (this.isWorker ? handoverNs : 0);
      times[0] = Math.max(times[0], readyNs) + costNs;
      world.cpuAhead[0] = times[0] - nowNs;
      return;
    }
    core.times[BUSY_UNTIL] = Math.max(core.times[BUSY_UNTIL], nowNs) + costNs;
    world.cpuAhead[0] = core.times[BUSY_UNTIL] - nowNs;
  }
}
