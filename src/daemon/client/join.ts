/** What makes the policies of a thread clients of the daemon. */
import { writeSync } from 'node:fs';
import { coordinateElsewhere } from '../../coordinator/registry.ts';
import type { Hello } from '../protocol.ts';
import { DaemonClient } from './client.ts';

const LOUDNESS = ['silent', 'error', 'warn', 'info', 'debug'];

/** Plain data: it is handed to threads. */
export interface Joining {
  readonly socket: string;
  readonly hello: Omit<Hello, 'type' | 'version' | 'role'>;
  /** What a context may send as long as no daemon has answered yet. */
  readonly aloneGbps: number;
  /** What is said on stderr, each line once: a level of `log`. */
  readonly log: string;
}

/** Nobody may read stderr: that is no reason for the program to end. */
export function tell(line: string): void {
  try {
    writeSync(2, `${line}\n`);
  } catch {
    // Nobody hears of it.
  }
}

/** From now on the policies of this thread meet all others of the host, as long as there is a daemon. */
export default function joinDaemon({ socket, hello, aloneGbps, log }: Joining): void {
  const said = new Set<string>();
  const say = (line: string, isWarning: boolean) => {
    const isWanted = LOUDNESS.indexOf(log) >= LOUDNESS.indexOf(isWarning ? 'warn' : 'info');
    if (!isWanted || said.has(line)) return;
    said.add(line);
    tell(`isoverbs: ${line}`);
  };
  const client = new DaemonClient({ socket, hello, aloneGbps, say });
  process.once('exit', () => client.end());
  coordinateElsewhere((device) => client.coordinator(device));
}
