/**
 * No policy: what a program under the daemon has when there is no other one. Everything goes straight; what was sent is
 * counted, and the limits of the tenant hold, which are the shim's.
 */
import { registryFor } from '../coordinator/registry.ts';
import type { Interceptor } from '../shim/compose.ts';
import type { Actions, Policy, QpView } from '../shim/policy.ts';
import { createShim } from '../shim/shim.ts';

/** Longer messages are weighed one by one, which costs them nothing. */
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

  /** What the limits held, and they let go. */
  feed(qp: QpView, out: Actions): void {
    while (out.backlog(qp) > 0 && out.room(qp) > 0) out.pass(qp);
  }
}

/** Its contexts are members of the coordinators of their devices. */
export function passThrough(): Interceptor {
  return {
    name: 'none',
    wrap: (next) => createShim(() => new PassThrough(), { coordinator: registryFor(next) }).wrap(next),
  };
}
