/** What members of other processes report counts only as far as their counters of bytes and requests support it. */
import { expect, test } from 'vitest';
import { Coordinator } from '../../src/coordinator/coordinator.ts';
import {
  coordinatorMemory,
  type MemberPage,
  MemberTable,
  SENT_BYTES,
  SENT_REQUESTS,
} from '../../src/coordinator/member-table.ts';
import * as C from '../../src/policies/perf/columns.ts';
import { master } from '../../src/policies/perf/master.ts';
import { granted, report } from '../support/columns.ts';

const RULES = {
  qNumAllow: 1,
  qNumCapa: 9,
  selective: false,
  rotateFrom: Number.POSITIVE_INFINITY,
  silentNs: Number.POSITIVE_INFINITY,
};
const MS = 1e6;
const LARGE = { class: C.BANDWIDTH, activeQps: 1, largeQps: 1, meanBytes: 1 << 20, queueLength: 4 };
const HONEST = { ...LARGE, wireGbps: 97, demandGbps: 100 };

/** A coordinator of members of other processes: an honest B, and another tenant with these reports. */
function setUp(claims: Readonly<Record<string, number>>) {
  const coordinator = new Coordinator(new MemberTable(coordinatorMemory()), 'by owner');
  coordinator.setLink(100);
  const [honest, other] = ['honest', 'other'].map((tenant) => coordinator.join(tenant)!);
  const count = ({ counters }: MemberPage, bytes: number, requests: number) => {
    counters[SENT_BYTES] += bytes;
    counters[SENT_REQUESTS] += requests;
  };
  report(honest, HONEST);
  let nowNs = 1e9;
  /** Passes `ms` later, in which the honest tenant has sent all the time, and the other one `bytes` in `requests`. */
  const pass = (ms: number, bytes = 0, requests = 0) => {
    nowNs += ms * MS;
    count(honest, 12e6 * ms, 12 * ms);
    count(other, bytes, requests);
    coordinator.decide(master, RULES, nowNs);
  };
  pass(0);
  report(other, claims);
  return { honest, other, pass };
}

test.each([
  ['B that waits for the link', { ...LARGE, wireGbps: 1e5, demandGbps: 1e5 }],
  ['D', { class: C.DELAY, activeQps: 1, meanBytes: 16, queueLength: 1, wireGbps: 1e5, demandGbps: 1e5 }],
  [
    'M of many queue pairs',
    { class: C.MESSAGES, activeQps: 1000, meanBytes: 16, queueLength: 999, wireGbps: 1e5 },
  ],
])('a client that sends nothing and reports to be %s takes nothing', (_name, claims) => {
  const { honest, pass } = setUp(claims);
  pass(51);
  expect(granted(honest, 'busyLargeQps')).toBeCloseTo(1, 6);
  expect(granted(honest, 'smallGbps')).toBe(0);
  expect(granted(honest, 'qNumAllow')).toBe(0);
  pass(1000);
  expect(granted(honest, 'split')).toBe(0);
  expect(granted(honest, 'dTenants') + granted(honest, 'mTenants')).toBe(0);
});

test('a client that reports far more than it sends takes what it sends', () => {
  const { honest, pass } = setUp({ ...LARGE, wireGbps: 100, demandGbps: 100 });
  for (let i = 0; i < 4; i++) pass(20, 1024 * 4, 4);
  expect(granted(honest, 'busyLargeQps')).toBeLessThan(1.001);
});

test('a client that sends its share is believed, at once and later', () => {
  const { honest, pass } = setUp(HONEST);
  pass(1);
  expect(granted(honest, 'busyLargeQps')).toBe(2);
  for (let i = 0; i < 4; i++) pass(20, 120e6, 120);
  expect(granted(honest, 'busyLargeQps')).toBe(2);
});

test('a client that gets little because it is held back keeps its share', () => {
  const { honest, pass } = setUp({ ...LARGE, wireGbps: 8, demandGbps: 100 });
  for (let i = 0; i < 4; i++) pass(20, 20e6, 20);
  expect(granted(honest, 'busyLargeQps')).toBe(2);
});

test('a client that returns after a pause is believed from the second change of its counters on', () => {
  const { honest, pass } = setUp(HONEST);
  pass(2000);
  expect(granted(honest, 'busyLargeQps')).toBeCloseTo(1, 6);
  pass(1, 12e6, 12);
  pass(1, 12e6, 12);
  expect(granted(honest, 'busyLargeQps')).toBe(2);
});
