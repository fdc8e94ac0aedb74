// Accounts of tenants at the daemon: what contexts have spent stays spent when they are gone.
import { expect, test } from 'vitest';
import * as M from '../../src/coordinator/member-table.ts';
import { granted } from '../support/columns.ts';
import { hostOf, Process } from './host-rig.ts';

const PASS_NS = 20e6;
const PER_S = 1000;

/** A process of the tenant `a` with one context. */
function contextOf(host: ReturnType<typeof hostOf>, limits: { maxRequestsPerS?: number; gbps?: number }) {
  const process = new Process(host, 'a', limits);
  const page = process.join('sim0');
  const pay = (column: number, amount: number, nowNs: number) => {
    page.counters[column] += amount;
    page.counters[M.SENT_REQUESTS]++;
    process.nowNs = nowNs;
    host.fullPass(nowNs);
  };
  return { process, page, pay, end: (nowNs: number) => host.forget(process.client, nowNs) };
}

test('a tenant that spends its limit keeps it', () => {
  const host = hostOf();
  const { page, pay } = contextOf(host, { maxRequestsPerS: PER_S });
  for (let nowNs = PASS_NS; nowNs < 1e9; nowNs += PASS_NS) {
    pay(M.PAID_REQUESTS, (PER_S * PASS_NS) / 1e9, nowNs);
    expect(page.grants[M.MAX_REQUESTS_PER_S]).toBe(PER_S);
  }
});

test('what the contexts of a tenant have overspent is taken from those that come after them', () => {
  const host = hostOf();
  let nowNs = 0;
  let spent = 0;
  const limits: number[] = [];
  // A process every 40 ms, each of which spends twice the limit of that time.
  for (let round = 0; round < 25; round++) {
    const { page, pay, end } = contextOf(host, { maxRequestsPerS: PER_S });
    limits.push(page.grants[M.MAX_REQUESTS_PER_S]);
    const requests = (2 * limits[round] * 40e6) / 1e9;
    nowNs += 40e6;
    pay(M.PAID_REQUESTS, requests, nowNs);
    spent += requests;
    end(nowNs);
  }
  expect(limits[0]).toBe(PER_S);
  expect(limits.at(-1)).toBeLessThan(0.6 * PER_S);
  expect(spent).toBeLessThan(1.05 * PER_S + 108 + PER_S / 4);
  // It has made up for the debt, although it was away.
  const { page, pay } = contextOf(host, { maxRequestsPerS: PER_S });
  pay(M.PAID_REQUESTS, 0, nowNs + 1e9);
  expect(page.grants[M.MAX_REQUESTS_PER_S]).toBe(PER_S);
});

test('what a context spends before it has its seat, or after the last pass, counts', () => {
  const host = hostOf();
  const { process, page, end } = contextOf(host, { maxRequestsPerS: PER_S });
  process.nowNs = PASS_NS;
  page.counters[M.PAID_REQUESTS] = PER_S;
  end(PASS_NS);
  const next = contextOf(host, { maxRequestsPerS: PER_S });
  next.pay(M.PAID_REQUESTS, 0, 2 * PASS_NS);
  expect(next.page.grants[M.MAX_REQUESTS_PER_S]).toBeGreaterThan(0);
  expect(next.page.grants[M.MAX_REQUESTS_PER_S]).toBeLessThan(0.01);
});

test('a fixed rate has an account, too; a share by weight has none', () => {
  const host = hostOf();
  const { page, pay } = contextOf(host, { gbps: 0.8 });
  pay(M.PAID_BYTES, 3e7, PASS_NS);
  expect(granted(page, 'rateGbps')).toBeLessThan(0.5);
  const free = contextOf(hostOf(), {});
  free.pay(M.PAID_BYTES, 1e12, PASS_NS);
  expect(granted(free.page, 'rateGbps')).toBe(100);
});

test('what a tenant has sent before it got a rate is no debt', () => {
  const host = hostOf();
  const { page, pay } = contextOf(host, {});
  pay(M.PAID_BYTES, 1e10, PASS_NS);
  host.set('a', { gbps: 0.8 });
  pay(M.PAID_BYTES, 0, 2 * PASS_NS);
  expect(granted(page, 'rateGbps')).toBe(0.8);
  // From now on, it counts.
  pay(M.PAID_BYTES, 3e7, 3 * PASS_NS);
  expect(granted(page, 'rateGbps')).toBeLessThan(0.5);
});

test('counters that run backwards, or grow absurdly, change nothing', () => {
  const host = hostOf();
  const { page, pay } = contextOf(host, { maxRequestsPerS: PER_S });
  for (const amount of [-50, Number.NaN, 2 ** 60]) {
    page.counters[M.PAID_REQUESTS] = amount;
    pay(M.PAID_REQUESTS, 0, PASS_NS);
    expect(page.grants[M.MAX_REQUESTS_PER_S]).toBe(PER_S);
  }
});
