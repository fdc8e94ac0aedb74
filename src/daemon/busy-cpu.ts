/** The CPU of busy mode. */
import { cpuChoices } from '../providers/rdma-core/addon.ts';
import { ConfigError, shown } from '../verbs/errors.ts';

/** More CPUs than any kernel supports. */
export const MAX_CPUS = 65_536;

/** The CPU that an option names. @throws ConfigError unless it is a whole number */
export function busyCpuOf(text: string, source: string): number {
  const cpu = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (cpu < MAX_CPUS) return cpu;
  throw new ConfigError(`${source}: must be the number of a CPU, got ${shown(text)}; ${cpuChoices()}`);
}
