import { compose, type Interceptor } from '../../shim/compose.ts';
import { emulateWait } from '../../shim/emulate-wait.ts';
import { type Gate, gateOfAll } from '../../shim/gate.ts';
import { readByRemoteControl } from '../../shim/peer/remote-read.ts';
import { createShim } from '../../shim/shim.ts';
import { UnsupportedError } from '../../verbs/errors.ts';
import { type Provider, VERB_NAMES } from '../../verbs/provider.ts';
import { Lmse } from './lmse.ts';
import type { PerfOptions } from './options.ts';

/** PeRF: preemption by splitting and 0_WAITs. WAIT is emulated where the device has none. */
export function perf(options: PerfOptions): Interceptor {
  const shim = createShim(() => new Lmse(options));
  return {
    name: 'perf',
    wrap(next) {
      if (next.wait === 'none' && !options.emulation) {
        throw new UnsupportedError(
          `perf needs WAIT, which provider '${next.name}' has not, and emulation is off`,
        );
      }
      const chain = [shim];
      if (options.readByRemoteControl) {
        chain.unshift(readByRemoteControl({ minBytes: options.subMsgSizeBytes + 1 }));
      }
      if (next.wait === 'none') chain.push(emulateWait());
      return chain.length === 1 ? shim.wrap(next) : changesOf(compose(next, chain), next);
    },
    // READs by remote control are agreed on in the thread of the verbs, or not at all.
    gate(wait) {
      const interceptors = wait === 'none' ? [shim, emulateWait()] : [shim];
      return gateOfAll(
        interceptors.map((one) => one.gate?.(wait)).filter((one): one is Gate => one !== undefined),
      );
    },
  };
}

/** What a stack changes of what is below it. */
function changesOf(composed: Provider, next: Provider): ReturnType<Interceptor['wrap']> {
  const verbs = VERB_NAMES.filter((verb) => composed[verb] !== next[verb]).map((verb) => [
    verb,
    composed[verb],
  ]);
  const { wait, counters, describePeer, setPeer, adopt } = composed;
  return { ...Object.fromEntries(verbs), wait, counters, describePeer, setPeer, adopt };
}
