/**
 * How the worker goes to sleep and is woken: both halves of a handshake over the control words STATE and
 * WAKE.
 */
import * as P from './protocol.ts';

/**
 * Announces that the worker sleeps, unless a final check finds work. @returns the number of wake-ups so far,
 * for which it must not wait
 */
export function beginSleep(control: Int32Array): number {
  // Read before the announcement: a thread that sees the worker asleep wakes it at once, and nothing would
  // wake it a second time.
  const wakes = Atomics.load(control, P.WAKE);
  Atomics.store(control, P.STATE, P.ASLEEP);
  return wakes;
}

/** The worker is running. */
export function endSleep(control: Int32Array): void {
  Atomics.store(control, P.STATE, P.RUNNING);
}

/** Called by the application's thread: wakes the worker if it sleeps. */
export function wake(control: Int32Array): void {
  if (Atomics.load(control, P.STATE) !== P.ASLEEP) return;
  if (Atomics.compareExchange(control, P.STATE, P.ASLEEP, P.RUNNING) !== P.ASLEEP) return;
  Atomics.add(control, P.WAKE, 1);
  Atomics.notify(control, P.WAKE);
}
