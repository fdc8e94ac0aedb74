// Queue pairs that fail under justitia, SENDs that are too long, and what programs next to others see.
import { describe, expect, test, vi } from 'vitest';
import type { AgentLine } from '../../src/coordinator/agent.ts';
import { CoordinatorRegistry, registryFor } from '../../src/coordinator/registry.ts';
import { createPolicy, shimCounters } from '../../src/policies/index.ts';
import { createFabric, type Fabric } from '../../src/providers/sim/index.ts';
import { compose } from '../../src/shim/compose.ts';
import type { Qp } from '../../src/sim/transport/qp.ts';
import * as V from '../../src/verbs/index.ts';
import type { Labels } from '../../src/verbs/labels.ts';
import { connectPeers, peerWorld, settle } from '../conformance/peer-rig.ts';
import { type End, makeEnd, modify, post, postRecv, take } from './helpers.ts';

const CHUNK = 8192;
const BYTES = 8 * CHUNK;

/** A tenant's connection, with one WRITE outstanding at a time. */
class Flow {
  readonly a: End;
  readonly b: End;
  readonly bytes: number;
  done = 0;
  posted = 0;
  isOpen = false;
  isStopped = false;
  readonly failed: string[] = [];

  constructor(a: End, b: End, bytes: number) {
    [this.a, this.b, this.bytes] = [a, b, bytes];
    connectPeers(a, b);
  }

  step(): void {
    const { a, b, bytes } = this;
    for (const { wrId, status } of take(a)) {
      this.isOpen = false;
      if (status === 'SUCCESS') this.done++;
      else this.failed.push(`${wrId} ${status}`);
    }
    if (this.isOpen || this.isStopped) return;
    a.send.write(++this.posted, V.IBV_SEND_SIGNALED, a.mr.addr, bytes, a.mr.lkey, b.mr.addr, b.mr.rkey);
    expect(post(a)).toBe(1);
    this.isOpen = true;
  }
}

/** Hosts 0 and 1 of a fabric under a policy. */
function ground(options: Record<string, unknown>) {
  const fabric = createFabric({ hosts: 2, seed: 1, autoAdvance: false, profile: 'cx6-100g' });
  const provider = compose(fabric.provider, [createPolicy('justitia', options)]);
  const flow = (bytes: number, labels: Partial<Labels> = {}, v = provider) => {
    const openDevice: typeof v.openDevice = (name) => v.openDevice(name, { labels });
    const under = { ...fabric, provider: { ...v, openDevice } } as Fabric;
    const [a, b] = [0, 1].map((host) => makeEnd(under, host, { bytes }));
    return new Flow(a, b, bytes);
  };
  const run = async (flows: readonly Flow[], ns: number, stepNs = 1000) => {
    for (const endNs = fabric.nowNs + ns; fabric.nowNs < endNs; ) {
      for (const one of flows) one.step();
      await fabric.advance(stepNs);
    }
  };
  /** Packets that host 0 has sent on split queue pairs. */
  const splitPackets = (flows: readonly Flow[]) => {
    const own = flows.map(({ a }) => a.qpNum);
    const isSplit = (qp: Qp | undefined) => qp?.host === 0 && !qp.isAgent && !own.includes(qp.qpn);
    return fabric.simulation.world.qps.reduce((sum, qp) => sum + (isSplit(qp) ? qp!.sndPsn : 0), 0);
  };
  return { fabric, provider, flow, run, splitPackets };
}

