/** The coordinator of one device: which isolation PeRF's master switches on for which mixture. */
import { expect, test } from 'vitest';
import { Coordinator } from '../../src/coordinator/coordinator.ts';
import { REASONS } from '../../src/coordinator/master.ts';
import * as M from '../../src/coordinator/member-table.ts';

const RULES = { qNumAllow: 1, qNumCapa: 9, selective: false, rotateFrom: Number.POSITIVE_INFINITY };

/** `B`, `M` or `D`, with a number of queue pairs; behind a colon the mean size and the longest queue. */
function parse(text: string) {
  const [, kind, qps, bytes, queue] = /^([BMD])(\d*)(?::(\d+)x(\d+))?$/.exec(text)!;
  const of = { D: M.DELAY, M: M.MESSAGES, B: M.BANDWIDTH }[kind as 'B'];
  const size = bytes ?? (kind === 'B' ? 1 << 20 : 16);
  return { of, qps: Number(qps || 1), bytes: Number(size), queue: Number(queue ?? 4), isB: kind === 'B' };
}

function fill({ counters }: M.MemberPage, text: string): void {
  const { of, qps, bytes, queue, isB } = parse(text);
  counters[M.CLASS] = of;
  counters[M.ACTIVE_QPS] = qps;
  counters[M.LARGE_QPS] = isB ? qps : 0;
  counters[M.MEAN_BYTES] = bytes;
  counters[M.QUEUE_LENGTH] = queue;
  counters[M.WIRE_GBPS] = isB ? 90 : 2;
}

/** Per tenant: whether it is split, and its QNum_allow. */
function grantsOf(mix: string, rules = RULES) {
  const coordinator = new Coordinator();
  const texts = mix.split(' + ');
  const pages = texts.map((text, i) => {
    const page = coordinator.join(`t${i}`)!;
    fill(page, text);
    return page;
  });
  coordinator.runPass(rules, 0);
  return pages.map(({ grants }) => `${grants[M.SPLIT] === 1 ? 'split' : '-'} ${grants[M.QNUM_ALLOW]}`);
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

test('what policies must know of the others is granted to each', () => {
  const coordinator = new Coordinator();
  const pages = ['B8', 'B', 'M', 'D2'].map((text, i) => {
    const page = coordinator.join(`t${i}`)!;
    fill(page, text);
    return page;
  });
  coordinator.runPass(RULES, 0);
  for (const { grants } of pages) {
    // One of the eight at a time, and the other tenant's.
    expect(grants[M.BUSY_LARGE_QPS]).toBe(2);
    expect(grants[M.SMALL_GBPS]).toBe(4);
    expect([grants[M.D_TENANTS], grants[M.M_TENANTS], grants[M.B_TENANTS]]).toEqual([1, 1, 2]);
  }
  expect(REASONS[pages[0].grants[M.REASON]]).toBe('large messages beside small ones');
  expect(REASONS[pages[3].grants[M.REASON]]).toBe('nothing to isolate');
});

test('contexts of one name are one tenant; without a name each is its own', () => {
  const coordinator = new Coordinator();
  const [a, b] = ['same', 'same'].map((name) => coordinator.join(name)!);
  for (const page of [a, b]) fill(page, 'B');
  const d = coordinator.join('')!;
  fill(d, 'D');
  coordinator.runPass(RULES, 0);
  // Two queue pairs of one tenant: one of them at a time.
  expect([a, b].map(({ grants }) => grants[M.QNUM_ALLOW])).toEqual([1, 1]);
  const alone = new Coordinator();
  const pages = ['', ''].map(() => alone.join('')!);
  for (const page of pages) fill(page, 'B');
  alone.runPass(RULES, 0);
  expect(pages.map(({ grants }) => grants[M.QNUM_ALLOW])).toEqual([0, 0]);
});

test('a tenant that leaves or falls idle no longer counts; each change is reported once', () => {
  const coordinator = new Coordinator();
  const b = coordinator.join('b')!;
  const d = coordinator.join('d')!;
  fill(b, 'B');
  fill(d, 'D');
  coordinator.runPass(RULES, 0);
  expect(coordinator.takeChanges()).toEqual([b.row]);
  coordinator.runPass(RULES, 0);
  expect(coordinator.hasChanges).toBe(false);
  d.counters[M.CLASS] = M.IDLE;
  coordinator.runPass(RULES, 0);
  expect(b.grants[M.SPLIT]).toBe(0);
  fill(d, 'D');
  coordinator.runPass(RULES, 0);
  expect(b.grants[M.SPLIT]).toBe(1);
  coordinator.leave(d);
  coordinator.runPass(RULES, 0);
  expect(b.grants[M.SPLIT]).toBe(0);
  // Its place is free again, with nothing of it left.
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
  other.runPass(RULES, 0);
  expect(b.grants[M.SPLIT]).toBe(1);
  // Each view tells its own members; what the other one changed they read.
  expect([one.hasChanges, other.hasChanges]).toEqual([false, false]);
  other.leave(d);
  one.runPass(RULES, 0);
  expect(b.grants[M.SPLIT]).toBe(0);
  expect(one.takeChanges()).toEqual([b.row]);
  // While one decides, the other waits for its next time.
  expect(one.members.tryLock(0)).toBe(true);
  b.counters[M.CLASS] = M.DELAY;
  other.runPass(RULES, 0);
  expect(b.grants[M.D_TENANTS]).toBe(0);
  one.members.unlock();
  other.runPass(RULES, 0);
  expect(b.grants[M.D_TENANTS]).toBe(1);
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
    other.runPass(RULES, nowNs);
    expect(b.grants[M.SPLIT]).toBe(0);
  }
  other.runPass(RULES, 6.1e8);
  expect(b.grants[M.SPLIT]).toBe(1);
  // It was only slow: what it gives back is not its own any more.
  expect(other.members.tryLock(7e8)).toBe(true);
  one.members.unlock();
  expect(one.members.tryLock(7e8)).toBe(false);
  other.members.unlock();
  expect(one.members.tryLock(7e8)).toBe(true);
});

