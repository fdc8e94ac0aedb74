/** Options of every command that runs mixtures on simulated devices, and what they mean. */
import type { Command } from 'commander';
import { parseSet } from '../mix/parse.ts';
import { DEFAULTS } from '../mix/spec.ts';
import type { Mix } from '../papers/engine/claim.ts';
import { TOPOLOGIES, type TopologyName } from '../sim/network/topology.ts';
import { ConfigError } from '../verbs/errors.ts';
import { parseWhole } from '../verbs/units.ts';

/** What commander makes of them: all words still. */
export interface MixWords {
  app?: string[];
  profile?: string;
  set?: string[];
  duration?: string;
  warmup?: string;
  hosts?: string;
  topology?: string;
}

/** What is there when nothing is said, in words. */
export interface MixDefaults {
  readonly apps: readonly string[];
  readonly duration: string;
  readonly warmup: string;
}

/** For an option that may be repeated. */
export const collect = (text: string, before: string[] = []) => [...before, text];

/** Adds them to a command; `defaults` is what its help says. */
export function addMixOptions(command: Command, defaults: { duration: string; warmup: string }): Command {
  return command
    .option('--app <app[:key=value,...]>', 'an application: B, M or D; may be repeated', collect)
    .option('--profile <profile>', `simulated device (default: ${DEFAULTS.profile})`)
    .option('--set <parameter=value>', 'change a parameter of the profile; may be repeated', collect)
    .option('--duration <time>', `time of the whole run (default: ${defaults.duration})`)
    .option(
      '--warmup <time>',
      `how much of it, at its beginning, does not count (default: ${defaults.warmup})`,
    )
    .option('--hosts <n>', `hosts (default: ${DEFAULTS.hosts})`)
    .option(
      '--topology <topology>',
      `${TOPOLOGIES.join(', ')} (default: cable, star for more than two hosts)`,
    );
}

/** The mixture without a policy. @throws ConfigError for a parameter that is there twice, and for hosts that are no number */
export function mixOf(words: MixWords, defaults: MixDefaults): Mix {
  const { app, profile = DEFAULTS.profile, hosts, topology } = words;
  const { duration = defaults.duration, warmup = defaults.warmup } = words;
  const set: Record<string, string> = {};
  for (const text of words.set ?? []) {
    const [name] = parseSet(text);
    if (Object.hasOwn(set, name)) throw new ConfigError(`set: '${name}' is there twice`);
    set[name] = text.slice(name.length + 1);
  }
  return {
    profile,
    set,
    duration,
    warmup,
    hosts: hosts === undefined ? DEFAULTS.hosts : parseWhole('hosts', hosts),
    // Checked where hosts are joined.
    ...(topology !== undefined && { topology: topology as TopologyName }),
    apps: app ?? defaults.apps,
  };
}
