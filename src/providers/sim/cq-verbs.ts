/** Completion queues of simulated devices. */

import { moderate } from '../../sim/nic/event-moderation.ts';
import { ARM_ANY, ARM_SOLICITED, type Cq } from '../../sim/queues/cq.ts';
import * as C from '../../verbs/constants.ts';
import { BusyError, NoResourcesError, UnsupportedError } from '../../verbs/errors.ts';
import type { Provider } from '../../verbs/provider.ts';
import type { CqOptions } from '../../verbs/types.ts';
import { requireInteger, requireObject } from './arguments.ts';
import { LIMITS } from './limits.ts';
import { type CqObject, type Objects, requireNoChildren, sameContext } from './objects.ts';
import type { TimePump } from './time-pump.ts';

type CqVerbs = Pick<Provider, 'createCq' | 'resizeCq' | 'modifyCq' | 'destroyCq' | 'reqNotifyCq'>;

const MAX_COUNT = 2 ** 31 - 1;
const STAMPS = C.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | C.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
const WC_FLAGS = C.IBV_WC_STANDARD_FLAGS | STAMPS;

export function cqVerbs(pump: TimePump, objects: Objects): CqVerbs {
  const { contexts, channels, cqs } = objects;
  const { sim } = pump;
  return {
    createCq(handle, cqe, channelHandle, options) {
      const context = contexts.require(handle, 'createCq');
      requireInteger('createCq', 'cqe', cqe, 1, MAX_COUNT);
      const channel = channelHandle === 0 ? null : channels.require(channelHandle, 'createCq');
      if (channel !== null) sameContext('createCq', 'channel', channel.context, context);
      const stamped = wantsStamps(options);
      if (cqe > LIMITS.maxCqe || cqs.size >= LIMITS.maxCq) {
        throw new NoResourcesError(
          `createCq: the device supports at most ${LIMITS.maxCq} queues of at most ${LIMITS.maxCqe} completions`,
        );
      }
      const cq = sim.createCq(context.host, cqe, stamped);
      const object: CqObject = { context, cq, channel, qps: 0, srqs: 0 };
      cq.handle = cqs.add(object);
      context.cqs.add(object);
      channel?.cqs.add(object);
      return { handle: cq.handle, cqe };
    },
    resizeCq(handle, cqe) {
      const { cq } = cqs.require(handle, 'resizeCq');
      requireResizable(cq, cqe);
      cq.resize(cqe);
      return cqe;
    },
    modifyCq(handle, maxCount, periodUs) {
      const { cq } = cqs.require(handle, 'modifyCq');
      requireInteger('modifyCq', 'maxCount', maxCount, 0, LIMITS.maxModerationCount);
      requireInteger('modifyCq', 'periodUs', periodUs, 0, LIMITS.maxModerationPeriodUs);
      moderate(sim.world, cq, maxCount, periodUs * 1000);
      pump.start();
    },
    destroyCq(handle) {
      const object = cqs.require(handle, 'destroyCq');
      requireNoChildren('destroyCq', 'completion queue', [
        [object.qps, 'queue pair'],
        [object.srqs, 'shared receive queue'],
      ]);
      sim.destroyCq(object.cq);
      object.context.cqs.delete(object);
      object.channel?.cqs.delete(object);
      cqs.delete(handle);
      pump.start();
    },
    reqNotifyCq(handle, solicitedOnly) {
      const { cq } = cqs.require(handle, 'reqNotifyCq');
      // Arming for any completion outlasts a later request for solicited ones.
      if (cq.armed !== ARM_ANY) cq.armed = solicitedOnly ? ARM_SOLICITED : ARM_ANY;
      pump.start();
    },
  };
}

/** @throws InvalidArgumentError, NoResourcesError, BusyError when the queue cannot have this size */
function requireResizable(cq: Cq, cqe: number): void {
  requireInteger('resizeCq', 'cqe', cqe, 1, MAX_COUNT);
  if (cqe > LIMITS.maxCqe) {
    throw new NoResourcesError(`resizeCq: a queue holds at most ${LIMITS.maxCqe} completions, got ${cqe}`, {
      verb: 'resizeCq',
      errno: C.EINVAL,
    });
  }
  if (cq.waiting > cqe) {
    throw new BusyError(
      `resizeCq: ${cq.waiting} completions are waiting, more than ${cqe}; poll them first`,
      {
        verb: 'resizeCq',
        errno: C.EBUSY,
      },
    );
  }
}

/** Checks the options. Returns whether completions carry timestamps. */
function wantsStamps(options: CqOptions | undefined): boolean {
  if (options === undefined) return false;
  requireObject('createCq', 'options', options);
  const { compVector = 0, wcFlags = 0 } = options;
  requireInteger('createCq', 'options.compVector', compVector, 0, LIMITS.compVectors - 1);
  requireInteger('createCq', 'options.wcFlags', wcFlags, 0, MAX_COUNT);
  if ((wcFlags & ~WC_FLAGS) !== 0) {
    const bits = (wcFlags & ~WC_FLAGS).toString(16);
    throw new UnsupportedError(
      `createCq: options.wcFlags has 0x${bits}; this device reports the standard fields and two timestamps`,
      {
        verb: 'createCq',
        errno: C.EOPNOTSUPP,
      },
    );
  }
  return (wcFlags & STAMPS) !== 0;
}
