// Policies with a window across processes: the daemon gives each process a part of it, and takes it back from those that
// end.
import { describe, expect, test } from 'vitest';
import { SILENT_NS } from '../../src/daemon/liveness.ts';
import { BEAT_NS, PASS_NS, STEP_NS, World } from './window-world.ts';

function expectWithin(values: readonly number[], due: readonly number[], part: number): void {
  for (const [i, value] of values.entries()) {
    expect(value / due[i]).toBeGreaterThan(1 - part);
    expect(value / due[i]).toBeLessThan(1 + part);
  }
}

test('four programs in two groups, of weights 1 to 4, have the shares of equation (1) within 2 s', async () => {
  const world = new World();
  for (const qpWeight of [1, 2, 3, 4]) world.start({ qpWeight, group: qpWeight % 2 === 0 ? 'even' : 'odd' });
  await world.run(3e8);
  expectWithin(await world.shares(5e8), [1 / 8, 1 / 6, 3 / 8, 1 / 3], 0.05);
});

test('under fair, tenants have equal shares, however many programs they have', async () => {
  const world = new World(0, 'fair');
  for (const tenant of ['one', 'three', 'three', 'three']) world.start({}, tenant);
  await world.run(3e8);
  expectWithin(await world.shares(5e8), [1 / 2, 1 / 6, 1 / 6, 1 / 6], 0.05);
});

test('under fair, one busy program among idle ones has nearly all of the window', async () => {
  const world = new World(0, 'fair');
  const [busy, ...idle] = ['a', 'b', 'c', 'd'].map((tenant) => world.start({}, tenant));
  for (const program of idle) program.isPosting = false;
  await world.run(5e8);
  expect(busy.part).toBeGreaterThan(0.95);
});

describe('a process that is killed', () => {
  /** Two programs that share the device, one of which ends without a word. */
  async function killed() {
    const world = new World();
    const [one, other] = [world.start({ qpWeight: 1 }), world.start({ qpWeight: 3 })];
    await world.run(3e8);
    expect(one.part).toBeLessThan(0.5);
    other.isRunning = false;
    return { world, one, other };
  }

  test('gives its part of the window back with the next pass after its socket has closed', async () => {
    const { world, one, other } = await killed();
    world.host.leave(other.process.client, other.member.seatNumber, world.fabric.nowNs);
    await world.run(PASS_NS + STEP_NS);
    expect(one.part).toBeCloseTo(1, 6);
  });

  test('or is stopped gives it back once it has been silent for 50 ms', async () => {
    const { world, one, other } = await killed();
    await world.run(SILENT_NS - 2 * BEAT_NS);
    expect(one.part).toBeLessThan(0.5);
    await world.run(2 * BEAT_NS + 2 * PASS_NS);
    expect(one.part).toBeCloseTo(1, 6);
    other.isRunning = true;
    await world.run(5e8);
    expect(one.part).toBeLessThan(0.5);
  });
});

test('without the daemon, the last parts stay in force', async () => {
  const world = new World();
  const programs = [1, 3].map((qpWeight) => world.start({ qpWeight }));
  await world.run(5e8);
  const parts = programs.map(({ part }) => part);
  world.isDaemonUp = false;
  for (const { process } of programs) process.end();
  expect(programs.map(({ part }) => part)).toEqual(parts);
  expectWithin(await world.shares(5e8), [1 / 4, 3 / 4], 0.1);
  expect(programs.map(({ part }) => part)).toEqual(parts);
});

test.each([0, 1e6, 15e6, 35e6])('a daemon that answers after %d ns steers programs', async (answerNs) => {
  const world = new World(answerNs);
  const programs = [1, 3].map((qpWeight) => world.start({ qpWeight }));
  await world.run(2e8);
  expect(programs[0].part).toBeLessThan(0.5);
});
