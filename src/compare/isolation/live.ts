/** Runs victims, alone and next to attackers, as processes on real devices, in real time: one run after another. */
import { requestTenants } from '../../daemon/client/tool-request.ts';
import { runProcesses } from '../../mix/live/processes.ts';
import { devicesOf } from '../../mix/live/run.ts';
import { type LiveSpec, requireLiveKeys } from '../../mix/live/spec.ts';
import { type MixApp, quoted, withKeys } from '../../mix/mixture.ts';
import { parsePolicy } from '../../mix/parse.ts';
import type { AppResult } from '../../mix/result.ts';
import { PROFILES } from '../../sim/profile/profiles.ts';
import { ConfigError } from '../../verbs/errors.ts';
import { NANOSECONDS, parseQuantity } from '../../verbs/units.ts';
import { schemesOf } from '../schemes.ts';
import { medianOf } from '../worse-off.ts';
import {
  ATTACKER,
  type Isolation,
  type IsolationOptions,
  judged,
  type Meeting,
  type SchemeMeetings,
  VICTIM,
} from './matrix.ts';
import { OwnDaemon } from './own-daemon.ts';
import { type Scale, scaled, scaleOf } from './scale.ts';
import { type Attacker, attackersOf, type Test, victimsOf } from './suite.ts';

/** The suite on real devices. A single device serves both ends; default: the first one. */
export interface LiveOptions
  extends Omit<IsolationOptions, 'fixed' | 'schedulers' | 'threads' | 'cache' | 'policies'> {
  readonly provider: NonNullable<LiveSpec['provider']>;
  readonly devices: readonly string[];
  readonly duration: string;
  readonly warmup: string;
  /** How often everything runs. Rates are medians of all rounds, because a machine's speed changes. Default 1. */
  readonly rounds?: number;
  /** Default: the bare device and LIVE_POLICIES. */
  readonly policies?: readonly string[];
  /** The socket of a daemon. Default: for each policy, a daemon of its own. */
  readonly socket?: string;
  /** The command `isoverbs`, which runs those daemons. */
  readonly command: URL;
}

export const LIVE_POLICIES: readonly string[] = ['none', 'fair'];

