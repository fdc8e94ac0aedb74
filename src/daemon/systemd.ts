/** Notifies systemd of the daemon's state (man sd_notify), if systemd started it. */
import { hrtime } from 'node:process';
import { requireIpc } from './ipc/native.ts';

/** `NAME=value` pairs as in sd_notify(3). */
export type States = Readonly<Record<string, string | number>>;

/** Notifies systemd. @returns why that failed; '' if it succeeded or systemd did not ask for it */
export function notifySystemd(states: States, env: NodeJS.ProcessEnv = process.env): string {
  const address = env.NOTIFY_SOCKET;
  if (!address) return '';
  if (!/^[/@]./.test(address)) return `NOTIFY_SOCKET=${address} is not the address of a Unix socket`;
  const lines = Object.entries(states).map(([name, value]) => `${name}=${value}\n`);
  try {
    const send = requireIpc().sendDatagram;
    if (send === undefined) return 'the native addon was built from an older version; rebuild it';
    return send(address, Buffer.from(lines.join(''))) ? '' : 'systemd does not read its socket';
  } catch (error) {
    return (error as Error).message;
  }
}

/** RELOADING=1 must carry the time at which reloading began, on the clock that systemd uses. */
export function reloading(): States {
  return { RELOADING: 1, MONOTONIC_USEC: `${hrtime.bigint() / 1000n}` };
}

/** The interval of keep-alive messages: half of systemd's timeout; null if it expects none from this process. */
export function watchdogMs(env: NodeJS.ProcessEnv = process.env): number | null {
  const { WATCHDOG_USEC, WATCHDOG_PID } = env;
  if (WATCHDOG_PID !== undefined && Number(WATCHDOG_PID) !== process.pid) return null;
  const us = Number(WATCHDOG_USEC);
  return us > 0 && Number.isFinite(us) ? us / 2000 : null;
}
