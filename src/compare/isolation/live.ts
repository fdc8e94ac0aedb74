/** Runs victims alone and next to attackers on real devices, in real time: one run after the other. */
import { runLive } from '../../mix/live/run.ts';
import { requireLiveKeys } from '../../mix/live/spec.ts';
import { type MixApp, mixApp, quoted, withKeys } from '../../mix/mixture.ts';
import { parsePolicy } from '../../mix/parse.ts';
import type { AppResult } from '../../mix/result.ts';
import { PROFILES } from '../../sim/profile/profiles.ts';
import { ConfigError } from '../../verbs/errors.ts';
import { NANOSECONDS, parseQuantity } from '../../verbs/units.ts';
import { schemesOf } from '../schemes.ts';
import { ATTACKER, type Isolation, type IsolationOptions, judged, type Meeting, VICTIM } from './matrix.ts';
import { type Attacker, attackersOf, type Test, victimsOf } from './suite.ts';

/** The suite on real devices. A single device serves both ends; default: the first one. */
export interface LiveOptions
  extends Omit<IsolationOptions, 'fixed' | 'schedulers' | 'threads' | 'cache' | 'policies'> {
  readonly devices: readonly string[];
  readonly duration: string;
  readonly warmup: string;
  /** Default: the bare device and LIVE_POLICIES. */
  readonly policies?: readonly string[];
}

export const LIVE_POLICIES: readonly string[] = ['none', 'fair'];

/** The most queue pairs of an application, and requests outstanding on each: each has memory of its own. */
const MOST: Readonly<Record<string, number>> = { qps: 8, depth: 16, batch: 16 };
/** An application on a real device is one thread with one context. */
const ONE_THREAD = ['contexts', 'cores'];

/** The application with fewer queue pairs and requests, as one thread. */
export function shrunk({ words }: MixApp): MixApp {
  const [kind, keys = ''] = words.split(':');
  const kept = keys
    .split(',')
    .map((text) => text.split('='))
    .filter(([key]) => !ONE_THREAD.includes(key))
    .map(([key, value]) => `${key}=${key in MOST ? Math.min(MOST[key], Number(value)) : value}`);
  return mixApp(`${kind}:${kept.join(',')}`);
}

/** Whether a test uses only what an application on a real device can do. */
function isPossible({ app }: Test): boolean {
  try {
    requireLiveKeys([shrunk(app).spec]);
    return true;
  } catch (error) {
    if (error instanceof ConfigError) return false;
    throw error;
  }
}

/**
 * Runs the suite. No model says which resources of a real device two applications want, so each victim is due half of
 * what it gets alone, whatever the attacker does.
 * @throws ConfigError for an unknown policy, attacker or victim, and if no pair is possible
 * @throws NoDeviceError for a missing device
 */
export async function isolationLive(options: LiveOptions): Promise<Isolation> {
  const { policies = LIVE_POLICIES, seed, duration, warmup, devices, onDone } = options;
  const attackers = attackersOf(options.attackers).filter(isPossible);
  const victims = victimsOf(options.victims).filter(isPossible);
  if (attackers.length === 0 || victims.length === 0) {
    throw new ConfigError('these attackers and victims are for simulated devices only; choose others');
  }
  const says = saysOf(policies);
  const lab = new Lab(options);
  const of = attackers.length + victims.length + policies.length * attackers.length * victims.length;
  lab.onRun = (done) => onDone?.(done, of);
  const alone = await lab.allAlone([...victims, ...attackers]);
  const pairs = attackers.flatMap((attacker) => victims.map((victim) => [attacker, victim] as const));
  const schemes = [];
  for (const policy of policies) {
    const meetings: Meeting[] = [];
    for (const [attacker, victim] of pairs) meetings.push(await lab.meet(attacker, victim, policy, alone));
    const [scheme, group] = policy === 'none' ? ['bare', 'bare' as const] : [policy, 'policy' as const];
    schemes.push({ scheme, group, says: says.get(policy) ?? 'no policy', meetings });
  }
  const { broken } = lab;
  const fixed = { profile: devices.join(', ') || 'the first device', duration, warmup };
  return { fixed, seed, pairings: schemes[0].meetings, schemes, runs: lab.runs, broken };
}

/** What the policies are. @throws ConfigError for an unknown policy */
function saysOf(policies: readonly string[]): ReadonlyMap<string, string> {
  const mix = { profile: 'ideal', duration: '1ms', warmup: '0ms', apps: [] };
  const schemes = schemesOf(mix, PROFILES.ideal, { policies, schedulers: [] });
  return new Map(schemes.map(({ name, says }) => [name, says]));
}

/** Runs mixtures on real devices, one at a time. */
class Lab {
  runs = 0;
  /** Runs that broke an invariant. */
  readonly broken: string[] = [];
  onRun: (done: number) => void = () => {};
  private readonly options: LiveOptions;

  constructor(options: LiveOptions) {
    this.options = options;
  }

  /** What each application gets alone, by name. */
  async allAlone(tests: readonly Test[]): Promise<ReadonlyMap<string, AppResult>> {
    const alone = new Map<string, AppResult>();
    for (const { name, app } of tests) {
      const [result] = await this.run([withKeys(shrunk(app), { name: VICTIM })], 'none');
      alone.set(name, result);
    }
    return alone;
  }

  async meet(
    { name: attacker, class: attackerClass, app: other }: Attacker,
    { name: victim, app }: Test,
    policy: string,
    alone: ReadonlyMap<string, AppResult>,
  ): Promise<Meeting> {
    const apps = [withKeys(shrunk(app), { name: VICTIM }), withKeys(shrunk(other), { name: ATTACKER })];
    const own = alone.get(victim)!;
    const contention = { resource: 'the device', dueGbps: own.throughputGbps / 2 };
    const pairing = { attacker, class: attackerClass, victim, contention };
    const both = await this.run(apps, policy);
    return { ...judged(pairing, own, alone.get(attacker)!, both), command: this.commandOf(apps, policy) };
  }

  private async run(apps: readonly MixApp[], policy: string): Promise<readonly AppResult[]> {
    const { devices, duration, warmup, seed } = this.options;
    const result = await runLive({
      ...parsePolicy(policy),
      ...{ devices, seed, apps: apps.map(({ spec }) => spec) },
      durationNs: parseQuantity('duration', duration, NANOSECONDS),
      warmupNs: parseQuantity('warmup', warmup, NANOSECONDS),
    });
    this.runs++;
    this.onRun(this.runs);
    this.broken.push(...result.invariants.map((reason) => `${this.commandOf(apps, policy)}: ${reason}`));
    return result.apps;
  }

  private commandOf(apps: readonly MixApp[], policy: string): string {
    const { devices, duration, warmup, seed } = this.options;
    return [
      'isoverbs mix --provider rdma-core',
      ...devices.map((device) => `--device ${device}`),
      `--policy ${quoted(policy)} --duration ${duration} --warmup ${warmup} --seed ${seed}`,
      ...apps.map(({ words }) => `--app ${words}`),
    ].join(' ');
  }
}
