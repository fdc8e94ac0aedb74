/** Completion channels and asynchronous events of simulated devices. */
import type { Provider } from '../../verbs/provider.ts';
import { requireListener } from './arguments.ts';
import { type Channel, type Context, type Objects, requireNoChildren } from './objects.ts';
import type { TimePump } from './time-pump.ts';

type AsyncVerbs = Pick<Provider, 'watchAsyncEvents' | 'refAsyncEvents'>;

/** Elements up to this number are ports (0: the device), not handles. */
const LAST_PORT = 255;

export function asyncVerbs(pump: TimePump, objects: Objects): AsyncVerbs {
  const { contexts, cqs, qps, srqs } = objects;
  const { world } = pump.sim;

  /** The context of a live object; undefined once the object is destroyed, when its events are dropped. */
  function ownerOf(element: number): Context | undefined {
    return qps.get(element)?.context ?? cqs.get(element)?.context ?? srqs.get(element)?.pd.context;
  }

  function deliver(context: Context): void {
    while (context.listener !== null) {
      const next = context.events.shift();
      if (next === undefined) return;
      if (next.element > LAST_PORT && ownerOf(next.element) === undefined) continue;
      try {
        context.listener(next.event, next.element);
      } catch (error) {
        // The remaining events are still delivered.
        if (context.events.length > 0) pump.notify(() => deliver(context));
        throw error;
      }
    }
  }

  function queue(context: Context, event: number, element: number): void {
    context.events.push({ event, element });
    if (context.listener === null) return;
    world.observable++;
    pump.notify(() => deliver(context));
  }

  world.hooks.asyncEvent = (host, event, element) => {
    if (element > LAST_PORT) {
      const context = ownerOf(element);
      if (context !== undefined) queue(context, event, element);
      return;
    }
    for (const context of contexts.values()) if (context.host === host) queue(context, event, element);
  };

  return {
    watchAsyncEvents(handle, listener) {
      const context = contexts.require(handle, 'watchAsyncEvents');
      requireListener('watchAsyncEvents', listener);
      context.listener = listener;
      if (context.events.length > 0) pump.notify(() => deliver(context));
    },
    // As with completion channels, pending events keep the process alive anyway.
    refAsyncEvents(handle) {
      contexts.require(handle, 'refAsyncEvents');
    },
  };
}

type ChannelVerbs = Pick<
  Provider,
  'createCompChannel' | 'destroyCompChannel' | 'watchCompChannel' | 'refCompChannel'
>;

export function channelVerbs(pump: TimePump, objects: Objects): ChannelVerbs {
  const { contexts, channels, cqs } = objects;
  const { world } = pump.sim;

  /** Calls the channel's listener for its pending events. */
  function deliver(channel: Channel): void {
    while (channel.listener !== null) {
      const cq = channel.pending.shift();
      if (cq === undefined) return;
      // The queue was destroyed in the meantime, so its event is dropped.
      if (objects.cqs.get(cq.cq.handle) !== cq) continue;
      try {
        channel.listener(cq.cq.handle);
      } catch (error) {
        // The remaining events are still delivered.
        if (channel.pending.length > 0) pump.notify(() => deliver(channel));
        throw error;
      }
    }
  }

  world.hooks.completionEvent = (cq) => {
    const object = cqs.get(cq.handle);
    if (object === undefined || object.channel === null) return;
    const { channel } = object;
    channel.pending.push(object);
    if (channel.listener !== null) pump.notify(() => deliver(channel));
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
      if (channel.pending.length > 0) pump.notify(() => deliver(channel));
    },
    // Pending events keep the process alive anyway (time-pump.ts), and if none are pending, none can arrive.
    refCompChannel(handle) {
      channels.require(handle, 'refCompChannel');
    },
  };
}
