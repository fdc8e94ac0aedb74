/** Logs errors with their stack to stderr, under --log debug. */
import { escapedLines } from './escape.ts';

let isOn = false;

/** @param level of --log */
export function setLevel(level: string): void {
  isOn = level === 'debug';
}

/** The error with its stack, as a line of JSON. */
export async function debug(error: unknown): Promise<void> {
  if (!isOn) return;
  const { default: pino } = await import('pino');
  const hooks = { streamWrite: escapedLines };
  pino({ name: 'isoverbs', level: 'debug', hooks }, pino.destination({ dest: 2, sync: true })).debug(error);
}