describe('a queue pair that fails between two chunks on its split queue pair', () => {
  const options = { splitQp: 'always', bulkChunkBytes: CHUNK };
  const FAULTS: [string, (flow: Flow) => void, string][] = [
    ['goes to ERR', ({ a }) => modify(a, { qpState: V.IBV_QPS_ERR }), 'WR_FLUSH_ERR'],
    ['loses the memory of its peer', ({ b }) => b.v.deregMr(b.mr.handle), 'REM_ACCESS_ERR'],
  ];

  test.each(FAULTS)(
    'and %s, gives one error completion, of the request of the program',
    async (_, fail, status) => {
      let failures = 0;
      // The message takes 5 us at the full rate.
      for (let afterNs = 200; afterNs < 8000; afterNs += 900) {
        const { flow, run, splitPackets } = ground(options);
        const [x, other] = [flow(BYTES), flow(BYTES)];
        await run([x, other], 100_000);
        // Seven of eight chunks, in packets of 4 KiB.
        expect(splitPackets([x, other])).toBeGreaterThanOrEqual(14 * (x.done + other.done));
        await run([x, other], afterNs, 200);
        while (!x.isOpen) await run([x, other], 200, 200);
        x.isStopped = true;
        fail(x);
        await run([x, other], 2e6, 20_000);
        expect(x.failed, `after ${afterNs} ns`).toEqual(x.done === x.posted ? [] : [`${x.posted} ${status}`]);
        expect(x.done + x.failed.length).toBe(x.posted);
        failures += x.failed.length;
        expect(other.failed).toEqual([]);
      }
      expect(failures).toBeGreaterThan(6);
    },
  );

  const FLOWS = 6;
  /** Long enough for one message more or less not to matter. */
  const MEASURED_NS = 2e6;

  test('gives its share to the others within 1 ms: n/(n - 1)', async () => {
    for (const [, fail] of FAULTS) {
      const { flow, run } = ground(options);
      // Enough to fill the link with one message outstanding each, also without the one that fails.
      const flows = Array.from({ length: FLOWS }, () => flow(BYTES));
      const [x, ...others] = flows;
      const rate = async (ns: number) => {
        const before = others.map(({ done }) => done);
        await run(flows, ns);
        return others.map(({ done }, i) => done - before[i]);
      };
      await rate(200_000);
      const before = await rate(MEASURED_NS);
      x.isStopped = true;
      fail(x);
      await rate(1e6);
      const after = await rate(MEASURED_NS);
      for (const i of others.keys()) expect((after[i] / before[i]) * ((FLOWS - 1) / FLOWS)).toBeCloseTo(1, 1);
    }
  });
});

describe('a SEND of 1 MB into a receive of 64 KB', () => {
  const MB = 1_000_000;
  const SMALL = 65_536;

  async function send(options: Record<string, unknown> | null) {
    const chain = () => (options === null ? [] : [createPolicy('justitia', options)]);
    const size = { bytes: 2 * MB };
    const w = peerWorld(chain(), chain(), { a: size, b: size });
    const { a, b } = w;
    a.bytes.fill(7, 0, MB);
    for (let i = 0; i < 2; i++) b.recv.recv(20 + i, b.mr.addr, i === 0 ? SMALL : MB, b.mr.lkey);
    postRecv(b);
    for (let i = 0; i < 2; i++) a.send.send(10 + i, V.IBV_SEND_SIGNALED, a.mr.addr, MB, a.mr.lkey);
    post(a);
    const seen = await settle(w);
    const states = [a, b].map(({ v, qp }) => v.queryQp(qp).attr.qpState);
    return { seen, states, beyond: b.bytes.subarray(SMALL).findIndex((byte) => byte !== 0) };
  }

  test.each([
    {},
    { paper: true },
    { splitQp: 'always' },
    { bulkChunkBytes: 16_384 },
    { bulkChunkBytes: 16_384, splitQp: 'always' },
  ])('fails with %o as it does bare, and nothing is written behind the receive', async (options) => {
    const bare = await send(null);
    expect(bare.seen.b).toContain('recv 20 LOC_LEN_ERR');
    expect(bare.beyond).toBe(-1);
    expect(await send(options)).toEqual(bare);
  });
});

