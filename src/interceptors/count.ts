/** Counts what passes, in all. */
import type { Interceptor } from '../shim/compose.ts';

/** What has passed since the interceptor was made, on all providers that it is around. */
export interface Counts {
  /** Send requests that were taken. */
  sends: number;
  /** Receive requests that were taken, those of shared receive queues included. */
  receives: number;
  /** Completions that were polled. */
  completions: number;
}

/** An interceptor that counts; `counts` is read at any time. */
export interface CountInterceptor extends Interceptor {
  readonly counts: Readonly<Counts>;
}

/** Makes a counting interceptor. */
export function count(): CountInterceptor {
  const counts: Counts = { sends: 0, receives: 0, completions: 0 };
  return {
    name: 'count',
    counts,
    wrap: (next) => ({
      postSend(qp, ring, start, count) {
        const posted = next.postSend(qp, ring, start, count);
        counts.sends += posted;
        return posted;
      },
      postRecv(qp, ring, start, count) {
        const posted = next.postRecv(qp, ring, start, count);
        counts.receives += posted;
        return posted;
      },
      postSrqRecv(srq, ring, start, count) {
        const posted = next.postSrqRecv(srq, ring, start, count);
        counts.receives += posted;
        return posted;
      },
      pollCq(cq, ring, start, max) {
        const polled = next.pollCq(cq, ring, start, max);
        counts.completions += polled;
        return polled;
      },
    }),
  };
}
