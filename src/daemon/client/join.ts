/** Makes the policies of a thread clients of the daemon. */
import { writeSync } from 'node:fs';
import { setRemoteCoordinators } from '../../coordinator/registry.ts';
import type { Hello } from '../protocol.ts';
import { DaemonClient } from './client.ts';
import type { StandaloneGrants } from './remote-coordinator.ts';

const LOG_LEVELS = ['silent', 'error', 'warn', 'info', 'debug'];

/** Plain data, because it is passed to threads. */
export interface JoinOptions {
  readonly socket: string;
  readonly hello: Omit<Hello, 'type' | 'version' | 'role'>;
  /** What contexts may do until a daemon has answered. */
  readonly standalone: StandaloneGrants;
  /** The log level for messages on stderr; each line is printed once. */
  readonly log: string;
}

/** Whether messages of a level are printed at the log level of the configuration. */
export function isLogged(level: 'warn' | 'info', log: string): boolean {
  return LOG_LEVELS.indexOf(log) >= LOG_LEVELS.indexOf(level);
}

/** Failing to write to stderr must not end the program. */
export function writeStderr(line: string): void {
  try {
    writeSync(2, `${line}\n`);
  } catch {
    // There is nowhere left to report it.
  }
}

/**
 * From now on, the policies of this thread share devices with all others of the host, while there is a
 * daemon.
 */
export default function joinDaemon({ socket, hello, standalone, log }: JoinOptions): void {
  const reported = new Set<string>();
  const report = (line: string, isWarning: boolean) => {
    if (!isLogged(isWarning ? 'warn' : 'info', log) || reported.has(line)) return;
    reported.add(line);
    writeStderr(`isoverbs: ${line}`);
  };
  const client = new DaemonClient({ socket, hello, standalone, report });
  process.once('exit', () => client.finish());
  setRemoteCoordinators((device) => client.coordinator(device));
}
