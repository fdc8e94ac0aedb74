/** How a policy gets WAIT and ENABLE: from the device, from the emulation below it, or not at all. */
import { ISO_WR_ENABLE } from '../../verbs/constants.ts';
import { UnsupportedError } from '../../verbs/errors.ts';
import type { Provider, WaitSupport } from '../../verbs/provider.ts';
import { VERB_NAMES } from '../../verbs/verbs.ts';
import { compose, type Interceptor } from '../compose.ts';
import { type Gate, gateOfAll } from '../gate.ts';
import type { PolicyNeeds } from '../policy.ts';
import { type EmulateWaitOptions, emulateWaitBelow } from './emulate-wait.ts';

/** Whether, and how, WAIT may be emulated for a policy. */
export interface WaitChoice extends EmulateWaitOptions {
  /** Whether WAIT and ENABLE may be emulated where the device has none. Default true. */
  emulation?: boolean;
}

/**
 * Puts the emulation below an interceptor if its policy requires WAIT and the device has none; a device's own WAIT is
 * always preferred. The interceptor throws UnsupportedError at compose time if WAIT is required, missing, and may not
 * be emulated. `outside`: interceptors that belong to it, around the policy, in the thread of the verbs only.
 */
export function withWait(
  shim: Interceptor,
  needs: PolicyNeeds['wait'],
  choice: WaitChoice = {},
  outside: readonly Interceptor[] = [],
): Interceptor {
  const { emulation = true, ...options } = choice;
  const servesApplication = shim.gate?.('emulated').executes(ISO_WR_ENABLE) !== true;
  const chain = (wait: WaitSupport) =>
    wait === 'none' && needs !== 'none' && emulation
      ? [shim, emulateWaitBelow(options, servesApplication)]
      : [shim];
  return {
    name: shim.name,
    wrap(next) {
      if (next.wait === 'none' && needs !== 'none' && !emulation) {
        throw new UnsupportedError(
          `${shim.name} requires WAIT, which provider '${next.name}' does not support, and emulation is off; allow it, or ` +
            'choose a device with WAIT (`isoverbs devices`)',
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
  'watchUncut',
  'sampleLatency',
  'policyStates',
  'policyGauges',
  'pieceQps',
  'configurePolicy',
  'describePeer',
  'setPeer',
  'namePeer',
  'adopt',
  'yieldContext',
] as const;

/** The differences between two providers, as the overrides of a single interceptor. */
function changesOf(next: Provider, composed: Provider): ReturnType<Interceptor['wrap']> {
  const changed = CHANGEABLE.filter((name) => composed[name] !== next[name]);
  return Object.fromEntries(changed.map((name) => [name, composed[name]]));
}
