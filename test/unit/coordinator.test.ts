/** The coordinator of one device: which isolation PeRF's master switches on for which mixture. */
import { expect, test } from 'vitest';
import { Coordinator } from '../../src/coordinator/coordinator.ts';
import * as M from '../../src/coordinator/member-table.ts';
import * as C from '../../src/policies/perf/columns.ts';
import { master } from '../../src/policies/perf/master.ts';
import { slots } from '../../src/policies/perf/slot-rotation.ts';
import { granted, report } from '../support/columns.ts';

const RULES = {
  qNumAllow: 1,
  qNumCapa: 9,
  selective: false,
  rotateFrom: Number.POSITIVE_INFINITY,
  silentNs: Number.POSITIVE_INFINITY,
};

/** `B`, `M` or `D`, with a number of queue pairs; after a colon, the mean size and the longest queue. */
function parse(text: string) {
  const [, kind, qps, bytes, queue] = /^([BMD])(\d*)(?::(\d+)x(\d+))?$/.exec(text)!;
  const of = { D: C.DELAY, M: C.MESSAGES, B: C.BANDWIDTH }[kind as 'B'];
  const size = bytes ?? (kind === 'B' ? 1 << 20 : 16);
  return { of, qps: Number(qps || 1), bytes: Number(size), queue: Number(queue ?? 4), isB: kind === 'B' };
}

function fill(page: M.MemberPage, text: string): void {
  const { of, qps, bytes, queue, isB } = parse(text);
  const largeQps = isB ? qps : 0;
  report(page, { class: of, activeQps: qps, largeQps, meanBytes: bytes, queueLength: queue });
  report(page, { wireGbps: isB ? 90 : 2 });
}

/** For each tenant: whether its messages are split, and its QNum_allow. */
function grantsOf(mix: string, rules = RULES) {
  const coordinator = new Coordinator();
  const texts = mix.split(' + ');
  const pages = texts.map((text, i) => {
    const page = coordinator.join(`t${i}`)!;
    fill(page, text);
    return page;
  });
  coordinator.decide(master, rules, 0);
  return pages.map((page) => `${granted(page, 'split') === 1 ? 'split' : '-'} ${granted(page, 'qNumAllow')}`);
}

test.each([
  ['D', '- 0'],
  ['B8', '- 0'],
  ['M8', '- 0'],
  ['D + M', '- 0, - 0'],
  ['D4 + M', '- 0, - 0'],
  ['B + D', 'split 0, - 0'],
  ['B + M', 'split 0, - 0'],
  ['B + B', '- 0, - 0'],
  ['B + B:65536x4', '- 0, - 0'],
  ['B + B:65536x1', 'split 0, split 0'],
  ['B8 + B', '- 1, - 0'],
  ['B8 + D', 'split 1, - 0'],
  ['B8 + M', 'split 1, - 0'],
  ['B8 + B4', '- 1, - 1'],
  ['B8 + M8', 'split 1, - 1'],
  ['M16 + B', '- 1, split 0'],
  ['M16 + D', '- 8, - 0'],
  ['M16 + M + D + D', '- 6, - 0, - 0, - 0'],
  ['M16 + M16', '- 4, - 4'],
  ['M3 + M3', '- 0, - 0'],
])('%s: %s', (mix, expected) => {
  expect(grantsOf(mix).join(', ')).toBe(expected);
});

test("the paper's own rule leaves bandwidth tenants of different sizes alone", () => {
  expect(grantsOf('B + B:65536x1', { ...RULES, selective: true })).toEqual(['- 0', '- 0']);
});

