/**
 * Charges the requests that a policy issues to a core: the application's (inline), or the policy's own (worker). In
 * both cases the application's polls drive the policy, so a busy worker does not collect several completions per poll
 * as a real one would. With expensive steps the model is therefore slower than a real worker.
 *
 * If a policy lets threads post to shared queue pairs themselves, a post costs no steps of a policy, but a lock.
 */
import type { DriverName } from '../drivers/index.ts';
import type { Interceptor } from '../shim/compose.ts';
import { BUSY_UNTIL, type Core, POST_START } from '../sim/host/core.ts';
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
  /** By index of the handle of a queue pair with a lock: when its lock is free. */
  private readonly freeNs: number[] = [];
  /** With locks: queue pairs of the applications, as opposed to shared ones. */
  private readonly own = new Set<number>();
  /** The core of the application that is posting. */
  private posting: Core | undefined;

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

  /**
   * The interceptors that charge: one above the policies, which is needed only for locks, and one below them.
   * @param lockNs time that a thread takes to lock a shared queue pair once its lock is free; null: there are no locks
   */
  interceptors(lockNs: number | null): { above: readonly Interceptor[]; below: Interceptor } {
    return { above: lockNs === null ? [] : [this.aboveLocks()], below: this.below(lockNs) };
  }

  private aboveLocks(): Interceptor {
    return {
      name: 'shim-cpu-threads',
      wrap: (next) => ({
        createQp: (pd, attr) => {
          const info = next.createQp(pd, attr);
          this.own.add(info.handle);
          return info;
        },
        postSend: (qp, ring, start, count) => {
          this.posting = this.cores[handleIndex(qp)];
          const accepted = next.postSend(qp, ring, start, count);
          this.posting = undefined;
          return accepted;
        },
      }),
    };
  }

  private below(lockNs: number | null): Interceptor {
    return {
      name: 'shim-cpu',
      wrap: (next) => ({
        postSend: (qp, ring, start, count) => {
          if (this.appRings.has(ring)) return next.postSend(qp, ring, start, count);
          const { cpuAhead } = this.world;
          const before = cpuAhead[0];
          if (lockNs === null || this.own.has(qp)) this.charge(qp, count);
          else this.lock(qp, lockNs);
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

  /**
   * Delays a post call until its thread has the lock of the queue pair, which it keeps for the whole call. Threads get it in
   * the order in which they post, and spin until then. What a completion lets pass is posted by the thread that has polled
   * it, for which only the lock is charged.
   */
  private lock(qp: number, lockNs: number): void {
    const { world, times, posting } = this;
    const index = handleIndex(qp);
    const nowNs = world.clock[0];
    const endNs = posting === undefined ? nowNs + world.cpuAhead[0] : posting.times[BUSY_UNTIL];
    const startNs = posting === undefined ? endNs : posting.times[POST_START];
    const lockedNs = Math.max(startNs, this.freeNs[index] ?? 0) + lockNs;
    const delayNs = lockedNs - startNs;
    times[1] += delayNs;
    this.freeNs[index] = endNs + delayNs;
    if (posting !== undefined) posting.times[BUSY_UNTIL] = endNs + delayNs;
    world.cpuAhead[0] = endNs + delayNs - nowNs;
  }
}
