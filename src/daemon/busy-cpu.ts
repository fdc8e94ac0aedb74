/** The CPU of busy mode. */
import { readFileSync } from 'node:fs';
import { requirePinThread } from '../providers/rdma-core/addon.ts';
import { ConfigError, shown } from '../verbs/errors.ts';

/** More CPUs than any kernel supports. */
export const MAX_CPUS = 65_536;

/** The CPU that an option names. @throws ConfigError unless it is a whole number */
export function busyCpuOf(text: string, source: string): number {
  const cpu = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (cpu < MAX_CPUS) return cpu;
  throw new ConfigError(`${source}: must be the number of a CPU, got ${shown(text)}; ${choices()}`);
}

/**
 * Pins this thread to a CPU.
 * @throws ConfigError if there is no such CPU, or this process may not use it; UnsupportedError without the native addon
 */
export function pinTo(cpu: number): void {
  const pinThread = requirePinThread();
  try {
    pinThread(cpu);
  } catch (cause) {
    const reason = (cause as Error).message.replace(/^pinThread: /, '');
    throw new ConfigError(`busy: ${reason}; ${choices()}`, { cause });
  }
}

/** A clause that names the CPUs of this process. */
function choices(): string {
  let allowed: string | undefined;
  try {
    allowed = /^Cpus_allowed_list:\s*(\S+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1];
  } catch {
    // Without /proc, the list is unknown.
  }
  return allowed === undefined ? 'choose another CPU' : `this process may use CPU ${allowed}`;
}
