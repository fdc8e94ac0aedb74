/** Whose slot it is: tenants of large messages send one after the other. */
import { expect, test } from 'vitest';
import { Coordinator } from '../../src/coordinator/coordinator.ts';
import * as M from '../../src/coordinator/member-table.ts';

const RULES = { qNumAllow: 1, qNumCapa: 9, selective: false, rotateFrom: 3 };
const TURN_NS = 1000;

/** Bandwidth tenants of these names, each with one large queue pair, beside one that sends many messages. */
function ground(...tenants: string[]) {
  const coordinator = new Coordinator();
  const pages = tenants.map((tenant) => coordinator.join(tenant)!);
  for (const { counters } of pages) {
    counters[M.CLASS] = M.BANDWIDTH;
    counters[M.ACTIVE_QPS] = 1;
    counters[M.LARGE_QPS] = 1;
    counters[M.MEAN_BYTES] = 1 << 20;
    counters[M.SLOT_DEMAND] = M.HELD_DEMAND;
  }
  const small = coordinator.join('small')!;
  small.counters[M.CLASS] = M.MESSAGES;
  small.counters[M.ACTIVE_QPS] = 1;
  coordinator.runPass(RULES, 0);
  /** The members whose turn it is at a time. */
  const at = (nowNs: number) => {
    coordinator.rotate(nowNs, TURN_NS);
    return pages.filter(({ grants }) => grants[M.SLOT_STATE] === M.OWN_SLOT).map(({ row }) => row);
  };
  /** A member is done with its slot. */
  const drain = (i: number) => {
    pages[i].counters[M.DRAINED_SLOT] = pages[i].grants[M.SLOT_NUMBER];
  };
  return { coordinator, pages, small, at, drain };
}

test('tenants rotate from `rotateFrom` queue pairs on; tenants of small messages never do', () => {
  const { pages, small, at } = ground('a', 'b');
  expect(at(0)).toEqual([]);
  expect(pages.map(({ grants }) => grants[M.SLOT_STATE])).toEqual([M.NO_ROTATION, M.NO_ROTATION]);
  const many = ground('a', 'b', 'c');
  expect(many.at(0)).toEqual([0]);
  expect(many.pages.map(({ grants }) => grants[M.SLOT_STATE])).toEqual([
    M.OWN_SLOT,
    M.OTHERS_SLOT,
    M.OTHERS_SLOT,
  ]);
  // In its slot each is alone.
  expect(many.pages.map(({ grants }) => grants[M.BUSY_LARGE_QPS])).toEqual([1, 1, 1]);
  expect([small, many.small].map(({ grants }) => grants[M.SLOT_STATE])).toEqual([
    M.NO_ROTATION,
    M.NO_ROTATION,
  ]);
});

test('the next slot begins when all of the last one has completed, and is as long', () => {
  const { pages, at, drain } = ground('a', 'b', 'c');
  expect(at(0)).toEqual([0]);
  expect(pages[0].grants[M.SLOT_END_NS]).toBe(TURN_NS);
  // Its time is over, its requests are not.
  expect(at(1040)).toEqual([0]);
  drain(0);
  expect(at(1050)).toEqual([1]);
  // A little late: not at the cost of those who follow.
  expect(pages[1].grants[M.SLOT_END_NS]).toBe(2 * TURN_NS);
  drain(1);
  expect(at(2000)).toEqual([2]);
  drain(2);
  expect(at(3000)).toEqual([0]);
});

test('a tenant with nothing to send gives up its slot at once, and is passed over', () => {
  const { pages, at, drain } = ground('a', 'b', 'c');
  expect(at(0)).toEqual([0]);
  pages[0].counters[M.SLOT_DEMAND] = M.NO_DEMAND;
  expect(at(10)).toEqual([1]);
  expect(pages[1].grants[M.SLOT_END_NS]).toBe(10 + TURN_NS);
  drain(1);
  expect(at(1010)).toEqual([2]);
  // Only what is in flight: no reason for a slot.
  pages[0].counters[M.SLOT_DEMAND] = M.IN_FLIGHT_DEMAND;
  drain(2);
  expect(at(2010)).toEqual([1]);
});

