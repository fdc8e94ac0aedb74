/** ibv_rereg_mr(3) and its kin on simulated devices. */
import * as C from '../../verbs/constants.ts';
import { InvalidArgumentError } from '../../verbs/errors.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { MrChange } from '../../verbs/types.ts';
import { unsupportedVerbs } from '../../verbs/unsupported.ts';
import { requireObject } from './arguments.ts';
import type { Driver } from './driver.ts';
import { infoOf, requireUnbound } from './memory-verbs.ts';
import { requireAccess, requireMemory } from './mr-checks.ts';
import { type Mr, type Objects, sameContext } from './objects.ts';

export function mrChanges(driver: Driver, objects: Objects): Pick<Provider, 'reregMr' | 'regDmabufMr'> {
  const { pds, mrs } = objects;
  const { regions } = driver.sim.world;
  return {
    reregMr(handle, change) {
      const mr = mrs.require(handle, 'reregMr');
      const { pd, access, translation } = checkedChange(objects, change, mr);
      requireUnbound('reregMr', mr);
      const { memory, byteOffset, lengthBytes } = translation;
      const to = pd === 0 ? mr.pd : pds.require(pd, 'reregMr');
      mr.region = regions.replace(mr.region, to.id, memory, byteOffset, lengthBytes, access);
      mr.pd.mrs.delete(mr);
      mr.pd = to;
      to.mrs.add(mr);
      return infoOf(handle, mr);
    },
    ...unsupportedVerbs({ regDmabufMr: 'simulated devices reach no memory of other devices' }),
  };
}

/** @throws InvalidArgumentError for a change of nothing, or to what can not be */
function checkedChange(objects: Objects, change: MrChange, mr: Mr): Required<MrChange> {
  requireObject('reregMr', 'change', change);
  const { pd, access, translation } = change;
  if (pd === undefined && access === undefined && translation === undefined) {
    throw new InvalidArgumentError('reregMr: change must name pd, access or translation', {
      verb: 'reregMr',
      errno: C.EINVAL,
    });
  }
  if (pd !== undefined) {
    sameContext('reregMr', 'change.pd', objects.pds.require(pd, 'reregMr').context, mr.pd.context);
  }
  if (access !== undefined) requireAccess('reregMr', access);
  const { buffer: memory, byteOffset } = mr.region.bytes;
  const to = translation ?? { memory, byteOffset, lengthBytes: mr.region.lengthBytes };
  requireObject('reregMr', 'change.translation', to);
  requireMemory('reregMr', to.memory, to.byteOffset, to.lengthBytes);
  return { pd: pd ?? 0, access: access ?? mr.region.access, translation: to };
}
