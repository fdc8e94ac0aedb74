/** The steps that every policy takes: the oldest held request of a queue pair, a piece of it, or all that is held. */
import type { Actions, QpView } from '../../shim/policy.ts';

/** The queue pair cannot issue anything now. `feed` is called when that changes. */
export const BLOCKED = -1;

/**
 * Issues the oldest held request of a queue pair, or a piece of `maxBytes` if it is longer and may be cut. Executes it
 * if it is a WAIT for completions or an ENABLE. Returns the message bytes issued, or BLOCKED: nothing is held, there is
 * no room, or a WAIT is not satisfied yet.
 *
 * At the limits of a device, a queue pair has room for one slot at a time. A piece would then take the slot of the rest
 * of its message, so the last slot is kept for whole messages; with nothing in flight that could free more, the message
 * goes whole.
 */
export function step(qp: QpView, out: Actions, maxBytes: number): number {
  if (out.backlog(qp) === 0) return BLOCKED;
  if (out.isCrossChannel(qp)) return out.execute(qp) ? 0 : BLOCKED;
  const room = out.room(qp);
  if (room === 0) return BLOCKED;
  const bytes = out.nextBytes(qp);
  const mustGoWhole = room === 1 && out.inflight(qp) === 0;
  if (bytes <= maxBytes || mustGoWhole || !out.splittable(qp)) {
    out.pass(qp);
    return bytes;
  }
  if (room === 1) return BLOCKED;
  out.piece(qp, maxBytes);
  return maxBytes;
}

/** Issues everything that a queue pair holds, as far as there is room and its WAITs are satisfied. */
export function passAll(qp: QpView, out: Actions): void {
  while (out.backlog(qp) > 0) {
    if (out.isCrossChannel(qp)) {
      if (!out.execute(qp)) return;
    } else {
      if (out.room(qp) < 1) return;
      out.pass(qp);
    }
  }
}
