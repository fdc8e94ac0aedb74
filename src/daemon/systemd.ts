/** What the daemon tells systemd of its state (man sd_notify), if systemd started it. */
import { hrtime } from 'node:process';
import { requireIpc } from './ipc/native.ts';

/** `NAME=value` by name, as sd_notify(3) has them. */
export type States = Readonly<Record<string, string | number>>;

/** What is nobody's while systemd waits: why it could not be told; '': it was, or did not ask. */
export function notifySystemd(states: States, env: NodeJS.ProcessEnv = process.env): string {
  const address = env.NOTIFY_SOCKET;
  if (!address) return '';
  if (!/^[/@]./.test(address)) return `NOTIFY_SOCKET=${address} is no Unix socket`;
  const lines = Object.entries(states).map(([name, value]) => `${name}=${value}\n`);
  try {
    const send = requireIpc().sendDatagram;
    if (send === undefined) return 'the native addon was built from older sources';
    return send(address, Buffer.from(lines.join(''))) ? '' : 'it does not read what it is told';
  } catch (error) {
    return (error as Error).message;
  }
}

/** RELOADING=1 must say when it began, by the clock that systemd uses. */
export function reloading(): States {
  return { RELOADING: 1, MONOTONIC_USEC: `${hrtime.bigint() / 1000n}` };
}

/** Between two signs of life, half of what systemd waits for them; null: it waits for none of this process. */
export function watchdogMs(env: NodeJS.ProcessEnv = process.env): number | null {
  const { WATCHDOG_USEC, WATCHDOG_PID } = env;
  if (WATCHDOG_PID !== undefined && Number(WATCHDOG_PID) !== process.pid) return null;
  const us = Number(WATCHDOG_USEC);
  return us > 0 && Number.isFinite(us) ? us / 2000 : null;
}
