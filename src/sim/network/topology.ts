/** Topologies: the switch of each host, and the route between two hosts. */
import { ConfigError, requireKnown, shown } from '../../verbs/errors.ts';

/**
 * `cable`: two hosts on one cable. `direct`: every host reaches every other at the end of its own cable,
 * without contention on the way. `star`: all hosts on one switch. `dumbbell`: two switches with half of the
 * hosts each, and one trunk between them. `leaf-spine`: hosts on leaves, each leaf connected to every spine;
 * all cables have the same rate.
 */
export type TopologyName = 'cable' | 'direct' | 'star' | 'dumbbell' | 'leaf-spine';

/** A topology with its own sizes. */
export interface TopologyOptions {
  kind: TopologyName;
  /** Only for `leaf-spine`. Default 4. */
  hostsPerLeaf?: number;
  /** Only for `leaf-spine`. Default 2. */
  spines?: number;
}

export const TOPOLOGIES: readonly TopologyName[] = ['cable', 'direct', 'star', 'dumbbell', 'leaf-spine'];

/** The other end of a switch port's cable: a host or another switch. */
export interface End {
  /** The host, or -1 for a switch. */
  host: number;
  switch: number;
  port: number;
}

/**
 * Leaves are switches 0 .. leaves-1, spines follow. A leaf's ports lead to its hosts first, then up: to each
 * spine, or over the trunk to the other leaf. A spine has one port per leaf.
 */
export class Layout {
  readonly hosts: number;
  readonly leaves: number;
  readonly hostsPerLeaf: number;
  readonly spines: number;
  /** Upward ports of each leaf. */
  readonly uplinks: number;

  constructor(hosts: number, hostsPerLeaf: number, spines: number) {
    this.hosts = hosts;
    this.hostsPerLeaf = hostsPerLeaf;
    this.leaves = Math.ceil(hosts / hostsPerLeaf);
    this.spines = spines;
    this.uplinks = spines > 0 ? spines : this.leaves - 1;
  }

  get switches(): number {
    return this.leaves + this.spines;
  }

  leafOf(host: number): number {
    return (host / this.hostsPerLeaf) | 0;
  }

  /** Hosts on a leaf; the last leaf may have fewer. */
  private hostsOn(leaf: number): number {
    return Math.min(this.hostsPerLeaf, this.hosts - leaf * this.hostsPerLeaf);
  }

  portsOf(sw: number): number {
    return sw < this.leaves ? this.hostsOn(sw) + this.uplinks : this.leaves;
  }

  /** The other end of this port's cable. */
  endOf(sw: number, port: number): End {
    if (sw >= this.leaves) return { host: -1, switch: port, port: this.hostsOn(port) + sw - this.leaves };
    const up = port - this.hostsOn(sw);
    if (up < 0) return { host: sw * this.hostsPerLeaf + port, switch: -1, port: -1 };
    if (this.spines > 0) return { host: -1, switch: this.leaves + up, port: sw };
    return { host: -1, switch: 1 - sw, port: this.hostsOn(1 - sw) };
  }

  /** The port of a switch that leads to a host. All packets between two hosts take the same route. */
  route(sw: number, from: number, to: number): number {
    const leaf = this.leafOf(to);
    if (sw >= this.leaves) return leaf;
    if (sw === leaf) return to - leaf * this.hostsPerLeaf;
    const hosts = this.hostsOn(sw);
    return this.spines > 1 ? hosts + (scramble(from, to) % this.spines) : hosts;
  }

  /** Number of switches between two hosts. */
  switchesBetween(from: number, to: number): number {
    if (this.leafOf(from) === this.leafOf(to)) return 1;
    return this.spines > 0 ? 3 : 2;
  }
}

/** Hashes a pair of hosts to choose among equal routes. */
function scramble(from: number, to: number): number {
  let h = Math.imul(from, 0x9e3779b1) ^ Math.imul(to + 1, 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6d);
  return (h ^ (h >>> 13)) >>> 0;
}

function requireCount(name: string, value: number): number {
  if (Number.isInteger(value) && value > 0) return value;
  throw new ConfigError(`topology: ${name} must be a whole number above 0, got ${shown(value)}`);
}

/**
 * The switches of a topology; null for one without switches. @throws ConfigError for an unknown topology, or
 * one that does not support this many hosts
 */
export function layoutOf(topology: TopologyName | TopologyOptions, hosts: number): Layout | null {
  const options = typeof topology === 'string' ? { kind: topology } : topology;
  requireKnown('topology', options, ['kind', 'hostsPerLeaf', 'spines']);
  const { kind, hostsPerLeaf = 4, spines = 2 } = options as TopologyOptions;
  if (!TOPOLOGIES.includes(kind))
    throw new ConfigError(`topology must be one of ${TOPOLOGIES.join(', ')}, got ${shown(kind)}`);
  if (kind === 'direct') return null;
  if (kind === 'cable') {
    if (hosts <= 2) return null;
    throw new ConfigError(`topology cable joins two hosts, not ${hosts}; use star, which has a switch`);
  }
  if (hosts < 2) throw new ConfigError(`topology ${kind} needs at least two hosts, got ${hosts}`);
  if (kind === 'star') return new Layout(hosts, hosts, 0);
  if (kind === 'dumbbell') return new Layout(hosts, Math.ceil(hosts / 2), 0);
  return new Layout(hosts, requireCount('hostsPerLeaf', hostsPerLeaf), requireCount('spines', spines));
}
