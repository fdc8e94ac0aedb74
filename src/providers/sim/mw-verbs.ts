/** Memory windows of simulated devices; they are bound by posted requests (src/sim/memory/memory-windows.ts). */
import { allocWindow, freeWindow } from '../../sim/memory/memory-windows.ts';
import * as C from '../../verbs/constants.ts';
import { NoResourcesError } from '../../verbs/errors.ts';
import type { Provider } from '../../verbs/provider.ts';
import { requireInteger } from './arguments.ts';
import type { Driver } from './driver.ts';
import { LIMITS } from './limits.ts';
import type { Mw, Objects } from './objects.ts';

type MwVerbs = Pick<Provider, 'allocMw' | 'queryMw' | 'deallocMw'>;

export function mwVerbs(driver: Driver, objects: Objects): MwVerbs {
  const { pds, mws } = objects;
  const { world } = driver.sim;
  return {
    allocMw(handle, type) {
      const pd = pds.require(handle, 'allocMw');
      requireInteger('allocMw', 'type', type, C.IBV_MW_TYPE_1, C.IBV_MW_TYPE_2);
      if (mws.size >= LIMITS.maxMw) {
        throw new NoResourcesError(`allocMw: the device has ${LIMITS.maxMw} at most`, {
          verb: 'allocMw',
          errno: C.ENOMEM,
        });
      }
      const mw: Mw = { pd, window: allocWindow(world, type, pd.context.host, pd.id) };
      pd.mws++;
      return { handle: mws.add(mw), type, rkey: mw.window.key };
    },
    queryMw(handle) {
      const { type, key } = mws.require(handle, 'queryMw').window;
      return { handle, type, rkey: key };
    },
    deallocMw(handle) {
      const mw = mws.require(handle, 'deallocMw');
      freeWindow(world, mw.window);
      mw.pd.mws--;
      mws.delete(handle);
    },
  };
}
