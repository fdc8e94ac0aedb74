/** How a policy gets WAIT and ENABLE: from the device, from the emulation below it, or not at all. */
import { UnsupportedError } from '../../verbs/errors.ts';
import type { Provider, WaitSupport } from '../../verbs/provider.ts';
import { VERB_NAMES } from '../../verbs/verbs.ts';
import { compose, type Interceptor } from '../compose.ts';
import { type Gate, gateOfAll } from '../gate.ts';
import type { PolicyNeeds } from '../policy.ts';
import { type EmulateWaitOptions, emulateWait } from './emulate-wait.ts';

/** Whether, and how, WAIT may be emulated for a policy. */
export interface WaitChoice extends EmulateWaitOptions {
  /** Whether WAIT and ENABLE may be emulated where the device has none. Default true. */
  emulation?: boolean;
}

/**
 * Puts the emulation below an interceptor where its policy needs WAIT and the device has none. A device's own is
 * always preferred. The interceptor made throws UnsupportedError at compose time where it is needed, is not there
 * and may not be emulated. `outside`: what else belongs to it, around the policy, in the thread of the verbs only.
 */
export function withWait(
  shim: Interceptor,
  needs: PolicyNeeds['wait'],
  choice: WaitChoice = {},
  outside: readonly Interceptor[] = [],
): Interceptor {
  const { emulation = true, ...options } = choice;
  const chain = (wait: WaitSupport) =>
    wait === 'none' && needs !== 'none' && emulation ? [shim, emulateWait(options)] : [shim];
  return {
    name: shim.name,
    wrap(next) {
      if (next.wait === 'none' && needs !== 'none' && !emulation) {
        throw new UnsupportedError(
          `${shim.name} needs WAIT, which provider '${next.name}' has not, and emulation is off; allow it, or ` +
            'choose a device that has it (`isoverbs devices`)',
        );
      }
      const composed = compose(next, [...outside, ...chain(next.wait)]);
      return changesOf(next, composed);
    },
    gate(wait) {
      const gates = chain(wait).map((one) => one.gate?.(wait));
      return gateOfAll(gates.filter((one): one is Gate => one !== undefined));
    },
  };
}

const CHANGEABLE = [
  ...VERB_NAMES,
  'wait',
  'counters',
  'policyStates',
  'configurePolicy',
  'describePeer',
  'setPeer',
  'adopt',
  'yieldContext',
] as const;

/** What one provider has that another has not: as if a single interceptor had been put around it. */
function changesOf(next: Provider, composed: Provider): ReturnType<Interceptor['wrap']> {
  const changed = CHANGEABLE.filter((name) => composed[name] !== next[name]);
  return Object.fromEntries(changed.map((name) => [name, composed[name]]));
}
