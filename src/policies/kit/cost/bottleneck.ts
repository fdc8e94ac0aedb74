/** Which resource of a NIC a pattern of requests uses most, and how many requests a second that allows. */
import { AT_PEER, Cost, type CostFacts, NIC_WORDS } from './vector.ts';

/** Resources of a NIC that are shared by time. */
export type Resource =
  | 'link out'
  | 'link in'
  | 'PCIe read'
  | 'PCIe write'
  | 'processing units'
  | 'receiver'
  | 'atomics';

/** What limits a pattern of requests. */
export interface Bottleneck {
  readonly resource: Resource;
  /** The NIC that has this resource: the requester's or its peer's. */
  readonly at: 'requester' | 'peer';
  /** Requests a second at most. Infinity if no limit is known. */
  readonly perSecond: number;
}

/** By word of a cost vector: the time for which a NIC is occupied by a unit of it, in ns. Unknown limits are 0. */
export type Capacities = Float64Array;

/** The words of a cost vector whose resources are shared by time. */
export const TIMED: readonly (readonly [word: number, resource: Resource])[] = [
  [Cost.LINK_OUT, 'link out'],
  [Cost.LINK_IN, 'link in'],
  [Cost.PCIE_READ, 'PCIe read'],
  [Cost.PCIE_WRITE, 'PCIe write'],
  [Cost.UNIT_NS, 'processing units'],
  [Cost.RECEIVER_NS, 'receiver'],
  [Cost.ATOMICS, 'atomics'],
];

/**
 * The capacities of a NIC.
 * @param linkGbps for requests to the own NIC, the rate of its loopback
 */
export function capacitiesOf(facts: CostFacts, linkGbps = facts.linkGbps): Capacities {
  const nsPerUnit = new Float64Array(NIC_WORDS);
  const perByte = (gbps: number | null) => (gbps === null ? 0 : 8 / gbps);
  nsPerUnit[Cost.LINK_OUT] = nsPerUnit[Cost.LINK_IN] = perByte(linkGbps);
  nsPerUnit[Cost.PCIE_READ] = nsPerUnit[Cost.PCIE_WRITE] = perByte(facts.pcieGbps);
  nsPerUnit[Cost.UNIT_NS] = facts.processingUnits === null ? 0 : 1 / facts.processingUnits;
  nsPerUnit[Cost.RECEIVER_NS] = 1;
  nsPerUnit[Cost.ATOMICS] = facts.atomicGapNs;
  return nsPerUnit;
}

/** How a pattern uses the NICs. */
export interface Use {
  /** Queue pairs; each uses one processing unit at a time. Default: more than there are units. */
  readonly qps?: number;
  /** Whether the requester and its peer are on one NIC, which bears the costs of both. Default false. */
  readonly isLoopback?: boolean;
}

/**
 * The scarcest resource for a pattern of requests, and the rate that it allows a tenant that has the NICs for itself.
 * @param cost of one request, as costOf() fills it
 */
export function bottleneckOf(cost: Float64Array, capacities: Capacities, use: Use = {}): Bottleneck {
  const { qps = Number.POSITIVE_INFINITY, isLoopback = false } = use;
  let longestNs = 0;
  let found = 0;
  let isAtPeer = false;
  for (let i = 0; i < TIMED.length; i++) {
    const [word] = TIMED[i];
    const nsPerUnit = Math.max(capacities[word], word === Cost.UNIT_NS ? 1 / qps : 0);
    const own = cost[word] * nsPerUnit;
    const peers = cost[AT_PEER + word] * nsPerUnit;
    // Each direction of the loopback carries what the requester sends and what it gets.
    const here = isLoopback && word !== Cost.LINK_OUT && word !== Cost.LINK_IN ? own + peers : own;
    const ns = Math.max(here, peers);
    if (ns <= longestNs) continue;
    longestNs = ns;
    found = i;
    isAtPeer = here < peers;
  }
  const perSecond = longestNs === 0 ? Number.POSITIVE_INFINITY : 1e9 / longestNs;
  return { resource: TIMED[found][1], at: isAtPeer ? 'peer' : 'requester', perSecond };
}
