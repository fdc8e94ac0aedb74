import { compose, type Interceptor } from '../../shim/compose.ts';
import { emulateWait } from '../../shim/emulate-wait.ts';
import { type Gate, gateOfAll } from '../../shim/gate.ts';
import { createShim } from '../../shim/shim.ts';
import { UnsupportedError } from '../../verbs/errors.ts';
import { VERB_NAMES } from '../../verbs/provider.ts';
import { Lmse } from './lmse.ts';
import type { PerfOptions } from './options.ts';

/** PeRF: preemption by splitting and 0_WAITs. WAIT is emulated where the device has none. */
export function perf(options: PerfOptions): Interceptor {
  const shim = createShim(() => new Lmse(options));
  return {
    name: 'perf',
    wrap(next) {
      if (next.wait !== 'none') return shim.wrap(next);
      if (!options.emulation) {
        throw new UnsupportedError(
          `perf needs WAIT, which provider '${next.name}' has not, and emulation is off`,
        );
      }
      const composed = compose(next, [shim, emulateWait()]);
      const verbs = VERB_NAMES.filter((verb) => composed[verb] !== next[verb]).map((verb) => [
        verb,
        composed[verb],
      ]);
      const { wait, counters, describePeer, setPeer, adopt } = composed;
      return { ...Object.fromEntries(verbs), wait, counters, describePeer, setPeer, adopt };
    },
    gate(wait) {
      const interceptors = wait === 'none' ? [shim, emulateWait()] : [shim];
      return gateOfAll(
        interceptors.map((one) => one.gate?.(wait)).filter((one): one is Gate => one !== undefined),
      );
    },
  };
}
