/** How the worker goes to rest and is woken: both halves of one handshake over the control words STATE and WAKE. */
import * as P from './protocol.ts';

/**
 * The worker rests from now on, unless a last look finds work. Returns the wake-ups until here: it may wait for more
 * than these only.
 */
export function beginRest(control: Int32Array): number {
  // Counted before it says so: who reads that it rests wakes it at once, and nobody would wake it a second time.
  const wakes = Atomics.load(control, P.WAKE);
  Atomics.store(control, P.STATE, P.ASLEEP);
  return wakes;
}

/** The worker is at work. */
export function endRest(control: Int32Array): void {
  Atomics.store(control, P.STATE, P.RUNNING);
}

/** The application's thread wakes the worker if it rests. */
export function wake(control: Int32Array): void {
  if (Atomics.load(control, P.STATE) !== P.ASLEEP) return;
  if (Atomics.compareExchange(control, P.STATE, P.ASLEEP, P.RUNNING) !== P.ASLEEP) return;
  Atomics.add(control, P.WAKE, 1);
  Atomics.notify(control, P.WAKE);
}
