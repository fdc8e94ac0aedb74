/** Event moderation of completion queues (ibv_modify_cq(3)): one event for several completions. */

import { EV_MODERATION } from '../kernel/event-kinds.ts';
import { ARM_NONE, type Cq } from '../queues/cq.ts';
import type { World } from '../world.ts';

/**
 * Raises an event after `maxCount` completions (0: unlimited), or `periodNs` after the first of them (0:
 * never).
 */
export interface Moderation {
  readonly maxCount: number;
  readonly periodNs: number;
  /** Completions since the last event that requested one. */
  count: number;
  /** The current period; the ends of earlier ones are ignored. */
  token: number;
}

/** Sets the moderation. Completions that waited for an event under the old setting raise one at once. */
export function moderate(world: World, cq: Cq, maxCount: number, periodNs: number): void {
  const before = cq.moderation;
  // With a count of one, or neither limit, every completion raises an event.
  const plain = maxCount === 1 || (maxCount === 0 && periodNs === 0);
  const token = before === null ? 0 : (before.token + 1) | 0;
  cq.moderation = plain ? null : { maxCount, periodNs, count: 0, token };
  if (before !== null && before.count > 0) raiseEvent(world, cq);
}

/** Counts a visible completion that requests an event. Returns whether to raise one now. */
export function countCompletion(world: World, cq: Cq, moderation: Moderation): boolean {
  moderation.count++;
  if (moderation.maxCount !== 0 && moderation.count >= moderation.maxCount) {
    moderation.count = 0;
    moderation.token = (moderation.token + 1) | 0;
    cq.armed = ARM_NONE;
    return true;
  }
  if (moderation.count === 1 && moderation.periodNs > 0) {
    world.events.due[0] = world.clock[0] + moderation.periodNs;
    world.events.push(EV_MODERATION, cq.id, moderation.token, 0);
  }
  return false;
}

/** Handles the end of a period. */
export function onPeriodEnd(world: World, cq: Cq, token: number): void {
  const { moderation } = cq;
  if (moderation === null || moderation.token !== token || moderation.count === 0) return;
  moderation.count = 0;
  moderation.token = (moderation.token + 1) | 0;
  raiseEvent(world, cq);
}

function raiseEvent(world: World, cq: Cq): void {
  cq.armed = ARM_NONE;
  world.observable++;
  world.hooks.completionEvent(cq);
}
