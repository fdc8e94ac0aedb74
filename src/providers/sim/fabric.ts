/** A fabric: simulated hosts on one network, for programs and for users' own tests. */

import { brokenInvariants } from '../../sim/invariants.ts';
import type { TopologyName, TopologyOptions } from '../../sim/network/topology.ts';
import { override } from '../../sim/profile/overrides.ts';
import type { NicParams } from '../../sim/profile/params.ts';
import { MINIMAL_NIC, PROFILES } from '../../sim/profile/profiles.ts';
import { REORDER_DELAY_NS, Simulation } from '../../sim/simulation.ts';
import type { Host } from '../../sim/world.ts';
import { InvalidArgumentError, requireKnown, shown } from '../../verbs/errors.ts';
import type { Provider } from '../../verbs/provider.ts';
import { requireInteger } from './arguments.ts';
import { SimCm } from './cm/cm.ts';
import { SimRendezvous } from './cm/rendezvous.ts';
import { Driver } from './driver.ts';
import { buildProvider } from './provider.ts';

/** What createFabric() takes. */
export interface FabricOptions {
  /** Hosts, each with one device: sim0, sim1 ... Default 2. */
  hosts?: number;
  /** Name of a profile, or changes to the minimal one. Default 'minimal'. */
  profile?: string | Partial<NicParams>;
  /** Of everything random. Default 1. */
  seed?: number;
  /** Probability, on every link, that a packet is lost. Default 0. */
  loss?: number;
  /** Probability, on every link, that a packet is late by `reorderDelayNs`. Default 0. */
  reorder?: number;
  /** How late, in nanoseconds. Default 2000. */
  reorderDelayNs?: number;
  /** Probability, on every link, that a packet arrives twice. Default 0. */
  duplicate?: number;
  /** Whether time also moves by itself, one event per turn of the event loop. Default true. */
  autoAdvance?: boolean;
  /**
   * Whether programs are actors of the simulation (`simulation.world.hooks.actor`) and only runInside() moves time:
   * polls that find nothing take none. Default false.
   */
  inside?: boolean;
  /** Whether the devices execute WAIT and ENABLE. Default true. */
  wait?: boolean;
  /** Whether bytes are moved; timing is the same without. Default true. */
  payload?: boolean;
  /**
   * What is between the hosts: 'cable' (two hosts), 'direct' (every host reaches every other at the end of its own
   * cable), or switches: 'star', 'dumbbell', 'leaf-spine', also as `{ kind: 'leaf-spine', hostsPerLeaf, spines }`.
   * Default 'direct'; 'star' for three and more hosts of any profile but the minimal one.
   */
  topology?: TopologyName | TopologyOptions;
}

/** What goes wrong from now on; `host` is a device name ('sim1') or its index. */
export type Fault =
  | { kill: string | number }
  | { linkDown: string | number }
  | { linkUp: string | number }
  /** Loss on one host's link, or on all. */
  | { loss: number; host?: string | number }
  /** Packets that are late by `delayNs` (default 2000), on one host's link, or on all. */
  | { reorder: number; delayNs?: number; host?: string | number }
  /** Packets that arrive twice, on one host's link, or on all. */
  | { duplicate: number; host?: string | number };

/** An open context, for inspection. */
export interface OpenTenant {
  device: string;
  tenant: string;
  context: number;
}

/** Simulated hosts on one network. */
export interface Fabric {
  readonly provider: Provider;
  /** Virtual time in nanoseconds. */
  readonly nowNs: number;
  /** Lets this much virtual time go by; what programs await meanwhile happens. */
  advance(delayNs: number): Promise<void>;
  /** Lets time go by until nothing is left to happen. */
  run(): Promise<void>;
  /**
   * Of a fabric whose programs are `inside`: runs events up to this time. False when a sleep() ended on the way:
   * let promises settle, and call it again.
   */
  runInside(untilNs: number): boolean;
  /** Resolves when this much virtual time has gone by. */
  sleep(delayNs: number): Promise<void>;
  /** Makes something go wrong, from now on. @throws InvalidArgumentError */
  fault(fault: Fault): void;
  /** Hash of (time, kind, queue pair, PSN) of every packet and completion so far. */
  traceHash(): string;
  /** What does not hold of what always must; empty when all is well. */
  brokenInvariants(): string[];
  /** The open contexts. */
  tenants(): OpenTenant[];
  /** The simulation itself. */
  readonly simulation: Simulation;
}

const MAX_HOSTS = 4096;
const OPTIONS = [
  'hosts',
  'profile',
  'seed',
  'loss',
  'reorder',
  'reorderDelayNs',
  'duplicate',
  'autoAdvance',
  'inside',
  'wait',
  'payload',
  'topology',
];

function paramsOf(profile: string | Partial<NicParams>): Readonly<NicParams> {
  if (typeof profile !== 'string') return override(MINIMAL_NIC, profile);
  const params = Object.hasOwn(PROFILES, profile) ? PROFILES[profile] : undefined;
  if (params !== undefined) return params;
  throw new InvalidArgumentError(
    `createFabric: no profile '${profile}'; there is ${Object.keys(PROFILES).join(', ')}`,
  );
}

