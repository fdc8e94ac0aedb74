/** The providers of mixes in real time. */
import { createRdmaCoreProvider, isAddonAvailable } from '../../providers/rdma-core/index.ts';
import { defaultSoftProvider, isSoftAvailable } from '../../providers/soft/index.ts';
import { NoDeviceError } from '../../verbs/errors.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { LiveSpec } from './spec.ts';

/** The provider of a mix. @throws NoDeviceError, UnsupportedError if it cannot be used here */
export function liveProvider({ provider }: Pick<LiveSpec, 'provider'>): Provider {
  return provider === 'soft' ? defaultSoftProvider() : createRdmaCoreProvider();
}

/** The names of its devices; none if it cannot be used here. */
export function liveDevices(spec: Pick<LiveSpec, 'provider'>): string[] {
  if (!(spec.provider === 'soft' ? isSoftAvailable() : isAddonAvailable())) return [];
  try {
    return liveProvider(spec)
      .getDeviceList()
      .map(({ name }) => name);
  } catch (error) {
    if (error instanceof NoDeviceError) return [];
    throw error;
  }
}