test('what is no news waits for the next pass, which thousands of members do not each ask for', () => {
  const coordinator = new Coordinator();
  const pages = Array.from({ length: 1000 }, (_, i) => coordinator.join(`t${i}`)!);
  for (const page of pages) fill(page, 'M');
  coordinator.runPass(RULES, 0);
  pages[0].counters[M.WIRE_GBPS] = 7;
  coordinator.runPass(RULES, 10_000, false);
  expect(pages[1].grants[M.SMALL_GBPS]).toBe(2000);
  coordinator.runPass(RULES, 1e6, false);
  expect(pages[1].grants[M.SMALL_GBPS]).toBe(2005);
  pages[0].counters[M.WIRE_GBPS] = 2;
  coordinator.runPass(RULES, 1e6 + 1);
  expect(pages[1].grants[M.SMALL_GBPS]).toBe(2000);
});

test('a member whose thread died counts no more when it has been silent for a window; what it is owed comes back', () => {
  const coordinator = new Coordinator();
  const rules = { ...RULES, silentNs: 1000 };
  const b = coordinator.join('b')!;
  const d = coordinator.join('d')!;
  const many = coordinator.join('many')!;
  fill(b, 'B');
  fill(d, 'D');
  fill(many, 'B4');
  coordinator.runPass(rules, 1000);
  expect([b.grants[M.SPLIT], many.grants[M.QNUM_ALLOW], b.grants[M.BUSY_LARGE_QPS]]).toEqual([1, 1, 2]);
  for (const page of [b, many]) page.counters[M.WRITTEN_NS] = 900;
  coordinator.runPass(rules, 1001);
  // No delay tenant is left to protect.
  expect([b.grants[M.SPLIT], b.grants[M.D_TENANTS]]).toEqual([0, 0]);
  b.counters[M.WRITTEN_NS] = 1900;
  coordinator.runPass(rules, 1901);
  expect([b.grants[M.BUSY_LARGE_QPS], many.grants[M.QNUM_ALLOW]]).toEqual([1, 0]);
  // It was only slow.
  d.counters[M.WRITTEN_NS] = 1905;
  coordinator.runPass(rules, 1910);
  expect(b.grants[M.SPLIT]).toBe(1);
});

test('a dead tenant has no slots', () => {
  const coordinator = new Coordinator();
  const rules = { ...RULES, rotateFrom: 0, silentNs: 1000 };
  const [a, b, dead] = ['a', 'b', 'dead'].map((tenant) => coordinator.join(tenant)!);
  for (const page of [a, b, dead]) {
    fill(page, 'B');
    page.counters[M.SLOT_DEMAND] = M.HELD_DEMAND;
  }
  coordinator.runPass(rules, 0);
  expect(dead.grants[M.SLOT_STATE]).toBe(M.OTHERS_SLOT);
  for (const page of [a, b]) page.counters[M.WRITTEN_NS] = 1500;
  coordinator.runPass(rules, 1500);
  const slots = [];
  for (let nowNs = 1500; nowNs < 2500; nowNs += 100) {
    coordinator.rotate(nowNs, 50);
    slots.push([a, b, dead].findIndex(({ grants }) => grants[M.SLOT_STATE] === M.OWN_SLOT));
  }
  expect(new Set(slots)).toEqual(new Set([0, 1]));
});
