/** How perf classifies applications, reclassifies them and shares the result, and its limits. */
import { expect, test } from 'vitest';
import { coordinatorMemory, createPolicy, shareCoordinator } from '../../src/policies/index.ts';
import { createFabric, type Fabric, type FabricOptions } from '../../src/providers/sim/index.ts';
import { compose } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, type End, makeEnd } from './helpers.ts';

const WINDOW_NS = 160_000;
const OPTIONS = { samplePeriodNs: 10_000, windowNs: WINDOW_NS };
const LARGE = 65_536;

interface App {
  fabric: Fabric;
  a: End;
  b: End;
}

function app(options: Record<string, unknown> = OPTIONS, hosts = 2): App {
  const inner = createFabric({ hosts, seed: 1, autoAdvance: false });
  const fabric = { ...inner, provider: compose(inner.provider, [createPolicy('perf', options)]) } as Fabric;
  const [a, b] = [0, 1].map((host) => makeEnd(fabric, host));
  connect(a, b);
  return { fabric: inner, a, b };
}

function post({ a, b }: App, bytes: number, count = 1): number {
  a.send.clear();
  for (let i = 0; i < count; i++) {
    a.send.write(i, V.IBV_SEND_SIGNALED, a.mr.addr, bytes, a.mr.lkey, b.mr.addr, b.mr.rkey);
  }
  return a.v.postSend(a.qp, a.send.ring, 0, count);
}

function poll({ a }: App): void {
  while (a.v.pollCq(a.sendCq, a.wc.ring, 0, 64) > 0);
}

/** Repeatedly posts `count` requests of a size until `kindOf` returns `kind` or the time is over; returns the time. */
async function until(of: App, kind: string, bytes: number, count: number, mostNs: number): Promise<number> {
  const startNs = of.fabric.nowNs;
  while (kindOf(of) !== kind && of.fabric.nowNs - startNs < mostNs) {
    poll(of);
    post(of, bytes, count);
    await of.fabric.advance(8000);
  }
  return of.fabric.nowNs - startNs;
}

const kindOf = ({ a }: App) => a.v.policyStates!()[0]?.kind;

test.each([
  [LARGE, 1, 'B_single'],
  [1024, 1, 'B_single'],
  [1023, 1, 'D_single'],
  [16, 5, 'D_single'],
  [16, 6, 'M_single'],
])(
  '%i bytes, %i at once: the first request indicates %s, and so does the first sample',
  async (bytes, count, kind) => {
    const one = app();
    expect(kindOf(one)).toBeUndefined();
    expect(post(one, bytes, count)).toBe(count);
    expect(kindOf(one)).toBe(kind);
    // Many at once are classified again while outstanding.
    for (let i = 0; i < 4; i++) {
      await one.fabric.advance(9000);
      poll(one);
      post(one, bytes, count);
      await one.fabric.advance(10);
    }
    expect(kindOf(one)).toBe(kind);
  },
);

test('a declared kind of traffic replaces what the messages show, at once', async () => {
  const one = app();
  const because = () => one.a.v.policyStates!()[0]?.because;
  const declare = (traffic: number) => one.a.v.modifyQp(one.a.qp, { traffic }, V.ISO_QP_TRAFFIC);
  declare(V.ISO_TRAFFIC_THROUGHPUT);
  post(one, LARGE);
  expect([kindOf(one), because()]).toEqual(['M_single', 'declared as throughput']);
  expect(await until(one, 'B_single', LARGE, 1, 2 * WINDOW_NS)).toBeGreaterThanOrEqual(2 * WINDOW_NS);
  declare(V.ISO_TRAFFIC_UNDECLARED);
  expect(await until(one, 'B_single', LARGE, 1, WINDOW_NS)).toBeLessThan(40_000);
  expect(because()).toBe('messages of 65536 bytes, 1024 or more');
  one.a.v.setLabels(one.a.context, { weight: 2 });
  // A queue pair inherits the declaration of its context only while it has none itself: it was set to undeclared.
  one.a.v.setLabels(one.a.context, { traffic: V.ISO_TRAFFIC_LATENCY });
  await one.fabric.advance(40_000);
  expect(kindOf(one)).toBe('B_single');
  declare(V.ISO_TRAFFIC_LATENCY);
  expect(await until(one, 'D_single', LARGE, 1, WINDOW_NS)).toBeLessThan(40_000);
});

