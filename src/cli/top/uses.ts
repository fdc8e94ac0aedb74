/**
 * How much of a NIC tenants use, estimated from what the daemon knows of them: their requests, as if all were WRITEs of
 * their mean length over reliable connections, and what the device reports of its NIC.
 */
import { capacitiesOf, TIMED } from '../../policies/kit/cost/bottleneck.ts';
import { COST_WORDS, Cost, costFactsOf, costOf } from '../../policies/kit/cost/vector.ts';
import { IBV_QPT_RC, IBV_WR_RDMA_WRITE } from '../../verbs/constants.ts';
import type { NicFacts } from '../../verbs/nic.ts';

const PAGE_BYTES = 4096;

/** A part of a resource of a NIC: 1 is all of it. */
export interface ResourceUse {
  readonly resource: string;
  readonly part: number;
}

/**
 * The parts of the resources of the requester's NIC that requests take; a resource of unknown capacity is absent.
 * @param requestsPerS requests a second
 * @param bytesPerS bytes of their messages a second
 */
export function usesOf(nic: NicFacts, requestsPerS: number, bytesPerS: number): ResourceUse[] {
  if (!(requestsPerS > 0)) return [];
  const facts = costFactsOf(nic);
  const cost = new Float64Array(COST_WORDS);
  const shape = {
    ...{ opcode: IBV_WR_RDMA_WRITE, qpType: IBV_QPT_RC, batch: 1, isInline: false, alignBytes: PAGE_BYTES },
    bytes: Math.round(bytesPerS / requestsPerS),
  };
  costOf(facts, shape, cost);
  const capacities = capacitiesOf(facts);
  return TIMED.filter(([word]) => word !== Cost.RECEIVER_NS && capacities[word] > 0 && cost[word] > 0).map(
    ([word, resource]) => ({ resource, part: (cost[word] * capacities[word] * requestsPerS) / 1e9 }),
  );
}

/** The use of which the most is taken; null: nothing is used, or nothing is known. */
export function dominantOf(uses: readonly ResourceUse[]): ResourceUse | null {
  return uses.reduce<ResourceUse | null>((most, one) => (one.part > (most?.part ?? 0) ? one : most), null);
}

/** The uses of several tenants together. */
export function sumOf(all: readonly (readonly ResourceUse[])[]): ResourceUse[] {
  const parts = new Map<string, number>();
  for (const { resource, part } of all.flat()) parts.set(resource, (parts.get(resource) ?? 0) + part);
  return [...parts].map(([resource, part]) => ({ resource, part }));
}
