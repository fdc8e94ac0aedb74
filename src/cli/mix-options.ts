/** Options shared by the commands that run mixes on simulated devices. */
import type { Command } from 'commander';
import { type Mix, mixApp } from '../mix/mixture.ts';
import { parseSet } from '../mix/parse.ts';
import { DEFAULTS } from '../mix/spec.ts';
import { TOPOLOGIES, type TopologyName } from '../sim/network/topology.ts';
import { ConfigError } from '../verbs/errors.ts';
import { parseWhole } from '../verbs/units.ts';

/** The options as commander parses them: still strings. */
export interface MixWords {
  app?: string[];
  profile?: string;
  set?: string[];
  duration?: string;
  warmup?: string;
  hosts?: string;
  topology?: string;
}

/** Defaults, as strings. */
export interface MixDefaults {
  readonly apps: readonly string[];
  readonly duration: string;
  readonly warmup: string;
}

/** Collects the values of an option that may be repeated. */
export const collect = (text: string, before: string[] = []) => [...before, text];

/** Adds the options to a command. @param defaults for the help text */
export function addMixOptions(command: Command, defaults: { duration: string; warmup: string }): Command {
  return command
    .option('--app <app[:key=value,...]>', 'application of kind B, M or D; may be repeated', collect)
    .option('--profile <profile>', `simulated device (default: ${DEFAULTS.profile})`)
    .option('--set <parameter=value>', 'override a parameter of the profile; may be repeated', collect)
    .option('--duration <time>', `length of the run, including the warm-up (default: ${defaults.duration})`)
    .option(
      '--warmup <time>',
      `time at the start of the run that is not measured (default: ${defaults.warmup})`,
    )
    .option('--hosts <n>', `number of hosts (default: ${DEFAULTS.hosts})`)
    .option(
      '--topology <topology>',
      `how hosts are connected: ${TOPOLOGIES.join(', ')} (default: cable; star for more than two hosts)`,
    );
}

/** The mix without its policy. @throws ConfigError for an invalid app, a duplicate parameter, or an invalid number of hosts */
export function mixOf(words: MixWords, defaults: MixDefaults): Mix {
  const { app, profile = DEFAULTS.profile, hosts, topology } = words;
  const { duration = defaults.duration, warmup = defaults.warmup } = words;
  const set = new Map<string, string>();
  for (const text of words.set ?? []) {
    const [name] = parseSet(text);
    if (set.has(name)) throw new ConfigError(`set: '${name}' is given twice`);
    set.set(name, text.slice(name.length + 1));
  }
  return {
    profile,
    set: Object.fromEntries(set),
    duration,
    warmup,
    hosts: hosts === undefined ? DEFAULTS.hosts : parseWhole('hosts', hosts),
    // Validated when the fabric is created.
    ...(topology !== undefined && { topology: topology as TopologyName }),
    apps: (app ?? defaults.apps).map(mixApp),
  };
}