test('requests held from their post on are classified too: behind a WAIT, and on a managed queue pair', async () => {
  const one = app();
  const { a, b } = one;
  // From its first WAIT on, all requests of a queue pair are held.
  a.send.write(1, V.IBV_SEND_SIGNALED, a.mr.addr, 16, a.mr.lkey, b.mr.addr, b.mr.rkey);
  a.send.wait(2, V.IBV_SEND_SIGNALED, a.sendCq, 1);
  expect(a.v.postSend(a.qp, a.send.ring, 0, 2)).toBe(2);
  await until(one, 'never', LARGE, 1, 2 * WINDOW_NS);
  expect(kindOf(one)).toBe('B_single');
  await one.fabric.advance(4 * WINDOW_NS);
  poll(one);
  await one.fabric.advance(4 * WINDOW_NS);
  expect(kindOf(one)).toBeUndefined();
  post(one, LARGE);
  expect(kindOf(one)).toBe('B_single');

  const other = app();
  const managed = makeEnd({ ...other.fabric, provider: other.a.v } as Fabric, 0, { managed: true });
  connect(managed, makeEnd(other.fabric, 1));
  post({ ...other, a: managed }, LARGE, 4);
  expect(kindOf(other)).toBeUndefined();
  other.a.send.enable(1, 0, managed.qp, 1);
  expect(other.a.v.postSend(other.a.qp, other.a.send.ring, 0, 1)).toBe(1);
  expect(other.a.v.policyStates!().map(({ kind }) => kind)).toContain('B_single');
});

test('later traffic changes a class when two windows agree, and the class recovers', async () => {
  const one = app();
  await until(one, 'never', 16, 1, 2 * WINDOW_NS);
  expect(kindOf(one)).toBe('D_single');
  const toB = await until(one, 'B_single', LARGE, 1, 4 * WINDOW_NS);
  expect(toB).toBeGreaterThan(WINDOW_NS / 8);
  expect(toB).toBeLessThanOrEqual(WINDOW_NS);
  const toD = await until(one, 'D_single', 16, 1, 4 * WINDOW_NS);
  expect(toD).toBeGreaterThan(WINDOW_NS / 2);
  expect(toD).toBeLessThanOrEqual(2 * WINDOW_NS);
});

test('a context that sends nothing for a window is ignored until its next request', async () => {
  const one = app();
  post(one, 16);
  await one.fabric.advance(2 * WINDOW_NS);
  poll(one);
  await one.fabric.advance(2 * WINDOW_NS);
  expect(one.a.v.policyStates!()).toEqual([]);
  post(one, LARGE);
  expect(kindOf(one)).toBe('B_single');
});

test('policies in different threads share a coordinator through memory', async () => {
  const memory = coordinatorMemory();
  shareCoordinator('sim4', memory);
  // Each provider stands for a thread, although none runs in one.
  const [large, small] = [1, 2].map(() => {
    const inner = createFabric({ hosts: 5, seed: 1, autoAdvance: false });
    const fabric = { ...inner, provider: compose(inner.provider, [createPolicy('perf', OPTIONS)]) } as Fabric;
    const [a, b] = [4, 1].map((host) => makeEnd(fabric, host));
    connect(a, b);
    return { fabric: inner, a, b };
  });
  const doesOf = ({ a }: App) => a.v.policyStates!()[0].does;
  post(large, LARGE);
  await large.fabric.advance(20_000);
  expect(doesOf(large)).toBe('left alone');
  post(small, 16);
  expect(doesOf(large)).toBe('its messages are split');
  expect(doesOf(small)).toBe('left alone');
  // The clock of the small tenant's thread stands still, as if it were dead.
  await until(large, 'never', LARGE, 1, WINDOW_NS / 2);
  expect(doesOf(large)).toBe('its messages are split');
  await until(large, 'never', LARGE, 1, WINDOW_NS);
  expect(doesOf(large)).toBe('left alone');
});

/** Three hosts under one policy. stateOn() returns the policy's state for the first context that posts on a device. */
function hosts3(profile: FabricOptions['profile'] = 'minimal') {
  const inner = createFabric({ hosts: 3, seed: 1, autoAdvance: false, profile });
  const provider = compose(inner.provider, [createPolicy('perf', OPTIONS)]);
  const fabric = { ...inner, provider } as Fabric;
  /** A queue pair from one host to another. */
  const pair = (host: number, to: number): App => {
    const [a, b] = [host, to].map((at) => makeEnd(fabric, at));
    connect(a, b);
    return { fabric: inner, a, b };
  };
  const stateOn = (host: number) => provider.policyStates!().find(({ device }) => device === `sim${host}`);
  return { pair, stateOn, inner };
}

function read({ a, b }: App, bytes: number): void {
  a.send.clear();
  a.send.read(0, V.IBV_SEND_SIGNALED, a.mr.addr, bytes, a.mr.lkey, b.mr.addr, b.mr.rkey);
  expect(a.v.postSend(a.qp, a.send.ring, 0, 1)).toBe(1);
}

