/**
 * A mixture in the words of `isoverbs mix`, with its applications parsed once. Reports print it as the command that
 * repeats the run; the run itself takes a MixSpec (jobs.ts).
 */
import type { TopologyName } from '../sim/network/topology.ts';
import type { TrafficName } from '../verbs/labels.ts';
import { parseApp } from './parse.ts';
import { type AppSpec, DEFAULTS, type Kind } from './spec.ts';

/** One application: its parsed form, and the words that `--app` takes for it. */
export interface MixApp {
  readonly spec: AppSpec;
  readonly words: string;
}

/** A mixture without a seed. Quantities and the policy stay as `isoverbs mix` takes them. */
export interface Mix {
  /** A name of PROFILES. */
  readonly profile: string;
  /** Parameters that differ from the profile. */
  readonly set?: Readonly<Record<string, string | number>>;
  /** Default none. Several policies are separated by semicolons, the outermost first. */
  readonly policy?: string;
  /** Policies of some hosts, each as `@HOST=POLICY`. */
  readonly onHosts?: readonly string[];
  /** Virtual time of the whole run, and of its beginning that is not measured. */
  readonly duration: string;
  readonly warmup: string;
  /** Default 2. */
  readonly hosts?: number;
  /** Default: a cable between two hosts, one switch for more. */
  readonly topology?: TopologyName;
  /** What happens during the run, each as `TIME:ACTION`. */
  readonly at?: readonly string[];
  /** Whether the result has the gauges of policies. Default false. */
  readonly gauges?: boolean;
  /** Whether the result has details of each application (MixSpec.details). Default false. */
  readonly details?: boolean;
  readonly apps: readonly MixApp[];
}

/** Changes to a mixture. Applications may be given in words. */
export type MixChange = Partial<Omit<Mix, 'apps'>> & { readonly apps?: readonly (string | MixApp)[] };

/** Parses an application in the words of `--app`. @throws ConfigError */
export function mixApp(words: string): MixApp {
  return { spec: parseApp(words), words };
}

/** A copy of the application with these keys, which it must not have yet. */
export function withKeys<Keys extends Pick<AppSpec, 'name' | 'tenant' | 'class' | 'group'>>(
  app: MixApp,
  keys: Keys,
): MixApp & { readonly spec: Keys } {
  const more = Object.entries(keys).map(([key, value]) => `${key}=${value}`);
  return { spec: { ...app.spec, ...keys }, words: withWords(app.words, more.join(',')) };
}

const withWords = (words: string, more: string) => `${words}${words.includes(':') ? ',' : ':'}${more}`;

const TRAFFIC: Readonly<Record<Kind, TrafficName>> = { B: 'bandwidth', M: 'throughput', D: 'latency' };

/** The mixture, in which each application that declares no kind of traffic declares its own kind. */
export function declared(mix: Mix): Mix {
  const apps = mix.apps.map((app) => {
    if (app.spec.traffic !== undefined) return app;
    const traffic = TRAFFIC[app.spec.kind];
    return { spec: { ...app.spec, traffic }, words: withWords(app.words, `kind=${traffic}`) };
  });
  return { ...mix, apps };
}

/** The mixture with these changes. Parameters of `set` add to those that the mixture has. */
export function changed(mix: Mix, change: MixChange): Mix {
  const { apps = mix.apps, set, ...rest } = change;
  return {
    ...mix,
    ...rest,
    ...(set !== undefined && { set: { ...mix.set, ...set } }),
    apps: apps.map((app) => (typeof app === 'string' ? mixApp(app) : app)),
  };
}

/** Quotes a word for a shell, if necessary. */
export const quoted = (word: string) =>
  /^[\w.,:=@/-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;

/** The command line that repeats a run. It is meant for people, and no code parses it. */
export function commandOf(mix: Mix, seed: number): string {
  const { profile, set = {}, policy = 'none', onHosts = [], duration, warmup, topology, apps } = mix;
  const { hosts = DEFAULTS.hosts, at = [], gauges = false, details = false } = mix;
  const words = ['isoverbs mix', `--profile ${profile}`];
  for (const [name, value] of Object.entries(set)) words.push(`--set ${name}=${value}`);
  for (const one of [policy, ...onHosts]) words.push(`--policy ${quoted(one)}`);
  words.push(`--duration ${duration}`, `--warmup ${warmup}`, `--seed ${seed}`);
  if (hosts !== DEFAULTS.hosts) words.push(`--hosts ${hosts}`);
  if (topology !== undefined) words.push(`--topology ${topology}`);
  for (const step of at) words.push(`--at ${quoted(step)}`);
  if (gauges) words.push('--gauges');
  if (details) words.push('--details');
  return [...words, ...apps.map((app) => `--app ${app.words}`)].join(' ');
}