test("each member's grants contain what its policy must know about the others", () => {
  const coordinator = new Coordinator();
  const pages = ['B8', 'B', 'M', 'D2'].map((text, i) => {
    const page = coordinator.join(`t${i}`)!;
    fill(page, text);
    return page;
  });
  coordinator.decide(master, RULES, 0);
  for (const page of pages) {
    // One of B8's eight queue pairs at a time, and the one of tenant B.
    expect(granted(page, 'busyLargeQps')).toBe(2);
    expect(granted(page, 'smallGbps')).toBe(4);
    expect([granted(page, 'dTenants'), granted(page, 'mTenants'), granted(page, 'bTenants')]).toEqual([
      1, 1, 2,
    ]);
  }
  expect(coordinator.describe(master, pages[0].row)).toMatchObject({
    class: 'bandwidth',
    why: 'large messages beside small ones',
    split: true,
  });
  expect(coordinator.describe(master, pages[3].row)).toMatchObject({
    class: 'delay',
    why: 'nothing to isolate',
  });
});

test('contexts of one name are one tenant; without a name each is its own', () => {
  const coordinator = new Coordinator();
  const [a, b] = ['same', 'same'].map((name) => coordinator.join(name)!);
  for (const page of [a, b]) fill(page, 'B');
  const d = coordinator.join('')!;
  fill(d, 'D');
  coordinator.decide(master, RULES, 0);
  // The tenant has two queue pairs, and only one may send at a time.
  expect([a, b].map((page) => granted(page, 'qNumAllow'))).toEqual([1, 1]);
  const alone = new Coordinator();
  const pages = ['', ''].map(() => alone.join('')!);
  for (const page of pages) fill(page, 'B');
  alone.decide(master, RULES, 0);
  expect(pages.map((page) => granted(page, 'qNumAllow'))).toEqual([0, 0]);
});

test('a tenant that leaves or falls idle no longer counts; each change is reported once', () => {
  const coordinator = new Coordinator();
  const b = coordinator.join('b')!;
  const d = coordinator.join('d')!;
  fill(b, 'B');
  fill(d, 'D');
  coordinator.decide(master, RULES, 0);
  expect(coordinator.takeChanges()).toEqual([b.row]);
  coordinator.decide(master, RULES, 0);
  expect(coordinator.hasChanges).toBe(false);
  report(d, { class: C.IDLE });
  coordinator.decide(master, RULES, 0);
  expect(granted(b, 'split')).toBe(0);
  fill(d, 'D');
  coordinator.decide(master, RULES, 0);
  expect(granted(b, 'split')).toBe(1);
  coordinator.leave(d);
  coordinator.decide(master, RULES, 0);
  expect(granted(b, 'split')).toBe(0);
  // The seat of d is free again and has been cleared.
  const next = coordinator.join('e')!;
  expect([next.row, ...next.counters, ...next.grants].every((n, i) => n === (i === 0 ? d.row : 0))).toBe(
    true,
  );
});

test('two views of one shared buffer are one device', () => {
  const buffer = new SharedArrayBuffer(M.memberTableBytes(8));
  const [one, other] = [0, 1].map(() => new Coordinator(new M.MemberTable(buffer, 8)));
  const b = one.join('b')!;
  const d = other.join('d')!;
  expect(d.row).not.toBe(b.row);
  fill(b, 'B');
  fill(d, 'D');
  other.decide(master, RULES, 0);
  expect(granted(b, 'split')).toBe(1);
  // Each view notifies only its own members, which read what the other view changed.
  expect([one.hasChanges, other.hasChanges]).toEqual([false, false]);
  other.leave(d);
  one.decide(master, RULES, 0);
  expect(granted(b, 'split')).toBe(0);
  expect(one.takeChanges()).toEqual([b.row]);
  // While one view decides, the other skips its pass.
  expect(one.members.tryLock(0)).toBe(true);
  report(b, { class: C.DELAY });
  other.decide(master, RULES, 0);
  expect(granted(b, 'dTenants')).toBe(0);
  one.members.unlock();
  other.decide(master, RULES, 0);
  expect(granted(b, 'dTenants')).toBe(1);
  for (let i = 0; i < 7; i++) expect(other.join('')).not.toBeNull();
  expect(one.join('')).toBeNull();
});

