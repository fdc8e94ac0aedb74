/** The schemes of a comparison: the bare device, every registered policy, every hardware scheduler. */
import { z } from 'zod';
import { isModuleName } from '../drivers/index.ts';
import { declaredFor } from '../mix/declare.ts';
import { declared, type Mix, type MixApp, withKeys } from '../mix/mixture.ts';
import { parsePolicy } from '../mix/parse.ts';
import type { Kind } from '../mix/spec.ts';
import { type PolicyEntry, policies } from '../policies/index.ts';
import { type NicParams, type SchedulerName, WORDS } from '../sim/profile/params.ts';
import { ConfigError } from '../verbs/errors.ts';
import { didYouMean } from '../verbs/suggestions.ts';

/** How the applications are isolated: by running each one alone, not at all, by a policy, or by the NIC. */
export type SchemeGroup = 'alone' | 'bare' | 'policy' | 'hardware';

/** One row of the comparison. */
export interface Scheme {
  readonly name: string;
  readonly group: Exclude<SchemeGroup, 'alone'>;
  /** A description for people. */
  readonly says: string;
  readonly mix: Mix;
}

/** How a scheduler is configured, and which class it gives to each kind of application. */
interface Hardware {
  readonly says: string;
  /** Parameters besides `scheduler`. Those that the profile or the caller has set take precedence. */
  readonly set: Readonly<Partial<Record<keyof NicParams, string | number>>>;
  /** Service level by kind; null if the scheduler has no classes. */
  readonly classes: Readonly<Record<Kind, number>> | null;
  /** Whether applications declare their kinds of traffic. */
  readonly expectsTraffic?: boolean;
  /** Name of its row if a policy has the name of the scheduler. */
  readonly row?: string;
}

/** Strict priority and ETS as in PeRF, section 5.2.1; `greedy` as in Justitia's ConnectX-3 (docs/simulation.md). */
const HARDWARE: Readonly<Record<SchedulerName, Hardware>> = Object.freeze({
  rr: { says: 'one packet of each queue pair in turn', set: {}, classes: null },
  sp: {
    says: 'strict priority: D in the highest class, M below it, B in the lowest',
    set: {},
    classes: { D: 0, M: 1, B: 2 },
  },
  ets: {
    says: 'bytes by weight (etsWeights): B has the first class, M and D share the second',
    set: { etsWeights: '16,1' },
    classes: { B: 0, M: 1, D: 1 },
  },
  greedy: {
    says: 'deep bursts (puHoldBytes): differs from rr only if more queue pairs send than the NIC has units',
    set: { puHoldBytes: 81920 },
    classes: null,
  },
  palos: {
    says: 'Palos in the NIC: payload bytes by weight, queue pairs labelled latency first, a short FIFO',
    set: {},
    classes: null,
    expectsTraffic: true,
    row: 'palos-nic',
  },
});

/** Stands for no policy or no scheduler in a list of them. */
const NONE = 'none';

/** Every registered policy. A policy with an option `paper` is followed by the variant that its paper describes. */
export function allPolicies(): string[] {
  return Object.entries(policies).flatMap(([name, { options }]) =>
    options instanceof z.ZodObject && 'paper' in options.shape ? [name, `${name}:paper`] : [name],
  );
}

/** The schemes to compare. Default: all. */
export interface Choice {
  /** Policies, each as `--policy` takes it, or `none`. */
  readonly policies?: readonly string[];
  /** Names of schedulers, or `none`. */
  readonly schedulers?: readonly string[];
}

/**
 * The schemes under which `mix` is compared, the bare device first. The device's own scheduler is `bare`.
 * @param params parameters of the mixture's device
 * @throws ConfigError for an unknown policy or scheduler, and for one that is listed twice
 */
export function schemesOf(mix: Mix, params: Readonly<NicParams>, choice: Choice = {}): Scheme[] {
  const own = HARDWARE[params.scheduler];
  const bare: Scheme = {
    name: 'bare',
    group: 'bare',
    says: `no policy; the device's own scheduler, ${params.scheduler}: ${own.says}`,
    mix,
  };
  const chosen = (choice.policies ?? allPolicies()).filter((text) => text !== NONE);
  const schedulers = choice.schedulers ?? WORDS.scheduler.filter((name) => name !== params.scheduler);
  const schemes = [
    bare,
    ...chosen.map((policy) => underPolicy(mix, policy)),
    ...schedulers.filter((name) => name !== NONE).map((name) => underScheduler(mix, params, name)),
  ];
  const seen = new Set<string>();
  for (const { name } of schemes) {
    if (seen.has(name)) throw new ConfigError(`'${name}' is compared twice`);
    seen.add(name);
  }
  return schemes;
}

function underPolicy(mix: Mix, policy: string): Scheme {
  const { inner = [], ...outermost } = parsePolicy(policy);
  const says = [outermost, ...inner].map((use) => {
    const { policy: name, policyOptions } = use;
    const entry = Object.hasOwn(policies, name) ? policies[name] : undefined;
    if (entry !== undefined || isModuleName(name)) return saysOf(name, policyOptions, entry);
    const names = [...Object.keys(policies), NONE];
    throw new ConfigError(
      `unknown policy '${name}'; ${didYouMean(name, names)}available: ${names.join(', ')}, or the path of a module`,
    );
  });
  return {
    name: policy,
    group: 'policy',
    says: says.join('; inside: '),
    mix: declaredFor({ ...mix, policy }, policy),
  };
}

function saysOf(
  name: string,
  options: Readonly<Record<string, unknown>>,
  entry: PolicyEntry | undefined,
): string {
  const given = Object.entries(options);
  if (given.length === 0) return entry?.summary ?? name;
  const isPaper = given.length === 1 && given[0][0] === 'paper' && entry?.options instanceof z.ZodObject;
  if (isPaper) return `${name} ${(entry.options as z.ZodObject).shape.paper?.description}`;
  return `${name} with ${given.map(([key, value]) => `${key}=${value}`).join(', ')}`;
}

function underScheduler(mix: Mix, params: Readonly<NicParams>, name: string): Scheme {
  if (!Object.hasOwn(HARDWARE, name)) {
    throw new ConfigError(
      `unknown scheduler '${name}'; ${didYouMean(name, WORDS.scheduler)}available: ${WORDS.scheduler.join(', ')}, ${NONE}`,
    );
  }
  const { says, set, classes, expectsTraffic, row } = HARDWARE[name as SchedulerName];
  const kept = params.puHoldBytes > 0 && 'puHoldBytes' in set ? {} : set;
  const { apps } = expectsTraffic === true ? declared(mix) : mix;
  return {
    name: row ?? name,
    group: 'hardware',
    says,
    mix: {
      ...mix,
      set: { ...kept, ...mix.set, scheduler: name },
      apps: classes === null ? apps : apps.map((app) => classed(app, classes)),
    },
  };
}

/** Gives an application the class of its kind, unless it has a class already. */
function classed(app: MixApp, classes: Readonly<Record<Kind, number>>): MixApp {
  const { kind, class: own } = app.spec;
  return own === undefined ? withKeys(app, { class: classes[kind] }) : app;
}
