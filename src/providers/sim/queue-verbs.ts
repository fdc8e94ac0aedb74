/** Completion queues and completion channels of simulated devices. */
import { ARM_ANY, ARM_SOLICITED } from '../../sim/cq.ts';
import { NoResourcesError } from '../../verbs/errors.ts';
import type { Provider } from '../../verbs/provider.ts';
import { requireInteger } from './arguments.ts';
import type { Driver } from './driver.ts';
import { LIMITS } from './limits.ts';
import { type Channel, type CqObject, type Objects, requireNoChildren, sameContext } from './objects.ts';

type ChannelVerbs = Pick<
  Provider,
  'createCompChannel' | 'destroyCompChannel' | 'watchCompChannel' | 'refCompChannel'
>;
type CqVerbs = Pick<Provider, 'createCq' | 'destroyCq' | 'reqNotifyCq'>;

export function channelVerbs(driver: Driver, objects: Objects): ChannelVerbs {
  const { contexts, channels, cqs } = objects;
  const { net } = driver.sim;

  /** Tells a channel's listener of its events. */
  function deliver(channel: Channel): void {
    while (channel.listener !== null) {
      const cq = channel.pending.shift();
      if (cq === undefined) return;
      // Destroyed meanwhile: an event that nobody can read any more.
      if (objects.cqs.get(cq.cq.handle) !== cq) continue;
      try {
        channel.listener(cq.cq.handle);
      } catch (error) {
        // The others are told all the same.
        if (channel.pending.length > 0) driver.tell(() => deliver(channel));
        throw error;
      }
    }
  }

  net.hooks.completionEvent = (cq) => {
    const object = cqs.get(cq.handle);
    if (object === undefined || object.channel === null) return;
    const { channel } = object;
    channel.pending.push(object);
    if (channel.listener !== null) driver.tell(() => deliver(channel));
  };

  return {
    createCompChannel(handle) {
      const context = contexts.require(handle, 'createCompChannel');
      const channel: Channel = { context, cqs: new Set(), listener: null, pending: [] };
      context.channels.add(channel);
      return channels.add(channel);
    },
    destroyCompChannel(handle) {
      const channel = channels.require(handle, 'destroyCompChannel');
      requireNoChildren('destroyCompChannel', 'completion channel', [[channel.cqs.size, 'completion queue']]);
      channel.listener = null;
      channel.context.channels.delete(channel);
      channels.delete(handle);
    },
    watchCompChannel(handle, listener) {
      const channel = channels.require(handle, 'watchCompChannel');
      channel.listener = listener;
      if (channel.pending.length > 0) driver.tell(() => deliver(channel));
    },
    // Pending events keep the process alive by themselves (driver.ts); without any, nothing could ever arrive.
    refCompChannel(handle) {
      channels.require(handle, 'refCompChannel');
    },
  };
}

export function cqVerbs(driver: Driver, objects: Objects): CqVerbs {
  const { contexts, channels, cqs } = objects;
  return {
    createCq(handle, cqe, channelHandle) {
      const context = contexts.require(handle, 'createCq');
      requireInteger('createCq', 'cqe', cqe, 1, 2 ** 31 - 1);
      const channel = channelHandle === 0 ? null : channels.require(channelHandle, 'createCq');
      if (channel !== null) sameContext('createCq', 'channel', channel.context, context);
      if (cqe > LIMITS.maxCqe || cqs.size >= LIMITS.maxCq) {
        throw new NoResourcesError(
          `createCq: the device has ${LIMITS.maxCq} queues of at most ${LIMITS.maxCqe} completions`,
        );
      }
      const cq = driver.sim.createCq(context.host, cqe);
      const object: CqObject = { context, cq, channel, qps: new Set() };
      cq.handle = cqs.add(object);
      context.cqs.add(object);
      channel?.cqs.add(object);
      return { handle: cq.handle, cqe };
    },
    destroyCq(handle) {
      const object = cqs.require(handle, 'destroyCq');
      requireNoChildren('destroyCq', 'completion queue', [[object.qps.size, 'queue pair']]);
      driver.sim.destroyCq(object.cq);
      object.context.cqs.delete(object);
      object.channel?.cqs.delete(object);
      cqs.delete(handle);
      driver.wake();
    },
    reqNotifyCq(handle, solicitedOnly) {
      const { cq } = cqs.require(handle, 'reqNotifyCq');
      // Asking for any completion is not taken back by asking for less.
      if (cq.armed !== ARM_ANY) cq.armed = solicitedOnly ? ARM_SOLICITED : ARM_ANY;
      driver.wake();
    },
  };
}
