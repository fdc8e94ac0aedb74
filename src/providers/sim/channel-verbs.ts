/** Completion channels of simulated devices. */
import type { Provider } from '../../verbs/provider.ts';
import { requireListener } from './arguments.ts';
import type { Driver } from './driver.ts';
import { type Channel, type Objects, requireNoChildren } from './objects.ts';

type ChannelVerbs = Pick<
  Provider,
  'createCompChannel' | 'destroyCompChannel' | 'watchCompChannel' | 'refCompChannel'
>;

export function channelVerbs(driver: Driver, objects: Objects): ChannelVerbs {
  const { contexts, channels, cqs } = objects;
  const { world } = driver.sim;

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

  world.hooks.completionEvent = (cq) => {
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
      requireListener('watchCompChannel', listener);
      channel.listener = listener;
      if (channel.pending.length > 0) driver.tell(() => deliver(channel));
    },
    // Pending events keep the process alive by themselves (driver.ts); without any, nothing could ever arrive.
    refCompChannel(handle) {
      channels.require(handle, 'refCompChannel');
    },
  };
}
