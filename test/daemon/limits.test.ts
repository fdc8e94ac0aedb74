// Limits of tenants: queue pairs and requests per second, under every policy, over simulated devices in
// virtual time.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import * as M from '../../src/coordinator/member-table.ts';
import { setRemoteCoordinators } from '../../src/coordinator/registry.ts';
import { RemoteCoordinator } from '../../src/daemon/client/remote-coordinator.ts';
import { NO_LABELS } from '../../src/daemon/rules.ts';
import { createPolicy } from '../../src/policies/index.ts';
import { passThrough } from '../../src/policies/pass-through.ts';
import { DELAY } from '../../src/policies/perf/columns.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import { RequestBucket } from '../../src/shim/limits/limiter.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, type End, makeEnd, post, take } from '../sim/helpers.ts';
import { granted, report } from '../support/columns.ts';
import { eachShort } from '../support/variants.ts';
import { hostOf, Process } from './host-rig.ts';

const CHAINS: [string, () => Interceptor[]][] = [
  ['no policy', () => [passThrough()]],
  ['perf', () => [createPolicy('perf')]],
  ['perf that splits', () => [createPolicy('perf', { isolation: 'always', subMsgSizeBytes: 1024 })]],
  ['perf in turns', () => [createPolicy('perf', { qpIsolation: 'always', isolation: 'always' })]],
  ['token-bucket', () => [createPolicy('token-bucket', { pieceBytes: 1024 })]],
  ['token-bucket around perf', () => [createPolicy('token-bucket'), createPolicy('perf')]],
];
const BYTES = 4096;
const WINDOW = 32;

interface Program {
  readonly process: Process;
  readonly v: V.Provider;
  readonly ends: End[];
  readonly peers: End[];
}

function fabricOf() {
  return createFabric({ hosts: 2, autoAdvance: false, profile: 'cx6-100g' });
}

/** Programs of one tenant; each has contexts under a policy. */
function programs(
  chain: () => Interceptor[],
  limits: { maxQps?: number; maxRequestsPerS?: number },
  contexts: readonly number[],
) {
  const host = hostOf();
  const fabric = fabricOf();
  const made = contexts.map((count): Program => {
    const process = new Process(host, 'storage', limits);
    setRemoteCoordinators((device) => new RemoteCoordinator(device, process));
    try {
      const v = compose({ ...fabric.provider }, chain());
      const ends = Array.from({ length: count }, () => makeEnd({ ...fabric, provider: v }, 0));
      const peers = ends.map(() => makeEnd(fabric, 1));
      for (const [i, end] of ends.entries()) connect(end, peers[i]);
      return { process, v, ends, peers };
    } finally {
      setRemoteCoordinators(null);
    }
  });
  const beat = () => {
    for (const { process } of made) {
      process.nowNs = fabric.nowNs;
      process.beat();
      host.fullPass(fabric.nowNs);
    }
    for (const { process } of made) process.notify();
  };
  beat();
  return { host, fabric, made, beat };
}

function write(end: End, peer: End, count: number, flags: number = V.IBV_SEND_SIGNALED): void {
  end.send.clear();
  const { mr } = end;
  for (let i = 0; i < count; i++)
    end.send.write(i, flags, mr.addr, BYTES, mr.lkey, peer.mr.addr, peer.mr.rkey);
  expect(post(end)).toBe(count);
}

type Rig = ReturnType<typeof programs>;

