/**
 * The policy of programs that use the daemon without any other: requests pass unchanged, while the shim counts them and
 * enforces the tenant's limits.
 */
import { registryFor } from '../coordinator/registry.ts';
import type { Interceptor } from '../shim/compose.ts';
import type { Actions, Policy, QpView } from '../shim/policy.ts';
import { createShim } from '../shim/shim.ts';

/** Longer messages are counted one by one, a negligible cost for them. */
const PLAIN_BELOW_BYTES = 2 ** 21;

class PassThrough implements Policy {
  readonly name = 'none';
  readonly needs = { wait: 'none' } as const;
  readonly slots = 0;
  readonly statistics = true;

  onload(qp: QpView, _words: Uint32Array, _start: number, count: number, out?: Actions): number {
    out?.passPlain(qp, PLAIN_BELOW_BYTES);
    return count;
  }

  /** Issues requests that the limits had held and now release. */
  feed(qp: QpView, out: Actions): void {
    while (out.backlog(qp) > 0 && out.room(qp) > 0) out.pass(qp);
  }
}

/** Creates the interceptor. Its contexts are members of their devices' coordinators. */
export function passThrough(): Interceptor {
  return {
    name: 'none',
    wrap: (next) => createShim(() => new PassThrough(), { coordinator: registryFor(next) }).wrap(next),
  };
}
