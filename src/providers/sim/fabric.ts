/** A fabric: simulated hosts on one network, for programs and for users' own tests. */

import { brokenInvariants } from '../../sim/invariants.ts';
import type { TopologyName, TopologyOptions } from '../../sim/network/topology.ts';
import { override } from '../../sim/profile/overrides.ts';
import type { NicParams } from '../../sim/profile/params.ts';
import { MINIMAL_NIC, PROFILES } from '../../sim/profile/profiles.ts';
import { REORDER_DELAY_NS, Simulation } from '../../sim/simulation.ts';
import { InvalidArgumentError, requireKnown } from '../../verbs/errors.ts';
import type { Provider } from '../../verbs/provider.ts';
import { requireInteger } from './arguments.ts';
import { simCm } from './cm/places.ts';
import { SimRendezvous } from './cm/rendezvous.ts';
import { applyFault, type Fault, requireDelay, requireProbability } from './faults.ts';
import { buildProvider } from './provider.ts';
import { TimePump } from './time-pump.ts';

/** Options of createFabric(). */
export interface FabricOptions {
  /** Number of hosts, each with one device: sim0, sim1 ... Default 2. */
  hosts?: number;
  /** Name of a profile, or changes to the minimal one. Default 'minimal'. */
  profile?: string | Partial<NicParams>;
  /** Seed of all random numbers. Default 1. */
  seed?: number;
  /** Probability, on every link, that a packet is lost. Default 0. */
  loss?: number;
  /** Probability, on every link, that a packet is late by `reorderDelayNs`. Default 0. */
  reorder?: number;
  /** Delay of a late packet in nanoseconds. Default 2000. */
  reorderDelayNs?: number;
  /** Probability, on every link, that a packet arrives twice. Default 0. */
  duplicate?: number;
  /** Whether time also advances on its own, one event per iteration of the event loop. Default true. */
  autoAdvance?: boolean;
  /**
   * Whether programs are actors of the simulation (`simulation.world.hooks.actor`). Then only runInside()
   * advances time, and polls that find nothing take none. Default false.
   */
  inside?: boolean;
  /** Whether the devices execute WAIT and ENABLE. Default true. */
  wait?: boolean;
  /** Whether payload bytes are copied; timing is the same without. Default true. */
  payload?: boolean;
  /**
   * How the hosts are connected: 'cable' (two hosts), 'direct' (every host reaches every other at the end of
   * its own cable), or with switches: 'star', 'dumbbell', 'leaf-spine', also as `{ kind: 'leaf-spine',
   * hostsPerLeaf, spines }`. Default 'direct', or 'star' for three and more hosts with a named profile other
   * than 'minimal'.
   */
  topology?: TopologyName | TopologyOptions;
}

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
  /** Advances virtual time by this much and settles the promises that programs await meanwhile. */
  advance(delayNs: number): Promise<void>;
  /** Advances virtual time until no events are left. */
  run(): Promise<void>;
  /**
   * For a fabric with `inside`: runs events up to this time. Returns false when a sleep() ended on the way;
   * let promises settle, then call it again.
   */
  runInside(untilNs: number): boolean;
  /** Resolves after this much virtual time. */
  sleep(delayNs: number): Promise<void>;
  /** Injects a fault from now on. @throws InvalidArgumentError for an unknown host or an invalid value */
  fault(fault: Fault): void;
  /** Hash of (time, kind, queue pair, PSN) of every packet and completion so far. */
  traceHash(): string;
  /** Describes every violated invariant of the simulation; empty when all hold. */
  brokenInvariants(): string[];
  /** The open contexts. */
  tenants(): OpenTenant[];
  /** The underlying simulation. */
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
    `createFabric: no profile '${profile}'; available: ${Object.keys(PROFILES).join(', ')}`,
  );
}

function defaultTopology(hosts: number, profile: string | Partial<NicParams>): TopologyName {
  return hosts <= 2 || profile === 'minimal' || typeof profile !== 'string' ? 'direct' : 'star';
}

/**
 * Creates simulated hosts on one network. The same seed and program always give the same run. @throws
 * InvalidArgumentError, ConfigError for invalid options
 */
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
  const pump = new TimePump(simulation, { autoAdvance, inside });
  const rendezvous = new SimRendezvous(pump);
  const { cm, hostDied } = simCm(pump);
  const { provider, objects } = buildProvider(pump, { rendezvous, cm: cm.verbs }, wait);
  const fault = (what: Fault) => applyFault(simulation, [rendezvous, { hostDied }], what);
  return {
    provider,
    simulation,
    get nowNs() {
      return pump.nowNs;
    },
    advance: (delayNs) => pump.run(pump.nowNs + requireDelay('advance', delayNs)),
    run: () => pump.run(),
    runInside: (untilNs) => pump.runInside(requireDelay('runInside', untilNs)),
    sleep: (delayNs) => pump.sleep(requireDelay('sleep', delayNs)),
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
