/** Counts what passes, in all. */
import type { Interceptor } from '../shim/compose.ts';
import type { Verbs } from '../verbs/verbs.ts';

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
  const counted =
    (post: Verbs['postSend'], of: 'sends' | 'receives'): Verbs['postSend'] =>
    (queue, ring, start, count) => {
      const posted = post(queue, ring, start, count);
      counts[of] += posted;
      return posted;
    };
  return {
    name: 'count',
    counts,
    wrap: (next) => ({
      postSend: counted(next.postSend, 'sends'),
      postRecv: counted(next.postRecv, 'receives'),
      postSrqRecv: counted(next.postSrqRecv, 'receives'),
      pollCq(cq, ring, start, max) {
        const polled = next.pollCq(cq, ring, start, max);
        counts.completions += polled;
        return polled;
      },
    }),
  };
}