test('a slot is extended while no other tenant has demand', () => {
  const { pages, at, drain } = ground('a', 'b', 'c');
  for (const i of [1, 2]) pages[i].counters[M.SLOT_DEMAND] = M.NO_DEMAND;
  expect(at(0)).toEqual([0]);
  expect(at(990)).toEqual([0]);
  expect(pages[0].grants[M.SLOT_END_NS]).toBe(990 + TURN_NS);
  const slot = pages[0].grants[M.SLOT_NUMBER];
  // It stopped before it knew: a new one is its own.
  drain(0);
  expect(at(1990)).toEqual([0]);
  expect(pages[0].grants[M.SLOT_NUMBER]).toBe(slot + 1);
  pages[2].counters[M.SLOT_DEMAND] = M.HELD_DEMAND;
  expect(at(2000)).toEqual([0]);
  drain(0);
  expect(at(2980)).toEqual([2]);
});

test('a tenant that leaves, dies or changes class loses its slot', () => {
  const { coordinator, pages, at } = ground('a', 'b', 'c', 'd', 'e');
  expect(at(0)).toEqual([0]);
  coordinator.leave(pages[0]);
  pages[0].grants.fill(0);
  expect(at(1)).toEqual([1]);
  pages[1].counters[M.CLASS] = M.IDLE;
  coordinator.runPass(RULES, 0);
  expect(at(2)).toEqual([2]);
  // It never says that it is done.
  expect(at(2 + TURN_NS)).toEqual([2]);
  expect(at(1 + 2 * TURN_NS)).toEqual([2]);
  expect(at(2 + 2 * TURN_NS)).toEqual([3]);
});

test('members of a tenant share its slot; it is over when all of them are done', () => {
  const { coordinator, at, drain } = ground('a', 'b', 'a', 'c');
  coordinator.takeChanges();
  expect(at(0)).toEqual([0, 2]);
  expect(coordinator.takeChanges()).toEqual([0, 2]);
  drain(0);
  expect(at(1000)).toEqual([0, 2]);
  drain(2);
  expect(at(1010)).toEqual([1]);
  expect(coordinator.takeChanges()).toEqual([0, 2, 1]);
  drain(1);
  expect(at(2000)).toEqual([3]);
  drain(3);
  expect(at(3000)).toEqual([0, 2]);
});

test('with rotation always, two bandwidth tenants take slots beside nobody', () => {
  const { coordinator, small, at } = ground('a', 'b');
  small.counters[M.CLASS] = M.IDLE;
  coordinator.runPass({ ...RULES, rotateFrom: 0 }, 0);
  expect(at(0)).toEqual([0]);
  coordinator.runPass(RULES, 0);
  expect(at(1)).toEqual([]);
});

test('a tenant that leaves and rejoins does not delay the others', () => {
  const { coordinator, pages, at, drain } = ground('a', 'x', 'b');
  const had = [0, 0, 0];
  for (let nowNs = 0; nowNs < 30 * TURN_NS; nowNs += TURN_NS) {
    const [who] = at(nowNs);
    had[who]++;
    drain(who);
    if (who !== 1) continue;
    // It leaves within its slot, and is there again when the next one has begun.
    coordinator.leave(pages[1]);
    pages[1].grants.fill(0);
    const [next] = at(nowNs);
    had[next]++;
    drain(next);
    pages[1] = coordinator.join('x')!;
    pages[1].counters.set(pages[0].counters);
    coordinator.runPass(RULES, 0);
  }
  expect(Math.max(...had) - Math.min(...had)).toBeLessThanOrEqual(1);
});

test('the number of slots has 32 bits, and a slot is over on time beyond them', () => {
  const { coordinator, pages, at, drain } = ground('a', 'b', 'c');
  const SLOT = 4;
  for (const before of [2 ** 31 - 2, -2]) {
    new Int32Array(coordinator.members.buffer)[SLOT] = before;
    pages[0].counters[M.DRAINED_SLOT] = 0;
    const order: number[] = [];
    const fromNs = coordinator.members.lastSlotMember < 0 ? 0 : 1e6;
    for (let n = 0; n < 6; n++) {
      const [who] = at(fromNs + n * TURN_NS);
      order.push(who);
      drain(who);
    }
    expect(order.map((who, i) => (who - order[0] - i) % 3)).toEqual(order.map(() => expect.closeTo(0)));
    expect(pages[order[5]].grants[M.SLOT_NUMBER]).toBe(coordinator.members.slotNumber);
  }
});
