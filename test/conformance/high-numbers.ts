/**
 * Running numbers count mod 2^32. Here they begin at a number that the test chooses, so that they wrap within a program:
 * those of sends and of the device's completion queues, and those of receives on a bare device only, because a shim
 * cannot be given them.
 */
import type { Fabric } from '../../src/providers/sim/index.ts';
import type { Interceptor } from '../../src/shim/compose.ts';

/** Numbers just below the ends of the 31-bit and 32-bit ranges. */
export const ENDS = [0x7ffffffa, -6] as const;

/** The chain over a device; the numbers of both begin at `first`. */
export function highNumbers(fabric: Fabric, first: number, chain: readonly Interceptor[]): Interceptor[] {
  const { qps, cqs } = fabric.simulation.world;
  // An outer shim creates internal queue pairs, which count from 0; the first queue pair is the application's.
  let isNext = false;
  const outer: Interceptor = {
    name: 'high-numbers',
    wrap: (next) => ({
      createQp(pd, attr) {
        const isTheirs = attr.managed !== true;
        isNext = isTheirs;
        const info = next.createQp(pd, attr);
        // A shim ignores smaller numbers, so the numbers rise in steps small enough for it to accept.
        const steps = [0x40000000, 0x7fffffff, 0xbfffffff | 0].filter((at) => at >>> 0 < first >>> 0);
        for (const at of isTheirs ? [...steps, first] : []) next.adopt?.qp(info.handle, at, at, (at - 1) | 0);
        return info;
      },
      createCq(context, cqe, channel, options) {
        const info = next.createCq(context, cqe, channel, options);
        const cq = cqs.find((one) => one?.handle === info.handle);
        if (cq !== undefined) cq.written = cq.visible = cq.polled = cq.waitIndex = first;
        return info;
      },
    }),
  };
  const inner: Interceptor = {
    name: 'count-high',
    wrap: (next) => ({
      createQp(pd, attr) {
        const info = next.createQp(pd, attr);
        const qp = isNext ? qps.find((one) => one?.handle === info.handle) : undefined;
        isNext = false;
        if (qp === undefined) return info;
        qp.sq.posted = first;
        if (chain.length === 0) qp.rq.posted = first;
        // The numbers are set; the tested calls follow.
        qp.reset();
        return info;
      },
    }),
  };
  return [outer, ...chain, inner];
}