function defaultTopology(hosts: number, profile: string | Partial<NicParams>): TopologyName {
  return hosts <= 2 || profile === 'minimal' || typeof profile !== 'string' ? 'direct' : 'star';
}

function requireProbability(name: string, value: unknown): number {
  if (typeof value === 'number' && value >= 0 && value <= 1) return value;
  throw new InvalidArgumentError(`${name} must be a probability from 0 to 1, got ${shown(value)}`);
}

/** Makes simulated hosts on one network. The same seed and program give the same run, always. */
export function createFabric(options: FabricOptions = {}): Fabric {
  requireKnown('createFabric', options, OPTIONS);
  const {
    profile = 'minimal',
    seed = 1,
    loss = 0,
    reorder = 0,
    reorderDelayNs = REORDER_DELAY_NS,
    duplicate = 0,
    autoAdvance = true,
    inside = false,
    wait = true,
    payload = true,
  } = options;
  const hosts = requireInteger('createFabric', 'hosts', options.hosts ?? 2, 1, MAX_HOSTS);
  requireInteger('createFabric', 'seed', seed, -(2 ** 53), 2 ** 53);
  requireProbability('createFabric: loss', loss);
  requireProbability('createFabric: reorder', reorder);
  requireDelay('createFabric: reorderDelayNs', reorderDelayNs);
  requireProbability('createFabric: duplicate', duplicate);
  const simulation = new Simulation({
    hosts,
    params: paramsOf(profile),
    seed,
    loss,
    reorder,
    reorderDelayNs,
    duplicate,
    payload,
    topology: options.topology ?? defaultTopology(hosts, profile),
  });
  const driver = new Driver(simulation, { autoAdvance, inside });
  const rendezvous = new SimRendezvous(driver);
  const cm = new SimCm(driver);
  const { provider, objects } = buildProvider(driver, { rendezvous, cm: cm.verbs }, wait);
  const fault = (what: Fault) => applyFault(simulation, [rendezvous, cm], what);
  return {
    provider,
    simulation,
    get nowNs() {
      return driver.nowNs;
    },
    advance: (delayNs) => driver.run(driver.nowNs + requireDelay('advance', delayNs)),
    run: () => driver.run(),
    runInside: (untilNs) => driver.runInside(requireDelay('runInside', untilNs)),
    sleep: (delayNs) => driver.sleep(requireDelay('sleep', delayNs)),
    fault,
    traceHash: () => simulation.world.trace.hash(),
    brokenInvariants: () => brokenInvariants(simulation),
    tenants: () =>
      [...objects.contexts.values()].map(({ handle, host, tenant }) => ({
        device: `sim${host}`,
        tenant,
        context: handle,
      })),
  };
}

export function requireDelay(verb: string, delayNs: unknown): number {
  if (typeof delayNs === 'number' && delayNs >= 0 && Number.isFinite(delayNs)) return delayNs;
  throw new InvalidArgumentError(`${verb}: the delay must be a number of nanoseconds, got ${shown(delayNs)}`);
}

/** `managers`: of connections, whose ends hear of a host that died. */
function applyFault(
  simulation: Simulation,
  managers: { hostDied(host: number): void }[],
  fault: Fault,
): void {
  const { hosts } = simulation.world;
  const hostOf = (name: string | number) => {
    const index = typeof name === 'number' ? name : Number(/^sim(\d+)$/.exec(name)?.[1] ?? Number.NaN);
    const host = hosts[index];
    if (host !== undefined) return host;
    throw new InvalidArgumentError(
      `fault: no host '${name}' in this fabric; it has sim0 .. sim${hosts.length - 1}`,
    );
  };
  if ('kill' in fault) {
    const host = hostOf(fault.kill);
    simulation.kill(host.index);
    for (const manager of managers) manager.hostDied(host.index);
  } else if ('linkDown' in fault) {
    simulation.setLink(hostOf(fault.linkDown).index, false);
  } else if ('linkUp' in fault) {
    simulation.setLink(hostOf(fault.linkUp).index, true);
  } else {
    applyToLinks(simulation, fault, fault.host === undefined ? hosts : [hostOf(fault.host)]);
  }
}

type LinkFault = Extract<Fault, { host?: string | number }>;

/** Faults that have a probability, on the links of these hosts. */
function applyToLinks({ world }: Simulation, fault: LinkFault, hosts: Host[]): void {
  if ('loss' in fault) {
    const loss = requireProbability('fault: loss', fault.loss);
    for (const host of hosts) world.setLoss(host, loss);
  } else if ('reorder' in fault) {
    const reorder = requireProbability('fault: reorder', fault.reorder);
    const delayNs = requireDelay('fault: delayNs', fault.delayNs ?? REORDER_DELAY_NS);
    for (const host of hosts) world.faults.setReorder(host.index, reorder, delayNs);
  } else if ('duplicate' in fault) {
    const duplicate = requireProbability('fault: duplicate', fault.duplicate);
    for (const host of hosts) world.faults.setDuplicate(host.index, duplicate);
  } else {
    throw new InvalidArgumentError(
      'fault: one of kill, linkDown, linkUp, loss, reorder, duplicate must be given',
    );
  }
}