test('runPass() does not wait for a thread that died holding the lock', () => {
  const buffer = new SharedArrayBuffer(M.memberTableBytes(8));
  const [one, other] = [0, 1].map(() => new Coordinator(new M.MemberTable(buffer, 8)));
  const b = one.join('b')!;
  fill(b, 'B');
  fill(other.join('d')!, 'D');
  expect(one.members.tryLock(0)).toBe(true);
  for (const nowNs of [5e8, 5.5e8, 5.9e8]) {
    other.decide(master, RULES, nowNs);
    expect(granted(b, 'split')).toBe(0);
  }
  other.decide(master, RULES, 6.1e8);
  expect(granted(b, 'split')).toBe(1);
  // The first thread was only slow: it must not release a lock that another thread holds by now.
  expect(other.members.tryLock(7e8)).toBe(true);
  one.members.unlock();
  expect(one.members.tryLock(7e8)).toBe(false);
  other.members.unlock();
  expect(one.members.tryLock(7e8)).toBe(true);
});

test('counters that change no class wait for the next pass, and members do not each cause a pass', () => {
  const coordinator = new Coordinator();
  const pages = Array.from({ length: 1000 }, (_, i) => coordinator.join(`t${i}`)!);
  for (const page of pages) fill(page, 'M');
  coordinator.decide(master, RULES, 0);
  report(pages[0], { wireGbps: 7 });
  coordinator.decide(master, RULES, 10_000, false);
  expect(granted(pages[1], 'smallGbps')).toBe(2000);
  coordinator.decide(master, RULES, 1e6, false);
  expect(granted(pages[1], 'smallGbps')).toBe(2005);
  report(pages[0], { wireGbps: 2 });
  coordinator.decide(master, RULES, 1e6 + 1);
  expect(granted(pages[1], 'smallGbps')).toBe(2000);
});

test('a member whose thread died stops counting after a silent window, and counts again once it writes', () => {
  const coordinator = new Coordinator();
  const rules = { ...RULES, silentNs: 1000 };
  const b = coordinator.join('b')!;
  const d = coordinator.join('d')!;
  const many = coordinator.join('many')!;
  fill(b, 'B');
  fill(d, 'D');
  fill(many, 'B4');
  coordinator.decide(master, rules, 1000);
  expect([granted(b, 'split'), granted(many, 'qNumAllow'), granted(b, 'busyLargeQps')]).toEqual([1, 1, 2]);
  for (const page of [b, many]) page.counters[M.WRITTEN_NS] = 900;
  coordinator.decide(master, rules, 1001);
  // No delay tenant is left to protect.
  expect([granted(b, 'split'), granted(b, 'dTenants')]).toEqual([0, 0]);
  b.counters[M.WRITTEN_NS] = 1900;
  coordinator.decide(master, rules, 1901);
  expect([granted(b, 'busyLargeQps'), granted(many, 'qNumAllow')]).toEqual([1, 0]);
  // The thread of d was only slow.
  d.counters[M.WRITTEN_NS] = 1905;
  coordinator.decide(master, rules, 1910);
  expect(granted(b, 'split')).toBe(1);
});

test('a dead tenant has no slots', () => {
  const coordinator = new Coordinator();
  const rules = { ...RULES, rotateFrom: 0, silentNs: 1000 };
  const [a, b, dead] = ['a', 'b', 'dead'].map((tenant) => coordinator.join(tenant)!);
  for (const page of [a, b, dead]) {
    fill(page, 'B');
    report(page, { slotDemand: C.HELD_DEMAND });
  }
  coordinator.decide(master, rules, 0);
  expect(granted(dead, 'slotState')).toBe(C.OTHERS_SLOT);
  for (const page of [a, b]) page.counters[M.WRITTEN_NS] = 1500;
  coordinator.decide(master, rules, 1500);
  const owners = [];
  for (let nowNs = 1500; nowNs < 2500; nowNs += 100) {
    coordinator.decide(slots, { slotNs: 50 }, nowNs);
    owners.push([a, b, dead].findIndex((page) => granted(page, 'slotState') === C.OWN_SLOT));
  }
  expect(new Set(owners)).toEqual(new Set([0, 1]));
});
