/** Checks of what a post names of a ring. */
import type { WrRing } from '../../sim/queues/post.ts';
import { EINVAL } from '../../verbs/constants.ts';
import { HDR_ERRNO, HDR_REASON, REASON_RANGE, within } from '../../verbs/layout.ts';

/** Whether the slots lie inside the ring; if not, the ring's header says so. */
export function inside(ring: WrRing, start: number, count: number): boolean {
  if (within(ring.capacity, start, count)) return true;
  ring.words[HDR_ERRNO] = EINVAL;
  ring.words[HDR_REASON] = REASON_RANGE;
  return false;
}
