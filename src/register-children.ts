/** How child processes and worker threads come to have what this process has: by their environment. */
import { isAbsolute } from 'node:path';
import type { Config } from './config.ts';

type Env = Record<string, string | undefined>;

/**
 * Puts `--import` of this module into NODE_OPTIONS, as a file URL, which holds from any working directory and
 * needs no quotes; and the file of the configuration into ISOVERBS_CONFIG, for the same reason. A recording
 * is this process's alone.
 */
export function inheritByChildren(moduleUrl: string, config: Config, env: Env = process.env): void {
  const option = `--import=${moduleUrl}`;
  const options = env.NODE_OPTIONS ?? '';
  if (!options.split(/\s+/).includes(option)) env.NODE_OPTIONS = `${options} ${option}`.trim();
  if (config.file !== undefined && isAbsolute(config.file)) env.ISOVERBS_CONFIG = config.file;
  delete env.ISOVERBS_REPLAY;
}
