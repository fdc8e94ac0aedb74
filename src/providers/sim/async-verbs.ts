/** Asynchronous events of simulated devices: who hears of what. */
import type { Provider } from '../../verbs/provider.ts';
import { requireListener } from './arguments.ts';
import type { Driver } from './driver.ts';
import type { Context, Objects } from './objects.ts';

type AsyncVerbs = Pick<Provider, 'watchAsyncEvents' | 'refAsyncEvents'>;

/** Numbers up to this are ports (and 0 the device), not handles. */
const LAST_PORT = 255;

export function asyncVerbs(driver: Driver, objects: Objects): AsyncVerbs {
  const { contexts, cqs, qps, srqs } = objects;
  const { world } = driver.sim;

  /** The context of a live object; undefined once it is destroyed: nobody can be told of it any more. */
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
        // The others are told all the same.
        if (context.events.length > 0) driver.tell(() => deliver(context));
        throw error;
      }
    }
  }

  function queue(context: Context, event: number, element: number): void {
    context.events.push({ event, element });
    if (context.listener === null) return;
    world.observable++;
    driver.tell(() => deliver(context));
  }

  world.hooks.raised = (host, event, element) => {
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
      if (context.events.length > 0) driver.tell(() => deliver(context));
    },
    // As with completion channels: what is to happen keeps the process alive by itself.
    refAsyncEvents(handle) {
      contexts.require(handle, 'refAsyncEvents');
    },
  };
}
