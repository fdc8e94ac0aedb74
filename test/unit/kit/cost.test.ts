import { describe, expect, test } from 'vitest';
import {
  AT_PEER,
  addContextMisses,
  addEntryMisses,
  bottleneckOf,
  COST_WORDS,
  Cost,
  capacitiesOf,
  costFactsOf,
  costOf,
  NIC_WORDS,
  type RequestShape,
} from '../../../src/policies/kit/index.ts';
import { nicFacts } from '../../../src/providers/sim/limits.ts';
import { PROFILES } from '../../../src/sim/profile/profiles.ts';
import * as V from '../../../src/verbs/index.ts';

const FACTS = costFactsOf(nicFacts(PROFILES['cx5-100g'], true));
const CAPACITIES = capacitiesOf(FACTS);
const SMALL: RequestShape = {
  ...{ opcode: V.IBV_WR_RDMA_WRITE, bytes: 16, qpType: V.IBV_QPT_RC },
  ...{ batch: 32, isInline: false, alignBytes: 16 },
};

function costs(changes: Partial<RequestShape> = {}): Float64Array {
  const cost = new Float64Array(COST_WORDS).fill(Number.NaN);
  costOf(FACTS, { ...SMALL, ...changes }, cost);
  return cost;
}

describe('costOf()', () => {
  test('a batch of WRITEs is fetched, completes once, and is acknowledged every 16 packets', () => {
    const cost = costs();
    expect(cost[Cost.LINK_OUT]).toBe(16 + 82 + 16);
    expect(cost[Cost.LINK_IN]).toBeCloseTo(86 / 16);
    expect(cost[Cost.PCIE_READ]).toBe(64 + 16);
    expect(cost[Cost.PCIE_WRITE]).toBe(64 / 32);
    expect([cost[Cost.UNIT_STEPS], cost[Cost.UNIT_NS]]).toEqual([1, 100]);
    expect(cost[Cost.CONTEXTS]).toBeCloseTo(1 + 1 / 16);
    expect([cost[AT_PEER + Cost.PCIE_READ], cost[AT_PEER + Cost.PCIE_WRITE]]).toEqual([0, 16]);
  });

  test('a doorbell carries a single request, and an inline one has no payload to read', () => {
    expect(costs({ batch: 1 })[Cost.PCIE_READ]).toBe(16);
    expect(costs({ batch: 1, isInline: true })[Cost.PCIE_READ]).toBe(0);
    expect(costs({ isInline: true })[Cost.PCIE_READ]).toBe(64);
  });

  test('a READ moves its payload the other way, and takes a step at the peer', () => {
    const cost = costs({ opcode: V.IBV_WR_RDMA_READ, bytes: 65536, alignBytes: 4096 });
    expect(cost[Cost.LINK_OUT]).toBe(82 + 16);
    expect(cost[AT_PEER + Cost.LINK_OUT]).toBe(65536 + 16 * 82 + 8);
    expect([cost[Cost.PCIE_READ], cost[AT_PEER + Cost.PCIE_READ]]).toEqual([64, 65536]);
    expect(cost[AT_PEER + Cost.UNIT_STEPS]).toBe(1);
    expect(cost[Cost.PAGES]).toBe(16);
    expect(cost[AT_PEER + Cost.PAGES]).toBe(17);
  });

  test('UC is not acknowledged, and a request that stays in the device costs only its WQE, its step and its completion', () => {
    expect(costs({ qpType: V.IBV_QPT_UC })[Cost.LINK_IN]).toBe(0);
    const wait = costs({ opcode: V.ISO_WR_WAIT, bytes: 0 });
    const paid = [...wait.keys()].filter((word) => wait[word] !== 0);
    expect(paid).toEqual([Cost.PCIE_READ, Cost.PCIE_WRITE, Cost.UNIT_STEPS, Cost.UNIT_NS, Cost.CONTEXTS]);
  });

  test('messages at any address touch the page behind theirs by the part that reaches into it', () => {
    expect(costs({ bytes: 4096, alignBytes: 4096 })[Cost.PAGES]).toBe(1);
    expect(costs({ bytes: 4096, alignBytes: 1 })[Cost.PAGES]).toBeCloseTo(2 - 1 / 4096);
    expect(costs({ bytes: 257, alignBytes: 1 })[Cost.PAGES]).toBeCloseTo(1 + 256 / 4096);
  });

  test('words of the two NICs do not overlap', () => {
    expect(COST_WORDS).toBe(2 * NIC_WORDS);
    expect(costs().every((value) => value >= 0)).toBe(true);
  });
});

describe('bottleneckOf()', () => {
  const most = (changes: Partial<RequestShape>, use = {}) => bottleneckOf(costs(changes), CAPACITIES, use);

  test('long messages are limited by the link, short ones by the processing units of their queue pairs', () => {
    expect(most({ bytes: 1 << 20 })).toMatchObject({ resource: 'link out', at: 'requester' });
    expect(most({})).toMatchObject({ resource: 'processing units', at: 'requester' });
    expect(most({}).perSecond).toBeCloseTo(90e6);
    expect(most({}, { qps: 1 })).toMatchObject({ resource: 'processing units', at: 'requester' });
    expect(most({}, { qps: 1 }).perSecond).toBeCloseTo(10e6);
  });

  test('READs and atomics are limited by the peer', () => {
    const read = most({ opcode: V.IBV_WR_RDMA_READ });
    expect(read).toMatchObject({ resource: 'receiver', at: 'peer' });
    expect(read.perSecond).toBeCloseTo(60e6);
    expect(most({ opcode: V.IBV_WR_ATOMIC_FETCH_AND_ADD, bytes: 8 }).perSecond).toBeCloseTo(5e6);
  });

  test('over the loopback, one NIC reads and writes', () => {
    const cost = costs({ opcode: V.IBV_WR_RDMA_READ, bytes: 16, batch: 1 });
    const steps = new Float64Array(COST_WORDS);
    steps[Cost.UNIT_NS] = cost[Cost.UNIT_NS];
    steps[AT_PEER + Cost.UNIT_NS] = cost[AT_PEER + Cost.UNIT_NS];
    const { perSecond } = bottleneckOf(steps, CAPACITIES, { isLoopback: true });
    expect(perSecond).toBeCloseTo(bottleneckOf(steps, CAPACITIES).perSecond / 2);
  });

  test('misses occupy processing units and PCIe', () => {
    const cost = costs();
    addContextMisses(FACTS, cost, 0, 1, 1);
    addEntryMisses(FACTS, cost, AT_PEER, 1);
    expect(cost[Cost.UNIT_NS]).toBeCloseTo(100 + 500 + (512 * 8) / 125);
    expect(cost[Cost.PCIE_READ]).toBe(64 + 16 + 512);
    expect(cost[AT_PEER + Cost.PCIE_READ]).toBe(64);
    expect(bottleneckOf(cost, CAPACITIES).perSecond).toBeCloseTo(9e9 / cost[Cost.UNIT_NS]);
  });

  test('limits of an unknown device are unknown', () => {
    const facts = costFactsOf(null);
    const cost = new Float64Array(COST_WORDS);
    costOf(facts, SMALL, cost);
    expect(cost[AT_PEER + Cost.RECEIVER_NS]).toBe(0);
    expect(bottleneckOf(cost, capacitiesOf(facts)).perSecond).toBe(Number.POSITIVE_INFINITY);
  });
});