describe('latency applications next to bandwidth applications', () => {
  test('pass untouched: their shim holds, cuts and makes nothing', async () => {
    const { fabric, provider, flow, run } = ground({});
    const own = compose(fabric.provider, [createPolicy('justitia', {})]);
    const small = flow(16, { traffic: V.ISO_TRAFFIC_LATENCY }, own);
    const bulk = flow(1_000_000, { traffic: V.ISO_TRAFFIC_BANDWIDTH });
    await run([small, bulk], 1e6);
    expect(small.done).toBeGreaterThan(200);
    const { held, split, internal } = shimCounters(own);
    expect([held, split, internal]).toEqual([0, 0, { pieces: 0, waits: 0, enables: 0, posts: 0 }]);
    expect(shimCounters(provider).held).toBeGreaterThan(0);
  });
});

test('configurePolicy() changes chunks and backlogs of a running policy', async () => {
  const { flow, run, provider } = ground({ splitQp: 'never', bulkChunkBytes: 8192 });
  const b = flow(65_536);
  const piecesPerMessage = async () => {
    await run([b], 50_000);
    const [pieces, done] = [shimCounters(provider).internal.pieces, b.done];
    await run([b], 500_000);
    return (shimCounters(provider).internal.pieces - pieces) / (b.done - done);
  };
  expect(Math.round(await piecesPerMessage())).toBe(8);
  provider.configurePolicy!('justitia', { bulkChunkBytes: 16_384, backlogBytes: 1 });
  expect(Math.round(await piecesPerMessage())).toBe(4);
});

test('words that the line to the agent drops are sent again, also when the application ends meanwhile', async () => {
  const { fabric, flow, run } = ground({});
  const { line } = CoordinatorRegistry.prototype;
  let [isFull, dropped, toldAgain] = [true, 0, 0];
  const limited = vi.spyOn(CoordinatorRegistry.prototype, 'line').mockImplementation(function (
    this: CoordinatorRegistry,
    context,
    kind,
    events,
  ) {
    const onUp = (given: AgentLine) =>
      events.onUp?.({
        intervalNs: 1e6,
        tell: (words) => {
          if (!isFull) toldAgain++;
          else dropped++;
          return !isFull && given.tell(words);
        },
      });
    return line.call(this, context, kind, { ...events, onUp });
  });
  const b = flow(BYTES, { traffic: V.ISO_TRAFFIC_BANDWIDTH });
  const d = flow(16, { traffic: V.ISO_TRAFFIC_LATENCY });
  await run([b, d], 2e6);
  expect(dropped).toBeGreaterThan(0);
  const messages = () => registryFor(fabric.provider).agentMessages;
  expect(messages()).toBe(0);
  isFull = false;
  await run([b, d], 5e6);
  expect(messages()).toBeGreaterThan(0);
  // Nothing is told more than once.
  expect(toldAgain).toBeLessThanOrEqual(4);
  isFull = true;
  b.isStopped = true;
  d.isStopped = true;
  await run([b, d], 5e6);
  const sent = messages();
  isFull = false;
  await run([], 10e6);
  expect(messages()).toBeGreaterThan(sent);
  limited.mockRestore();
});

test('a change of classify acts on queue pairs that exist, whether they send or not', async () => {
  const { provider, flow, run } = ground({});
  const kinds = () =>
    provider.policyStates!().flatMap(({ device, kind }) => (device === 'sim0' ? [kind] : []));
  const [small, large] = [flow(16), flow(BYTES)];
  await run([small, large], 1e6);
  expect(kinds()).toEqual(['D', 'B']);
  provider.configurePolicy!('justitia', { classify: false });
  expect(kinds()).toEqual(['B', 'B']);
  await run([small, large], 20e6);
  expect(kinds()).toEqual(['B', 'B']);
  const { done } = small;
  small.isStopped = true;
  provider.configurePolicy!('justitia', { classify: true });
  await run([small, large], 1e6);
  small.isStopped = false;
  await run([small, large], 1e6);
  expect(kinds()).toEqual(['D', 'B']);
  expect(small.done).toBeGreaterThan(done);
  expect([small.failed, large.failed]).toEqual([[], []]);
});
