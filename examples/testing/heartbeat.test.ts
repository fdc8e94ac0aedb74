// @ts-nocheck
import { openDevice } from 'isoverbs';
import { createFabric } from 'isoverbs/sim';
import { afterEach, expect, test } from 'vitest';
import { Heart, PERIOD_NS, TIMEOUT_NS } from './heartbeat.mjs';

const contexts = [];
afterEach(() => {
  for (const context of contexts.splice(0)) context.close();
});

function setUp(options) {
  const fabric = createFabric({ hosts: 2, ...options });
  const hearts = ['sim0', 'sim1'].map((name) => {
    const context = openDevice(name, { provider: fabric.provider });
    contexts.push(context);
    return new Heart(context);
  });
  return { fabric, hearts };
}

const beatAll = ([a, b], forNs) =>
  Promise.all([a.beat(b.qp.endpoint(), forNs), b.beat(a.qp.endpoint(), forNs)]);

test('all beats of a second arrive', async () => {
  const { hearts } = setUp();
  expect(await beatAll(hearts, 1000 * PERIOD_NS)).toEqual([true, true]);
  for (const { received } of hearts) expect(received).toBeGreaterThanOrEqual(999);
});

test.each([1, 2, 3])('losing one beat in five does not count as a dead peer, seed %i', async (seed) => {
  const { hearts } = setUp({ seed, loss: 0.1 });
  expect(await beatAll(hearts, 1000 * PERIOD_NS)).toEqual([true, true]);
  for (const { received } of hearts) {
    expect(received).toBeGreaterThan(700);
    expect(received).toBeLessThan(900);
  }
});

test('a killed host is detected in time', async () => {
  const { fabric, hearts } = setUp();
  const beating = beatAll(hearts, 1000 * PERIOD_NS);
  await fabric.sleep(100.5 * PERIOD_NS);
  fabric.fault({ kill: 'sim1' });
  expect(await beating).toEqual([false, false]);
  const silentNs = hearts[0].context.nowNs() - 100.5 * PERIOD_NS;
  expect(silentNs).toBeGreaterThan(TIMEOUT_NS - PERIOD_NS);
  expect(silentNs).toBeLessThan(TIMEOUT_NS + 3 * PERIOD_NS);
});