/** The reports and grants of a reader take the way of a message, and each device samples some time after a change. */
const AGENTS_NS = 30_000;

test('READ data counts at the responder: large READs hurt small tenants of the peer', async () => {
  const { pair, stateOn, inner } = hosts3();
  read(pair(1, 0), LARGE);
  post(pair(0, 1), 16);
  await inner.advance(AGENTS_NS);
  expect(stateOn(0)?.does).toBe('left alone');
  expect(stateOn(1)).toMatchObject({
    kind: 'B_single',
    does: 'its messages are split',
    why: 'large messages beside small ones on ::ffff:10.0.0.1',
  });
});

test('READ data counts at the responder: large WRITEs hurt tenants that READ small messages there', async () => {
  const { pair, stateOn, inner } = hosts3();
  const large = pair(0, 1);
  post(large, LARGE);
  await inner.advance(20_000);
  expect(stateOn(0)?.does).toBe('left alone');
  read(pair(1, 0), 16);
  await inner.advance(AGENTS_NS);
  expect(stateOn(0)).toMatchObject({
    does: 'its messages are split',
    why: 'large messages beside small ones',
  });
});

test('with all messages of agents lost, nothing of the reader is seen at the peer', async () => {
  const { pair, stateOn, inner } = hosts3({ agentLoss: 1 });
  const large = pair(0, 1);
  post(large, LARGE);
  await inner.advance(20_000);
  read(pair(1, 0), 16);
  // Longer than a reader waits for an answer.
  await inner.advance(5e6);
  post(large, LARGE);
  await inner.advance(AGENTS_NS);
  expect(stateOn(0)).toMatchObject({ does: 'left alone', why: 'nothing to isolate' });
});

test.each(['a small tenant of the reader', 'a small tenant of a third host'])(
  'large READs from another host do not affect %s',
  async (who) => {
    const { pair, stateOn, inner } = hosts3();
    const reader = pair(1, 0);
    read(reader, LARGE);
    post(who.endsWith('host') ? pair(2, 0) : pair(1, 2), 16);
    await inner.advance(20_000);
    expect(stateOn(1)).toMatchObject({ kind: 'B_single', does: 'left alone' });
  },
);

test.each([
  [0, 2, 'large messages beside small ones on ::ffff:10.0.0.1'],
  [1, 2, 'large messages beside small ones'],
  [2, 1, 'nothing to isolate'],
])(
  'large READs and WRITEs from one queue pair of host 1 next to a small tenant of host %i',
  async (host, to, why) => {
    const { pair, stateOn, inner } = hosts3();
    const both = pair(1, 0);
    read(both, LARGE);
    await inner.advance(25_000);
    poll(both);
    post(both, LARGE);
    await inner.advance(25_000);
    post(pair(host, to), 16);
    await inner.advance(AGENTS_NS);
    expect(stateOn(1)).toMatchObject({ kind: 'B_single', why });
  },
);

test('a tenant posts its burst of requests, then at its rate', async () => {
  const one = app({ ...OPTIONS, maxRequestsPerS: 1e6, burstRequests: 10 });
  expect(post(one, 16, 32)).toBe(10);
  const words = one.a.send.words;
  expect([words[V.HDR_ERRNO], words[V.HDR_REASON]]).toEqual([V.ENOMEM, V.REASON_LIMIT]);
  await one.fabric.advance(4000);
  expect(post(one, 16, 32)).toBe(4);
  let taken = 0;
  // A flood of a million requests: rejected ones cost no memory and no failure.
  for (let i = 0; i < 1e6 / 32; i++) taken += post(one, 16, 32);
  expect(taken).toBe(0);
  await one.fabric.advance(1e6);
  poll(one);
  expect(post(one, 16, 32)).toBe(10);
});

test('a tenant is limited in its queue pairs', () => {
  const inner = createFabric({ seed: 1, autoAdvance: false });
  const provider = compose(inner.provider, [createPolicy('perf', { maxQps: 2 })]);
  const fabric = { ...inner, provider } as Fabric;
  const { v, pd, sendCq: cq, qp } = makeEnd(fabric, 0);
  const cap = { maxSendWr: 4, maxRecvWr: 4, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
  const attr = { qpType: V.IBV_QPT_RC, sendCq: cq, recvCq: cq, cap, sqSigAll: false };
  v.createQp(pd, attr);
  expect(() => v.createQp(pd, attr)).toThrowError(/over its limit/);
  v.destroyQp(qp);
  v.createQp(pd, attr);
  // Without a name, every context is its own tenant.
  makeEnd(fabric, 0);
});
