/** Counters of shims, compared with manual counts. */
import { expect, test } from 'vitest';
import { createPolicy } from '../../src/policies/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import { shimCounters, sumCounters } from '../../src/shim/counters.ts';
import { createShim } from '../../src/shim/shim.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, type End, makeEnd, post } from '../sim/helpers.ts';

function world(chain: Interceptor[], wait = true) {
  const fabric = createFabric({ hosts: 2, seed: 1, wait, autoAdvance: false });
  const shimmed = { ...fabric, provider: compose(fabric.provider, chain) };
  const a = makeEnd(shimmed, 0, { bytes: 1 << 18 });
  const b = makeEnd(fabric, 1, { bytes: 1 << 18 });
  connect(a, b);
  return { fabric, a, b };
}

function write(a: End, b: End, wrId: number, bytes: number): void {
  a.send.write(wrId, V.IBV_SEND_SIGNALED, a.mr.addr, bytes, a.mr.lkey, b.mr.addr, b.mr.rkey);
}

async function finish({ fabric, a }: ReturnType<typeof world>, wanted: number): Promise<void> {
  let polled = 0;
  for (let i = 0; i < 1000 && polled < wanted; i++) {
    await fabric.run();
    polled += a.v.pollCq(a.sendCq, a.wc.ring, 0, 16);
  }
  expect(polled).toBe(wanted);
}

const SUB = 16384;
const UNIT = 1024;

test('perf: small requests go straight to the device, a large one becomes pieces and 0_WAITs', async () => {
  const w = world([createPolicy('perf', { isolation: 'always', waits: 'fixed' })]);
  write(w.a, w.b, 1, 64);
  write(w.a, w.b, 2, 64);
  write(w.a, w.b, 3, 4 * SUB);
  expect(post(w.a)).toBe(3);
  await finish(w, 3);
  const counters = shimCounters(w.a.v);
  expect(counters).toMatchObject({ seen: 3, split: 1, held: 1, emulated: 0, bytes: 128 + 4 * SUB });
  expect(counters.internal).toEqual({ pieces: 4, waits: 4 * (SUB / UNIT), enables: 0, posts: 0 });
  // All pieces are signaled; the completion of the last one is the application's.
  expect(counters.hiddenCompletions).toBe(3);
  expect(counters.sqHighWater).toBe(2 + 4 * 2);
});

test('requests that go straight to the device also fill the queue', async () => {
  const w = world([createPolicy('perf')]);
  for (let i = 0; i < 12; i++) write(w.a, w.b, i, 64);
  expect(post(w.a)).toBe(12);
  expect(shimCounters(w.a.v)).toMatchObject({ held: 0, sqHighWater: 12 });
  await finish(w, 12);
});

test('a policy executes its own 0_WAITs on a device without WAIT, and the emulation below it sees nothing', async () => {
  const w = world([createPolicy('perf', { isolation: 'always' })], false);
  write(w.a, w.b, 1, 2 * SUB);
  post(w.a);
  await finish(w, 1);
  const layers = w.a.v.counters?.() ?? [];
  expect(layers.map(({ name }) => name)).toEqual(['perf', 'emulate-wait']);
  expect(layers[0]).toMatchObject({ seen: 1, split: 1, emulated: 2 });
  expect(layers[1]).toMatchObject({ seen: 0, split: 0, emulated: 0 });
  expect(shimCounters(w.a.v)).toMatchObject({ seen: 1, bytes: 2 * SUB, split: 1, emulated: 2 });
});

test('counts of a destroyed queue pair remain, and sumCounters() sums over providers', async () => {
  const w = world([createPolicy('perf', { isolation: 'always' })]);
  write(w.a, w.b, 1, 2 * SUB);
  post(w.a);
  await finish(w, 1);
  const before = shimCounters(w.a.v);
  w.a.v.destroyQp(w.a.qp);
  expect(shimCounters(w.a.v)).toEqual(before);
  const sum = sumCounters([before, before]);
  expect(sum).toMatchObject({ seen: 2, split: 2, bytes: 4 * SUB, sqHighWater: before.sqHighWater });
});

test('without a shim there are no counts', () => {
  const { fabric } = world([]);
  expect(shimCounters(fabric.provider)).toMatchObject({ seen: 0, bytes: 0, sqHighWater: 0 });
});

test('bytes of requests that go straight to the device are counted: plain, of two elements, and beyond 32 bits', () => {
  const weigh: Interceptor = createShim(() => ({
    name: 'weigh',
    needs: { wait: 'none' },
    slots: 0,
    statistics: true,
    onload: (_qp, _words, _start, count) => count,
    feed: () => {},
  }));
  const { a, b } = world([weigh]);
  write(a, b, 1, 64);
  write(a, b, 2, 100);
  post(a);
  expect(shimCounters(a.v).bytes).toBe(164);
  write(a, b, 3, 64);
  a.send.sge(0, a.mr.addr, 8, a.mr.lkey);
  post(a);
  expect(shimCounters(a.v).bytes).toBe(164 + 72);
  for (let i = 0; i < 5; i++) write(a, b, 4 + i, 2 ** 30);
  expect(post(a)).toBe(5);
  expect(shimCounters(a.v)).toMatchObject({ seen: 8, bytes: 164 + 72 + 5 * 2 ** 30 });
});
