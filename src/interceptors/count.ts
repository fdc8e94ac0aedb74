/** count: counts requests and completions. */
import type { Interceptor } from '../shim/compose.ts';
import type { Verbs } from '../verbs/verbs.ts';

/** Totals since the interceptor was created, over all providers that it wraps. */
export interface Counts {
  /** Send requests that the provider accepted. */
  sends: number;
  /** Receive requests that the provider accepted, including those of shared receive queues. */
  receives: number;
  /** Completions that were polled. */
  completions: number;
}

/** A counting interceptor; `counts` can be read at any time. */
export interface CountInterceptor extends Interceptor {
  readonly counts: Readonly<Counts>;
}

/** Creates a counting interceptor. */
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
