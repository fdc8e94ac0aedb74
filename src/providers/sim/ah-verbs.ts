/** Address handles and multicast groups of simulated devices. */

import { type Ah, MULTICAST } from '../../sim/network/address.ts';
import type { World } from '../../sim/world.ts';
import * as C from '../../verbs/constants.ts';
import { InvalidArgumentError, NoResourcesError } from '../../verbs/errors.ts';
import { gidToBytes, gidToString, requireGid } from '../../verbs/gid.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { AhAttr } from '../../verbs/types.ts';
import { type HostNames, isGroup, requireAddress } from './addresses.ts';
import { requireInteger } from './arguments.ts';
import { LIMITS } from './limits.ts';
import type { Objects, Pd, QpObject } from './objects.ts';
import type { TimePump } from './time-pump.ts';

type AhVerbs = Pick<Provider, 'createAh' | 'destroyAh' | 'attachMcast' | 'detachMcast'>;

/** Used when the sender sets no hop limit. */
const DEFAULT_HOP_LIMIT = 64;

export function ahVerbs(pump: TimePump, objects: Objects, names: HostNames): AhVerbs {
  const { pds, ahs, qps } = objects;
  const { world } = pump.sim;
  world.hooks.ahOf = (handle) => ahs.get(handle)?.ah;

  function resolve(pd: Pd, attr: AhAttr): Ah {
    const dgid = requireAddress('createAh', 'attr', attr);
    const gid = gidToString(dgid);
    const group = isGroup(dgid) ? world.groups.at(gid) : null;
    const { sl = 0, trafficClass = 0, flowLabel = 0, hopLimit = 0 } = attr;
    return {
      host: pd.context.host,
      pd: pd.id,
      peerHost: group === null ? names.hostOf(gid, pd.context.host, 'createAh') : MULTICAST,
      group,
      sgid: gidToBytes(names.gidOf(pd.context.host)),
      dgid,
      sl,
      trafficClass,
      flowLabel,
      hopLimit: hopLimit === 0 ? DEFAULT_HOP_LIMIT : hopLimit,
    };
  }

  return {
    createAh(handle, attr) {
      const pd = pds.require(handle, 'createAh');
      const ah = resolve(pd, attr);
      if (ahs.size >= LIMITS.maxAh) {
        throw new NoResourcesError(`createAh: the device supports at most ${LIMITS.maxAh} address handles`, {
          verb: 'createAh',
          errno: C.ENOMEM,
        });
      }
      pd.ahs++;
      return ahs.add({ pd, ah });
    },
    destroyAh(handle) {
      const { pd } = ahs.require(handle, 'destroyAh');
      pd.ahs--;
      ahs.delete(handle);
    },
    ...mcastVerbs(world, qps),
  };
}

function mcastVerbs(world: World, qps: Objects['qps']): Pick<Provider, 'attachMcast' | 'detachMcast'> {
  return {
    attachMcast(handle, gid, lid) {
      const object = qps.require(handle, 'attachMcast');
      const group = requireMembership('attachMcast', object, gid, lid);
      if (world.groups.at(group).queuePairs.length >= LIMITS.maxMcastQpAttach) {
        throw new NoResourcesError(
          `attachMcast: a group accepts at most ${LIMITS.maxMcastQpAttach} queue pairs`,
          {
            verb: 'attachMcast',
            errno: C.ENOMEM,
          },
        );
      }
      // As with libibverbs, attaching twice is not an error, and a single detach undoes it.
      if (world.groups.attach(group, object.qp)) object.groups++;
    },
    detachMcast(handle, gid, lid) {
      const object = qps.require(handle, 'detachMcast');
      const group = requireMembership('detachMcast', object, gid, lid);
      if (!world.groups.detach(group, object.qp)) {
        throw new InvalidArgumentError(`detachMcast: the queue pair is not attached to gid ${group}`, {
          verb: 'detachMcast',
          errno: C.EINVAL,
        });
      }
      object.groups--;
    },
  };
}

/** The group's GID in canonical text. */
function requireMembership(verb: string, object: QpObject, gid: string, lid: number): string {
  const bytes = requireGid(verb, 'gid', gid);
  requireInteger(verb, 'lid', lid, 0, 0xffff);
  if (object.qp.type !== C.IBV_QPT_UD) {
    throw new InvalidArgumentError(`${verb}: qp must be an unreliable datagram queue pair (IBV_QPT_UD)`, {
      verb,
      errno: C.EINVAL,
    });
  }
  if (isGroup(bytes)) return gidToString(bytes);
  throw new InvalidArgumentError(
    `${verb}: gid must be a multicast address (ff00::/8 or ::ffff:224.0.0.0/4), got ${gid}`,
    { verb, errno: C.EINVAL },
  );
}
