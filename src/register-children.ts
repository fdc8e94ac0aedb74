/** Passes the configuration to child processes and worker threads, through their environment. */
import { isAbsolute } from 'node:path';
import type { Config } from './config.ts';

type Env = Record<string, string | undefined>;

/**
 * Adds `--import` of this module to NODE_OPTIONS, as a file URL, which works from any working directory and needs no
 * quotes. Sets ISOVERBS_CONFIG and ISOVERBS_FACTS to the absolute paths of the configuration file and the facts file, for
 * the same reason. Children do not replay a recording.
 */
export function inheritByChildren(moduleUrl: string, config: Config, env: Env = process.env): void {
  const option = `--import=${moduleUrl}`;
  const options = env.NODE_OPTIONS ?? '';
  if (!options.split(/\s+/).includes(option)) env.NODE_OPTIONS = `${options} ${option}`.trim();
  if (config.file !== undefined && isAbsolute(config.file)) env.ISOVERBS_CONFIG = config.file;
  if (config.facts !== undefined) env.ISOVERBS_FACTS = config.facts;
  delete env.ISOVERBS_REPLAY;
}
