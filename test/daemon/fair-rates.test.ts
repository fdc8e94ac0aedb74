// Rates that a daemon gives to tenants whose programs run under fair.
// @module-tag wide
import { describe, expect, test } from 'vitest';
import { NONE_ALLOWED } from '../../src/coordinator/member-table.ts';
import { fairWindows } from '../../src/policies/fair/options.ts';
import { PART_GBPS } from '../../src/policies/fair/rate-parts.ts';
import { eachShort } from '../support/variants.ts';
import { PROFILE, World } from './window-world.ts';

const TENANT = 't';
const GBPS = 0.1;
/** Within this time, a new rate has reached all programs. */
const NOTICE_NS = 50e6;

/** What each program sends in this time, in Gbit/s of messages. */
async function gbps(world: World, ns: number): Promise<number[]> {
  const before = world.programs.map(({ done }) => done);
  await world.run(ns);
  return world.programs.map(({ done, load }, i) => ((done - before[i]) * load.bytes * 8) / ns);
}

const sum = (values: readonly number[]) => values.reduce((all, one) => all + one, 0);

/** Whether a rate is the tenant's, apart from headers (a tenth for short messages) and from the ends of the interval. */
function expectRate(rate: number, tenantGbps: number): void {
  expect(rate / tenantGbps).toBeGreaterThan(0.85);
  expect(rate / tenantGbps).toBeLessThan(1.03);
}

/** A world under fair in which some time has passed. */
async function started(): Promise<World> {
  const world = new World(0, 'fair');
  world.start({}, TENANT);
  await world.run(2e8);
  return world;
}

test('gbps limits a tenant within 50 ms, can change, and ends with a share', async () => {
  const world = await started();
  const [free] = await gbps(world, 2e8);
  expect(free).toBeGreaterThan(0.4);
  for (const rate of [GBPS, GBPS / 4, 2 * GBPS]) {
    world.host.set(TENANT, { gbps: rate });
    await world.run(NOTICE_NS);
    expectRate((await gbps(world, 5e8))[0], rate);
  }
  world.host.set(TENANT, { gbps: null });
  await world.run(NOTICE_NS);
  expect((await gbps(world, 2e8))[0]).toBeGreaterThan(0.9 * free);
});

test('what a tenant with a rate leaves of the link goes to the others', async () => {
  const world = await started();
  world.start({}, 'other');
  world.host.set(TENANT, { gbps: GBPS });
  await world.run(3e8);
  const [limited, other] = await gbps(world, 5e8);
  expectRate(limited, GBPS);
  expect(other).toBeGreaterThan(0.3);
});

describe('the rate belongs to the tenant', () => {
  test('so its programs have equal parts of it', async () => {
    const world = await started();
    for (let i = 0; i < 3; i++) world.start({}, TENANT);
    world.host.set(TENANT, { gbps: GBPS });
    await world.run(3e8);
    const rates = await gbps(world, 5e8);
    expectRate(sum(rates), GBPS);
    for (const rate of rates) expect((4 * rate) / sum(rates)).toBeCloseTo(1, 0.5);
  });

  test('and those that send have the parts of those that do not', async () => {
    const world = await started();
    for (let i = 0; i < 3; i++) world.start({}, TENANT).isPosting = false;
    world.host.set(TENANT, { gbps: GBPS });
    await world.run(5e8);
    expectRate((await gbps(world, 5e8))[0], GBPS);
  });

  test('so the queue pairs and contexts of a program have equal parts of its part', async () => {
    const world = new World(0, 'fair');
    const { doneBy } = world.start({}, TENANT, { bytes: 65_536, depth: 4, contexts: 5 });
    world.host.set(TENANT, { gbps: GBPS });
    await world.run(3e8);
    const before = [...doneBy];
    expectRate(sum(await gbps(world, 1e9)), GBPS);
    const done = doneBy.map((all, i) => all - before[i]);
    expect(Math.min(...done) / Math.max(...done)).toBeGreaterThan(0.9);
  });

  test('and a new program does not send more', async () => {
    const world = await started();
    world.host.set(TENANT, { gbps: GBPS });
    await world.run(3e8);
    for (let i = 0; i < 4; i++) {
      world.start({}, TENANT);
      expect(sum(await gbps(world, 1e8))).toBeLessThan(1.15 * GBPS);
    }
  });
});

eachShort(1, [
  ['short messages', { bytes: 1024, depth: 32 }],
  ['messages of one packet', { bytes: 4096, depth: 8 }],
  ['large messages', { bytes: 1 << 20, depth: 2 }],
])('%s count', async (_, load) => {
  const world = new World(0, 'fair');
  world.start({}, TENANT, load);
  world.host.set(TENANT, { gbps: GBPS });
  await world.run(3e8);
  expectRate((await gbps(world, 1e9))[0], GBPS);
});

eachShort(1, [[[]], [['other']]])('atomics count, next to those of the tenants %j', async (others) => {
  const world = new World(0, 'fair');
  for (const tenant of [TENANT, ...others]) world.start({}, tenant, { bytes: 8, depth: 16, isAtomic: true });
  world.host.set(TENANT, { gbps: GBPS / 20 });
  await world.run(3e8);
  const [limited, ...free] = await gbps(world, 1e9);
  const { headerBytes } = PROFILE;
  expectRate((limited * (headerBytes + 28)) / 8, GBPS / 20);
  for (const one of free) expect(one).toBeGreaterThan(2 * limited);
});

describe('on a device that is left alone, because it serves one request at a time', () => {
  const ALONE = { ...PROFILE, processingUnits: 1 };

  eachShort(1, [
    ['short messages', { bytes: 1024, depth: 32 }],
    ['large messages', { bytes: 1 << 20, depth: 2 }],
  ])('%s count, too', async (_, load) => {
    const world = new World(0, 'fair', ALONE);
    world.start({}, TENANT, load);
    await world.run(2e8);
    world.host.set(TENANT, { gbps: GBPS });
    await world.run(3e8);
    expectRate((await gbps(world, 1e9))[0], GBPS);
    world.host.set(TENANT, { gbps: null });
    await world.run(NOTICE_NS);
    expect((await gbps(world, 2e8))[0]).toBeGreaterThan(2 * GBPS);
  });
});

test('a program whose part is still to be granted sends nothing, and begins with the grant', async () => {
  const world = await started();
  world.start({}, TENANT);
  world.host.set(TENANT, { gbps: GBPS });
  await world.run(3e8);
  for (const { member, process } of world.programs) {
    member.columns(fairWindows).grants[PART_GBPS] = NONE_ALLOWED;
    process.notify();
  }
  // What was on its way arrives.
  await world.run(5e6);
  expect(await gbps(world, 2e7)).toEqual([0, 0]);
  world.host.set(TENANT, { gbps: 2 * GBPS });
  await world.run(NOTICE_NS);
  const rates = await gbps(world, 5e8);
  expectRate(sum(rates), 2 * GBPS);
  expect(Math.min(...rates)).toBeGreaterThan(0.8 * GBPS);
});

test('without the daemon, the last rate stays in force', async () => {
  const world = await started();
  world.host.set(TENANT, { gbps: GBPS });
  await world.run(3e8);
  world.isDaemonUp = false;
  for (const { process } of world.programs) process.end();
  expectRate((await gbps(world, 5e8))[0], GBPS);
});

test('a policy around fair that enforces rates, too, does not make the tenant pay twice', async () => {
  const world = new World(0, 'fair in token-bucket');
  world.start({}, TENANT);
  world.host.set(TENANT, { gbps: GBPS });
  await world.run(5e8);
  expectRate((await gbps(world, 1e9))[0], GBPS);
});