/** Whether a test uses only what an application on a real device can do. */
function isPossible({ app }: Test, scale: Scale): boolean {
  try {
    requireLiveKeys([scaled(app, scale).spec]);
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
 * @throws ProcessError, NoDaemonError for a process or a daemon that fails or ends too early
 */
export async function isolationLive(options: LiveOptions): Promise<Isolation> {
  const { policies = LIVE_POLICIES, provider, seed, duration, warmup, rounds = 1, socket, onDone } = options;
  const says = saysOf(policies);
  const named = { attackers: attackersOf(options.attackers), victims: victimsOf(options.victims) };
  const devices = devicesOf(options);
  const scale = scaleOf({ provider, devices });
  const attackers = named.attackers.filter((test) => isPossible(test, scale));
  const victims = named.victims.filter((test) => isPossible(test, scale));
  if (attackers.length === 0 || victims.length === 0) {
    throw new ConfigError('these attackers and victims are for simulated devices only; choose others');
  }
  if (socket !== undefined) await requestTenants(socket);
  const lab = new Lab({ ...options, devices }, scale);
  const tests = [...victims, ...attackers];
  const pairs = attackers.flatMap((attacker) => victims.map((victim) => [attacker, victim] as const));
  const of = rounds * (tests.length + policies.length * pairs.length);
  lab.onRun = (done) => onDone?.(done, of);
  for (let round = 0; round < rounds; round++) {
    await lab.measureAlone(tests);
    for (const policy of policies) await lab.meetAll(pairs, policy);
  }
  const schemes = policies.map((policy): SchemeMeetings => {
    const [scheme, group] = policy === 'none' ? ['bare', 'bare' as const] : [policy, 'policy' as const];
    const meetings = pairs.map(([attacker, victim]) => lab.meetingOf(attacker, victim, policy));
    return { scheme, group, says: says.get(policy) ?? 'no policy', meetings };
  });
  const { broken, runs } = lab;
  const fixed = { profile: devices.join(', '), duration, warmup };
  return { fixed, seed, pairings: schemes[0].meetings, schemes, runs, broken, scale };
}

/** Describes the policies. @throws ConfigError for an unknown policy, and for one inside another */
function saysOf(policies: readonly string[]): ReadonlyMap<string, string> {
  if (policies.some((policy) => parsePolicy(policy).inner !== undefined)) {
    throw new ConfigError('several policies (OUTER;INNER) are for simulated devices (--provider sim)');
  }
  const mix = { profile: 'ideal', duration: '1ms', warmup: '0ms', apps: [] };
  const schemes = schemesOf(mix, PROFILES.ideal, { policies, schedulers: [] });
  return new Map(schemes.map(({ name, says }) => [name, says]));
}

const aloneKey = ({ name }: Test) => `${name} alone`;

/** Runs mixtures on real devices, one at a time. */
class Lab {
  runs = 0;
  /** Runs that broke an invariant. */
  readonly broken: string[] = [];
  onRun: (done: number) => void = () => {};
  private readonly options: LiveOptions;
  private readonly scale: Scale;
  /** Throughputs of all rounds, in Gbit/s, by what ran. */
  private readonly rates = new Map<string, number[]>();

  constructor(options: LiveOptions, scale: Scale) {
    this.options = options;
    this.scale = scale;
  }

  /** Runs each application alone on the bare device. */
  async measureAlone(tests: readonly Test[]): Promise<void> {
    for (const test of tests) {
      const key = aloneKey(test);
      const [result] = await this.run([this.named(test, VICTIM)], 'none', null, key);
      this.record(key, result);
    }
  }

  /** Runs all pairs under a policy. Their processes share a daemon. */
  async meetAll(pairs: readonly (readonly [Attacker, Test])[], policy: string): Promise<void> {
    const { socket } = this.options;
    const own = policy === 'none' || socket !== undefined ? null : await this.daemon(policy);
    const at = policy === 'none' ? null : { socket: socket ?? own!.socket, signal: own?.signal };
    try {
      for (const [attacker, victim] of pairs) {
        const apps = [this.named(victim, VICTIM), this.named(attacker, ATTACKER)];
        const command = this.commandOf(attacker, victim, policy);
        const results = await this.run(apps, policy, at, command);
        for (const [i, result] of results.entries()) this.record(`${command} ${apps[i].spec.name}`, result);
      }
    } finally {
      await own?.end();
    }
  }

  private record(key: string, { throughputGbps }: AppResult): void {
    const rates = this.rates.get(key) ?? [];
    this.rates.set(key, rates);
    rates.push(throughputGbps);
  }

  private median(key: string): { throughputGbps: number } {
    return { throughputGbps: medianOf([...this.rates.get(key)!].sort((a, b) => a - b)) };
  }

  /** What came of a pair in all rounds. */
  meetingOf(attacker: Attacker, victim: Test, policy: string): Meeting {
    const own = this.median(aloneKey(victim));
    const contention = { resource: 'the device', dueGbps: own.throughputGbps / 2 };
    const pairing = { attacker: attacker.name, class: attacker.class, victim: victim.name, contention };
    const command = this.commandOf(attacker, victim, policy);
    const both = [VICTIM, ATTACKER].map((name) => this.median(`${command} ${name}`));
    return { ...judged(pairing, own, this.median(aloneKey(attacker)), both), command };
  }

  private daemon(policy: string): Promise<OwnDaemon> {
    const { provider, devices, command } = this.options;
    // Each process has a user-space device of its own, which the daemon need not open.
    const opened = provider === 'soft' ? [] : ['--device', ...devices];
    return OwnDaemon.start(command, ['--provider', provider, '--policy', policy, ...opened]);
  }

  private named({ app }: Test, name: string): MixApp {
    return withKeys(scaled(app, this.scale), { name });
  }

  private async run(
    apps: readonly MixApp[],
    policy: string,
    daemon: { socket: string; signal?: AbortSignal } | null,
    what: string,
  ): Promise<readonly AppResult[]> {
    const { provider, devices, duration, warmup, seed } = this.options;
    const spec = {
      ...parsePolicy(policy),
      ...{ provider, devices, seed, apps: apps.map(({ spec: app }) => app) },
      durationNs: parseQuantity('duration', duration, NANOSECONDS),
      warmupNs: parseQuantity('warmup', warmup, NANOSECONDS),
    };
    const result = await runProcesses(spec, daemon ?? { socket: null });
    this.runs++;
    this.onRun(this.runs);
    this.broken.push(...result.invariants.map((reason) => `${what}: ${reason}`));
    return result.apps;
  }

  private commandOf(attacker: Attacker, victim: Test, policy: string): string {
    const { provider, devices, duration, warmup, rounds, seed, socket } = this.options;
    return [
      `isoverbs isolation --provider ${provider}`,
      ...devices.map((device) => `--device ${device}`),
      ...(socket === undefined ? [] : [`--socket ${quoted(socket)}`]),
      `--policy ${quoted(policy)} --duration ${duration} --warmup ${warmup} --seed ${seed}`,
      ...(rounds === undefined ? [] : [`--rounds ${rounds}`]),
      `--attacker ${attacker.name} --victim ${victim.name}`,
    ].join(' ');
  }
}
