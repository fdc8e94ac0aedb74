// Scheduling becomes stricter until short messages meet a target, and less strict when less is enough.
import { describe, expect, test } from 'vitest';
import { reasonOf } from '../../../src/policies/fair/stance.ts';
import { STRICTEST } from '../../../src/policies/fair/strictness.ts';
import { Target } from '../../../src/policies/fair/target.ts';

const US = 1e3;
/** Latencies of a measurement, each of a message of its own. */
const SAMPLES = 256;

const reason = ({ stance }: Target) => reasonOf((number) => stance[number]);

/** A device on which short messages take this long, by level; returns the levels at which it was measured. */
function run(target: Target, takesNs: (level: number) => number, measurements: number): number[] {
  const levels: number[] = [];
  for (let i = 0; i < measurements; i++) {
    const { level } = target;
    levels.push(level);
    let hasChanged = false;
    for (let sample = 0; sample < SAMPLES; sample++) {
      if (!target.wantsTime || hasChanged)
        throw new Error('nothing is timed, or the level has changed too early');
      target.time(7, 1e6);
      hasChanged = target.completed(1e6 + takesNs(level));
    }
    if (hasChanged !== (target.level !== level))
      throw new Error('completed() does not say whether it changed');
  }
  return levels;
}

/** Each level saves 0.1 us of 3. */
const falling = (level: number) => 3 * US - 0.1 * US * level;

describe('the level of strictness', () => {
  test('stays 0 while the target is met', () => {
    const target = new Target(true, 3 * US);
    expect(reason(target)).toBe('targetUs is 3.00; no short messages have been measured yet');
    expect(Math.max(...run(target, falling, 100))).toBe(0);
    expect(reason(target)).toContain('at most 3.00 us; nothing is reduced');
  });

  test('rises until the target is met, and seldom falls below this again', () => {
    const target = new Target(true, 2.55 * US);
    const levels = run(target, falling, 1000);
    expect(levels.slice(0, 11)).toEqual([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5]);
    const later = levels.slice(200);
    expect(Math.max(...later)).toBe(5);
    expect(Math.min(...later)).toBe(4);
    expect(later.filter((level) => level === 4).length / later.length).toBeLessThan(0.04);
    expect(reason(target)).toMatch(
      /at most 2\.50 us; reduced: pieces to 25 % of their length, the window to 42 %$/,
    );
  });

  test('does not rise because of one measurement', () => {
    const target = new Target(true, 3 * US);
    for (let i = 0; i < 20; i++) {
      run(target, () => 9 * US, 1);
      run(target, falling, 1);
    }
    expect(target.level).toBe(0);
  });

  test('falls to 0 step by step when nothing takes long any more', () => {
    const target = new Target(true, 2.55 * US);
    run(target, falling, 20);
    run(target, () => US, 100);
    expect(target.level).toBe(0);
  });

  test('falls to 0 without short messages, and with nothing to send', () => {
    const target = new Target(true, 2.55 * US);
    run(target, falling, 20);
    let dueNs = target.plan(0);
    for (let i = 1; i <= 5; i++) dueNs = target.onTimer(dueNs, i);
    expect(target.level).toBe(5);
    dueNs = target.onTimer(dueNs, 6);
    expect(target.level).toBe(0);
    expect(target.onTimer(dueNs, 6)).toBe(Number.POSITIVE_INFINITY);
    expect(target.isPlanned).toBe(false);
  });
});

test('a target that no level meets is reported, reduces nothing, and is tried ever less often', () => {
  const target = new Target(true, US);
  const first = run(target, falling, 2 * (STRICTEST + 1));
  expect(Math.max(...first)).toBe(STRICTEST);
  expect(target.level).toBe(0);
  expect(reason(target)).toContain('cannot be met even with the least in flight, so nothing is reduced');
  const levels = run(target, falling, 5000);
  expect(levels.filter((level) => level > 0).length / levels.length).toBeLessThan(0.05);
  expect(Math.max(...levels)).toBe(STRICTEST);
  // It is taken up again at once when it can be met.
  run(target, (level) => (level > 0 ? US / 2 : 2 * US), 5000);
  expect(reason(target)).toContain('at most 0.500 us; reduced: pieces to 38 %');
});

test('a message whose queue pair is destroyed is not counted', () => {
  const target = new Target(true, US);
  target.time(7, 0);
  target.cancel(6);
  expect(target.isTimed(7)).toBe(true);
  target.cancel(7);
  expect(target.isTimed(7)).toBe(false);
  expect(target.wantsTime).toBe(true);
});

test('a device that serves one request at a time is left alone', () => {
  const target = new Target(false, US);
  expect([target.isOn, target.isAside, target.wantsTime]).toEqual([false, true, false]);
  expect(reason(target)).toContain('one request at a time');
});
