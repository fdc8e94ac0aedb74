// Alarms in the event loop of a program, on a clock of the test.
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { EventLoopAlarm, sleepInRealTime } from '../../src/providers/rdma-core/alarm.ts';

class Rig {
  nowNs = 1e9;
  readonly rungNs: number[] = [];
  readonly alarm = new EventLoopAlarm(
    () => this.nowNs,
    () => this.rungNs.push(this.nowNs),
  );

  set(atNs: number): void {
    this.alarm.atNs[0] = atNs;
    this.alarm.set();
  }
}

test('a near deadline is noticed at the next turn of the event loop', async () => {
  const rig = new Rig();
  rig.set(rig.nowNs + 300);
  await turn();
  await turn();
  expect(rig.rungNs).toEqual([]);
  rig.nowNs += 300;
  await turn();
  await turn();
  expect(rig.rungNs).toEqual([1e9 + 300]);
});

test('the last deadline counts, and Infinity removes it', async () => {
  const rig = new Rig();
  rig.set(rig.nowNs + 100);
  rig.set(rig.nowNs + 1000);
  rig.nowNs += 500;
  await sleep(5);
  expect(rig.rungNs).toEqual([]);
  rig.set(Number.POSITIVE_INFINITY);
  rig.nowNs += 1e6;
  await sleep(5);
  expect(rig.rungNs).toEqual([]);
});

test('a deadline in the past is noticed, but not within set()', async () => {
  const rig = new Rig();
  rig.set(0);
  expect(rig.rungNs).toEqual([]);
  await turn();
  await turn();
  expect(rig.rungNs.length).toBe(1);
});

test('a closed alarm does not ring', async () => {
  const rig = new Rig();
  rig.set(rig.nowNs + 100);
  rig.alarm.close();
  rig.nowNs += 1000;
  await sleep(5);
  expect(rig.rungNs).toEqual([]);
});

test('a listener may set the alarm again', async () => {
  const rungNs: number[] = [];
  let nowNs = 0;
  const alarm = new EventLoopAlarm(
    () => nowNs,
    () => {
      rungNs.push(nowNs);
      alarm.atNs[0] = nowNs + 100;
      if (rungNs.length < 3) alarm.set();
    },
  );
  alarm.atNs[0] = 100;
  alarm.set();
  for (let i = 0; i < 20; i++) {
    nowNs += 50;
    await turn();
  }
  expect(rungNs.length).toBe(3);
  // Each at the turn in which the time passed or the next one.
  expect(rungNs[0]).toBeLessThanOrEqual(200);
});

test('a sleep never ends early, even if this turn of the event loop has lasted long', async () => {
  for (let i = 0; i < 20; i++) {
    const busyUntilMs = performance.now() + 2;
    while (performance.now() < busyUntilMs);
    const beganMs = performance.now();
    await sleepInRealTime(0, 2e6);
    expect(performance.now() - beganMs).toBeGreaterThanOrEqual(2);
  }
});
