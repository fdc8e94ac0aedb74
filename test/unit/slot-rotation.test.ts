/** Rotation of tenant slots: tenants of large messages send one after another. */
import { expect, test } from 'vitest';
import { Coordinator } from '../../src/coordinator/coordinator.ts';
import * as C from '../../src/policies/perf/columns.ts';
import { master } from '../../src/policies/perf/master.ts';
import { slots } from '../../src/policies/perf/slot-rotation.ts';
import { clear, granted, RULERS, report } from '../support/columns.ts';

const RULES = {
  qNumAllow: 1,
  qNumCapa: 9,
  selective: false,
  rotateFrom: 3,
  silentNs: Number.POSITIVE_INFINITY,
};
const TURN_NS = 1000;

/** Bandwidth tenants with these names, each with one large queue pair, alongside a tenant that sends many messages. */
function ground(...tenants: string[]) {
  const coordinator = new Coordinator();
  const pages = tenants.map((tenant) => coordinator.join(tenant)!);
  for (const page of pages) {
    report(page, { class: C.BANDWIDTH, activeQps: 1, largeQps: 1, meanBytes: 1 << 20 });
    report(page, { slotDemand: C.HELD_DEMAND });
  }
  const small = coordinator.join('small')!;
  report(small, { class: C.MESSAGES });
  report(small, { activeQps: 1 });
  coordinator.decide(master, RULES, 0);
  /** The members that own the slot at a given time. */
  const at = (nowNs: number) => {
    coordinator.decide(slots, { slotNs: TURN_NS }, nowNs);
    return pages.filter((page) => granted(page, 'slotState') === C.OWN_SLOT).map(({ row }) => row);
  };
  /** Reports that a member has drained its slot. */
  const drain = (i: number) => {
    report(pages[i], { drainedSlot: granted(pages[i], 'slotNumber') });
  };
  return { coordinator, pages, small, at, drain };
}

test('tenants rotate from `rotateFrom` queue pairs on; tenants of small messages never do', () => {
  const { pages, small, at } = ground('a', 'b');
  expect(at(0)).toEqual([]);
  expect(pages.map((page) => granted(page, 'slotState'))).toEqual([C.NO_ROTATION, C.NO_ROTATION]);
  const many = ground('a', 'b', 'c');
  expect(many.at(0)).toEqual([0]);
  expect(many.pages.map((page) => granted(page, 'slotState'))).toEqual([
    C.OWN_SLOT,
    C.OTHERS_SLOT,
    C.OTHERS_SLOT,
  ]);
  // In its slot, each tenant is alone.
  expect(many.pages.map((page) => granted(page, 'busyLargeQps'))).toEqual([1, 1, 1]);
  expect([small, many.small].map((page) => granted(page, 'slotState'))).toEqual([
    C.NO_ROTATION,
    C.NO_ROTATION,
  ]);
});

test('the next slot begins when all requests of the last one have completed, and is just as long', () => {
  const { pages, at, drain } = ground('a', 'b', 'c');
  expect(at(0)).toEqual([0]);
  expect(granted(pages[0], 'slotEndNs')).toBe(TURN_NS);
  // The slot's time is over, but its requests have not completed.
  expect(at(1040)).toEqual([0]);
  drain(0);
  expect(at(1050)).toEqual([1]);
  // The slot began a little late, but ends on time for the tenants that follow.
  expect(granted(pages[1], 'slotEndNs')).toBe(2 * TURN_NS);
  drain(1);
  expect(at(2000)).toEqual([2]);
  drain(2);
  expect(at(3000)).toEqual([0]);
});

test('a tenant with nothing to send gives up its slot at once, and is passed over', () => {
  const { pages, at, drain } = ground('a', 'b', 'c');
  expect(at(0)).toEqual([0]);
  report(pages[0], { slotDemand: C.NO_DEMAND });
  expect(at(10)).toEqual([1]);
  expect(granted(pages[1], 'slotEndNs')).toBe(10 + TURN_NS);
  drain(1);
  expect(at(1010)).toEqual([2]);
  // Requests in flight alone are no reason for a slot.
  report(pages[0], { slotDemand: C.IN_FLIGHT_DEMAND });
  drain(2);
  expect(at(2010)).toEqual([1]);
});

test('a slot is extended while no other tenant has demand', () => {
  const { pages, at, drain } = ground('a', 'b', 'c');
  for (const i of [1, 2]) report(pages[i], { slotDemand: C.NO_DEMAND });
  expect(at(0)).toEqual([0]);
  expect(at(990)).toEqual([0]);
  expect(granted(pages[0], 'slotEndNs')).toBe(990 + TURN_NS);
  const slot = granted(pages[0], 'slotNumber');
  // The tenant stopped before it read the extension, so it gets a new slot.
  drain(0);
  expect(at(1990)).toEqual([0]);
  expect(granted(pages[0], 'slotNumber')).toBe(slot + 1);
  report(pages[2], { slotDemand: C.HELD_DEMAND });
  expect(at(2000)).toEqual([0]);
  drain(0);
  expect(at(2980)).toEqual([2]);
});

test('a tenant that leaves, dies or changes class loses its slot', () => {
  const { coordinator, pages, at } = ground('a', 'b', 'c', 'd', 'e');
  expect(at(0)).toEqual([0]);
  coordinator.leave(pages[0]);
  clear(pages[0]);
  expect(at(1)).toEqual([1]);
  report(pages[1], { class: C.IDLE });
  coordinator.decide(master, RULES, 0);
  expect(at(2)).toEqual([2]);
  // This tenant never reports that it has drained.
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

test('with rotation always on, two bandwidth tenants take slots without any small tenant', () => {
  const { coordinator, small, at } = ground('a', 'b');
  report(small, { class: C.IDLE });
  coordinator.decide(master, { ...RULES, rotateFrom: 0 }, 0);
  expect(at(0)).toEqual([0]);
  coordinator.decide(master, RULES, 0);
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
    // The tenant leaves within its slot, and rejoins after the next slot has begun.
    coordinator.leave(pages[1]);
    clear(pages[1]);
    const [next] = at(nowNs);
    had[next]++;
    drain(next);
    pages[1] = coordinator.join('x')!;
    for (const ruler of RULERS) pages[1].columns(ruler).reports.set(pages[0].columns(ruler).reports);
    coordinator.decide(master, RULES, 0);
  }
  expect(Math.max(...had) - Math.min(...had)).toBeLessThanOrEqual(1);
});