/** Requests completed by each end while every end always has some posted. */
async function completed({ fabric, beat }: Rig, pairs: readonly [End, End][], ns: number) {
  const done = pairs.map(() => 0);
  const fromNs = fabric.nowNs;
  let beatNs = fromNs;
  for (const [end, peer] of pairs) write(end, peer, WINDOW);
  while (fabric.nowNs - fromNs < ns) {
    await fabric.advance(1e5);
    if (fabric.nowNs - beatNs >= 20e6) {
      beatNs = fabric.nowNs;
      beat();
    }
    for (const [i, [end, peer]] of pairs.entries()) {
      const completions = take(end);
      for (const { status } of completions) expect(status).toBe('SUCCESS');
      done[i] += completions.length;
      if (completions.length > 0) write(end, peer, completions.length);
    }
  }
  return done;
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
const pairsOf = ({ made }: Rig): [End, End][] =>
  made.flatMap(({ ends, peers }) => ends.map((end, i): [End, End] => [end, peers[i]]));

eachShort(2, CHAINS)(
  'requests per second under %s, over two programs with contexts',
  async (_name, chain) => {
    const perS = 20_000;
    const rig = programs(chain, { maxRequestsPerS: perS }, [2, 1]);
    const pairs = pairsOf(rig);
    await completed(rig, pairs, 1e7);
    const ns = 2e8;
    const done = await completed(rig, pairs, ns);
    expect(sum(done)).toBeGreaterThan(0.95 * perS * (ns / 1e9));
    expect(sum(done)).toBeLessThan(1.05 * perS * (ns / 1e9));
    // Each context gets an equal part.
    for (const one of done) expect(one).toBeCloseTo(sum(done) / 3, -2);
  },
);

test.each(CHAINS)(
  'under %s nothing is lost or reordered, and queue pairs alternate',
  async (_name, chain) => {
    const perS = 1e5;
    const rig = programs(chain, { maxRequestsPerS: perS }, [1]);
    const [{ v, ends, peers }] = rig.made;
    // Two queue pairs of one context.
    const [end] = ends;
    const { handle, qpNum } = v.createQp(end.pd, {
      qpType: V.IBV_QPT_RC,
      sendCq: end.recvCq,
      recvCq: end.recvCq,
      cap: { maxSendWr: 64, maxRecvWr: 64, maxSendSge: 4, maxRecvSge: 4, maxInlineData: 128 },
      sqSigAll: false,
    });
    const second = { ...end, qp: handle, qpNum, sendCq: end.recvCq };
    const peer = makeEnd(rig.fabric, 1);
    connect(second, peer);
    const ids = new Map([end, second].map((one) => [one, [] as number[]]));
    write(end, peers[0], 64);
    write(second, peer, 64, V.IBV_SEND_SIGNALED);
    const fromNs = rig.fabric.nowNs;
    let halfWay = 0;
    while ([...ids.values()].some((list) => list.length < 64)) {
      await rig.fabric.advance(1e4);
      for (const one of [end, second])
        for (const { wrId, status } of take(one)) {
          expect(status).toBe('SUCCESS');
          ids.get(one)!.push(Number(wrId));
        }
      const ns = rig.fabric.nowNs - fromNs;
      const done = sum([...ids.values()].map((list) => list.length));
      // The burst of 10 ms would be 1000, but a fresh limit starts with only a few.
      expect(done).toBeLessThanOrEqual(5 + (perS * ns) / 1e9);
      if (done >= 96 && halfWay === 0) halfWay = Math.min(...[...ids.values()].map((list) => list.length));
      expect(ns).toBeLessThan(3e6);
    }
    expect(halfWay).toBeGreaterThan(25);
    const inOrder = Array.from({ length: 64 }, (_, i) => i);
    for (const list of ids.values()) expect(list).toEqual(inOrder);
  },
);

test('a limit starts, changes and ends while requests are posted', async () => {
  const rig = programs(() => [passThrough()], {}, [1]);
  const { host, fabric, beat } = rig;
  const pairs = pairsOf(rig);
  const bare = sum(await completed(rig, pairs, 1e6));
  expect(bare).toBeGreaterThan(250);
  for (const maxRequestsPerS of [10_000, 50_000, null]) {
    const least = maxRequestsPerS === null ? 10_000 : 0.95 * maxRequestsPerS * 0.01;
    // Tokens of the millisecond before the window may be left.
    const most = maxRequestsPerS === null ? 1e6 : 4 + maxRequestsPerS * 0.011;
    host.set('storage', { maxRequestsPerS });
    host.fullPass(fabric.nowNs);
    beat();
    await fabric.advance(1e6);
    // From here on, everything posted was posted under the limit.
    write(...pairs[0], take(pairs[0][0]).length);
    const posted = () => host.tenants()[0].heldRequests;
    const done = sum(await completedInWindow(rig, pairs, 1e7));
    expect(done, `${maxRequestsPerS}`).toBeGreaterThan(least);
    expect(done, `${maxRequestsPerS}`).toBeLessThanOrEqual(most);
    beat();
    if (maxRequestsPerS === null) expect(posted()).toBe(0);
    else expect(posted()).toBeGreaterThan(0);
  }
});

/** Like `completed`, for ends whose requests are already posted. */
async function completedInWindow(rig: Rig, pairs: readonly [End, End][], ns: number) {
  const { fabric } = rig;
  const done = pairs.map(() => 0);
  const fromNs = fabric.nowNs;
  while (fabric.nowNs - fromNs < ns) {
    await fabric.advance(2e4);
    for (const [i, [end, peer]] of pairs.entries()) {
      const n = take(end).length;
      done[i] += n;
      if (n > 0) write(end, peer, n);
    }
  }
  return done;
}

test('a program gets no more than the limit while only some of its contexts send', async () => {
  const rig = programs(() => [passThrough()], { maxRequestsPerS: 1000 }, [8]);
  const [done] = await completed(rig, pairsOf(rig).slice(0, 1), 1e9);
  expect(done).toBeGreaterThan(900);
  expect(done).toBeLessThan(1050);
});

test('a bucket gives no more than its rate and burst, and never stalls', () => {
  fc.assert(
    fc.property(
      fc.array(
        fc.record({
          waitNs: fc.double({ min: 0, max: 1e8, noNaN: true }),
          perS: fc.oneof(fc.constant(1), fc.double({ min: 1, max: 1e8, noNaN: true })),
          wanted: fc.nat(2000),
        }),
        { minLength: 1, maxLength: 60 },
      ),
      (steps) => {
        let nowNs = 1e9;
        let perS = steps[0].perS;
        const bucket = new RequestBucket(perS, nowNs);
        // The initial tokens, plus those earned over time, minus those taken.
        let allowed = 4;
        const pass = (ns: number, nextPerS: number) => {
          nowNs += ns;
          allowed += (ns * perS) / 1e9;
          perS = nextPerS;
          bucket.fill(nowNs, perS);
        };
        for (const { waitNs, perS: nextPerS, wanted } of steps) {
          pass(waitNs, nextPerS);
          expect(bucket.available).toBeLessThanOrEqual(bucket.burst);
          const n = Math.min(wanted, Math.max(0, bucket.available));
          bucket.take(n);
          allowed -= n;
          expect(allowed).toBeGreaterThan(-1e-3);
          // At the time that the bucket predicts, a token is available.
          pass(bucket.readyNs - nowNs, perS);
          expect(bucket.available).toBeGreaterThanOrEqual(1);
        }
      },
    ),
  );
});

test('the limit on queue pairs applies across programs and contexts', () => {
  const rig = programs(() => [passThrough()], { maxQps: 4 }, [1, 1]);
  const [a, b] = rig.made;
  const create = ({ v, ends: [end] }: Program) =>
    v.createQp(end.pd, {
      qpType: V.IBV_QPT_RC,
      sendCq: end.sendCq,
      recvCq: end.recvCq,
      cap: { maxSendWr: 1, maxRecvWr: 1, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 },
      sqSigAll: false,
    }).handle;
  const qps = [create(a), create(a)];
  for (const program of [a, b]) {
    expect(() => create(program)).toThrow(V.NoResourcesError);
    expect(() => create(program)).toThrow(/daemon.*maxQps/);
  }
  a.v.destroyQp(qps[0]);
  create(b);
  expect(() => create(a)).toThrow(V.NoResourcesError);
  rig.host.set('storage', { maxQps: 5 });
  rig.host.fullPass(0);
  create(a);
  expect(() => create(b)).toThrow(V.NoResourcesError);
  // Existing queue pairs stay when the limit falls below their number.
  rig.host.set('storage', { maxQps: 1 });
  rig.host.fullPass(0);
  expect(() => create(b)).toThrow(V.NoResourcesError);
  rig.host.set('storage', { maxQps: null });
  rig.host.fullPass(0);
  for (let i = 0; i < 20; i++) create(b);
  rig.beat();
  expect(rig.host.tenants()[0]).toMatchObject({ qps: 25, maxQps: null });
});

test('a program gets no queue pair if other programs have all of them', () => {
  const rig = programs(() => [passThrough()], {}, [2, 1]);
  const { v, ends } = rig.made[1];
  const [end] = ends;
  v.destroyQp(end.qp);
  rig.host.set('storage', { maxQps: 2 });
  rig.host.fullPass(0);
  rig.beat();
  const cap = { maxSendWr: 1, maxRecvWr: 1, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
  const attr = { qpType: V.IBV_QPT_RC, sendCq: end.sendCq, recvCq: end.sendCq, cap, sqSigAll: false };
  expect(() => v.createQp(end.pd, attr)).toThrow(V.NoResourcesError);
  rig.made[0].v.destroyQp(rig.made[0].ends[0].qp);
  expect(v.createQp(end.pd, attr).qpNum).toBeGreaterThan(0);
});

test('for clients that differ, the largest weight and the strictest limits apply, in any order', () => {
  const say = [
    { weight: 2, maxQps: 9, gbps: 5 },
    { weight: 7, maxRequestsPerS: 50 },
    { weight: 1, maxQps: 3, maxRequestsPerS: 80 },
  ];
  for (const order of [
    [0, 1, 2],
    [2, 1, 0],
    [1, 2, 0],
  ]) {
    const host = hostOf();
    const clients = order.map((i) => new Process(host, 'a', say[i]));
    for (const client of clients) client.join();
    expect(host.tenants()[0]).toMatchObject({ weight: 7, maxQps: 3, maxRequestsPerS: 50, gbps: 5 });
    // A context that leaves removes only its own contribution.
    host.forget(clients[order.indexOf(1)].client, 0);
    expect(host.tenants()[0]).toMatchObject({ weight: 2, maxQps: 3, maxRequestsPerS: 80, gbps: 5 });
    host.set('a', { weight: 4, maxQps: 1 });
    host.fullPass(0);
    expect(host.tenants()[0]).toMatchObject({ weight: 4, maxQps: 1 });
    const late = new Process(host, 'a', { weight: 100, maxQps: 1000 });
    late.join();
    expect(host.tenants()[0]).toMatchObject({ weight: 4, maxQps: 1 });
    expect(host.tenants()[0].weight).toBe(4);
  }
});

test('the master uses the kind of traffic of a rule for all clients of the tenant', () => {
  const rowsWith = (declared: 'bandwidth' | null) => {
    const host = hostOf();
    const store = { class: DELAY, activeQps: 1, largeQps: 1, meanBytes: 16 };
    const bulk = { ...store, meanBytes: 1 << 16, wireGbps: 20, demandGbps: 20 };
    const pages = [
      ...[0, 1].map(() => new Process(host, 'bulk', { labels: { ...NO_LABELS, traffic: declared } }).join()),
      new Process(host, 'store').join(),
    ];
    for (const [i, page] of pages.entries()) {
      report(page, i < 2 ? bulk : store);
      page.counters[M.HEARTBEAT]++;
    }
    host.fullPass(0);
    const isSplit = pages.map((page) => granted(page, 'split'));
    return { classes: host.tenants().map((row) => row.class), isSplit };
  };
  expect(rowsWith(null)).toEqual({ classes: ['delay', 'delay'], isSplit: [0, 0, 0] });
  expect(rowsWith('bandwidth')).toEqual({ classes: ['bandwidth', 'delay'], isSplit: [1, 1, 0] });
});

test('a client that sends nothing takes nothing from others, whatever it reports', () => {
  const host = hostOf();
  const [b, idle] = ['b', 'idle'].map((tenant) => new Process(host, tenant).join());
  const large = { class: 3, activeQps: 1, largeQps: 1, meanBytes: 1 << 20, queueLength: 4 };
  report(b, { ...large, wireGbps: 97, demandGbps: 100 });
  report(idle, { ...large, wireGbps: 1e5, demandGbps: 1e5 });
  const sharersAfter = (ms: number) => {
    b.counters[M.SENT_BYTES] += 12e6 * 20;
    for (const page of [b, idle]) page.counters[M.HEARTBEAT]++;
    // A pass for another reason, such as a change of a report.
    report(b, { wireGbps: 97 + ms / 1e6 });
    host.fullPass(ms * 1e6);
    return granted(b, 'busyLargeQps');
  };
  expect(sharersAfter(1)).toBe(2);
  for (const ms of [20, 40]) sharersAfter(ms);
  expect(sharersAfter(60)).toBeCloseTo(1, 6);
});

test('a limit that was removed for a moment applies again', () => {
  const bucket = new RequestBucket(100, 0);
  for (const nowNs of [1, 1, 2]) {
    bucket.fill(nowNs, Number.POSITIVE_INFINITY);
    bucket.take(bucket.available - (bucket.available - 1));
  }
  bucket.fill(3, 100);
  bucket.fill(1e9, 100);
  expect(bucket.available).toBe(4);
});
