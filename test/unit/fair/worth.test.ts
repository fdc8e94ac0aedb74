// Whether scheduling helps is found out by trials.
import { describe, expect, test } from 'vitest';
import { reasonOf, STANCE, Stance } from '../../../src/policies/fair/stance.ts';
import { Worth } from '../../../src/policies/fair/worth.ts';

const reason = ({ stance }: Worth) => reasonOf((number) => stance[number]);

const MS = 1e6;

/** What short messages take, and what all send in bytes per ns, with scheduling and without. */
interface Device {
  onNs: number;
  offNs: number;
  onPerNs?: number;
  offPerNs?: number;
}

/** Runs for a while; returns the times at which the stance changed, with the new one. */
function run(worth: Worth, device: Device, forNs: number, isContended = true) {
  const changes: [number, boolean][] = [];
  let nowNs = 0;
  let sentBytes = 0;
  let dueNs = worth.plan(0);
  let doneNs = Number.POSITIVE_INFINITY;
  for (; nowNs < forNs; nowNs += 0.01 * MS) {
    sentBytes += 0.01 * MS * (worth.isOn ? (device.onPerNs ?? 1) : (device.offPerNs ?? 1));
    if (nowNs >= doneNs) {
      if (worth.isTimed(0)) worth.completed(doneNs);
      doneNs = Number.POSITIVE_INFINITY;
    }
    if (worth.wantsTime) {
      worth.time(0, nowNs);
      doneNs = nowNs + (worth.isOn ? device.onNs : device.offNs);
    }
    if (nowNs < dueNs) continue;
    const before = worth.isOn;
    dueNs = worth.onTimer(nowNs, sentBytes, isContended);
    if (worth.isOn !== before) changes.push([nowNs / MS, worth.isOn]);
  }
  return changes;
}

/** The part of the time in which it was not as it is at the end. */
function otherwise(changes: [number, boolean][], isOn: boolean, fromMs: number, toMs: number): number {
  let [sinceMs, sumMs] = [fromMs, 0];
  for (const [atMs, is] of changes.filter(([atMs]) => atMs >= fromMs)) {
    if (is === isOn) sumMs += atMs - sinceMs;
    sinceMs = atMs;
  }
  return sumMs / (toMs - fromMs);
}

describe('scheduling', () => {
  test('that helps goes on, and is left out for 1 % of the time', () => {
    const worth = new Worth(true);
    const changes = run(worth, { onNs: 0.1 * MS, offNs: 0.2 * MS }, 5000 * MS);
    expect(worth.isOn).toBe(true);
    expect(changes.length).toBeGreaterThan(10);
    expect(otherwise(changes, true, 1000, 5000)).toBeLessThan(0.0101);
    expect(reason(worth)).toMatch(/take 99[.0-9]* us instead of [12][.0-9]*, and the throughput is /);
  });

  test('that does not help ends after two trials', () => {
    const worth = new Worth(true);
    const changes = run(worth, { onNs: 0.5 * MS, offNs: 0.5 * MS }, 250 * MS);
    expect(worth.isOn).toBe(false);
    expect(changes.map(([, isOn]) => isOn)).toEqual([false, true, false]);
  });

  test('ends if it costs more throughput than it saves latency', () => {
    const costly = new Worth(true);
    run(costly, { onNs: 0.3 * MS, offNs: 0.5 * MS, onPerNs: 0.5 }, 400 * MS);
    expect(costly.isOn).toBe(false);
    const cheap = new Worth(true);
    run(cheap, { onNs: 0.1 * MS, offNs: 0.5 * MS, onPerNs: 0.5 }, 400 * MS);
    expect(cheap.isOn).toBe(true);
  });

  test('begins again where it helps after all', () => {
    const worth = new Worth(false);
    expect(reason(worth)).toContain('one request at a time');
    run(worth, { onNs: 0.1 * MS, offNs: 0.5 * MS }, 400 * MS);
    expect(worth.isOn).toBe(true);
  });

  test('is left out without trials while at most one queue pair is in use', () => {
    const worth = new Worth(false);
    expect(run(worth, { onNs: 0.1 * MS, offNs: 0.5 * MS }, 2000 * MS, false)).toEqual([]);
  });

  test.each([true, false])('goes back to what was presumed (%s) when nothing waits any more', (isOn) => {
    const worth = new Worth(isOn);
    run(worth, isOn ? { onNs: MS, offNs: MS } : { onNs: 0.1 * MS, offNs: MS }, 600 * MS);
    expect(worth.isOn).toBe(!isOn);
    run(worth, { onNs: MS, offNs: MS }, 600 * MS, false);
    expect(worth.isOn).toBe(isOn);
    expect(worth.stance[STANCE]).toBe(isOn ? Stance.SCHEDULED : Stance.ONE_AT_A_TIME);
  });

  test('goes on without trials while no short messages are sent, or nothing waits', () => {
    const worth = new Worth(true);
    expect(
      run(worth, { onNs: Number.POSITIVE_INFINITY, offNs: Number.POSITIVE_INFINITY }, 400 * MS, false),
    ).toEqual([]);
  });

  test('plans nothing while nothing is sent', () => {
    const worth = new Worth(true);
    const dueNs = worth.plan(0);
    expect(worth.onTimer(dueNs, 0, false)).toBe(Number.POSITIVE_INFINITY);
    expect(worth.isPlanned).toBe(false);
  });

  test('a message that never completes counts with the time that has passed', () => {
    const worth = new Worth(true);
    run(worth, { onNs: Number.POSITIVE_INFINITY, offNs: 0.1 * MS }, 600 * MS);
    expect(worth.isOn).toBe(false);
  });
});
