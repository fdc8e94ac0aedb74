/** WAIT has the same meaning whether the device or the shim executes it. */
import { describe, expect, test } from 'vitest';
import { createPolicy } from '../../src/policies/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import { shimCounters } from '../../src/shim/counters.ts';
import type { Policy } from '../../src/shim/policy.ts';
import { createShim } from '../../src/shim/shim.ts';
import { emulateWait } from '../../src/shim/wait/emulate-wait.ts';
import { type WaitChoice, withWait } from '../../src/shim/wait/wait-support.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, drain, type End, makeEnd, modify, SIGNALED, take } from '../sim/helpers.ts';
import { World } from './sharing-world.ts';

const PERF = { isolation: 'always', subMsgSizeBytes: 256, zeroWaitUnitBytes: 64 };

const kinds: Record<string, { wait: boolean; chain: () => Interceptor[] }> = {
  simulated: { wait: true, chain: () => [] },
  emulated: { wait: false, chain: () => [emulateWait()] },
  'simulated, under perf': { wait: true, chain: () => [createPolicy('perf', PERF)] },
  'emulated, under perf': { wait: false, chain: () => [createPolicy('perf', PERF)] },
};

async function open(kind: string, count: number) {
  const { wait, chain } = kinds[kind];
  const fabric = createFabric({ autoAdvance: false, wait });
  const provider = compose(fabric.provider, chain());
  const wrapped = { ...fabric, provider };
  const ends = Array.from({ length: count }, () => makeEnd(wrapped, 0));
  const peers = ends.map((end) => {
    const peer = makeEnd(wrapped, 1);
    connect(end, peer);
    return peer;
  });
  const ids: Record<number, number[]> = {};
  /** Runs to the end, polling every queue; returns the wr_ids that have completed at `end` so far. */
  const completed = async (end: End) => {
    for (let idle = 0; idle < 3; idle++) {
      await fabric.run();
      for (const { v, sendCq, wc, qp } of ends) {
        const n = v.pollCq(sendCq, wc.ring, 0, 64);
        ids[qp] ??= [];
        for (let i = 0; i < n; i++) ids[qp].push(wc.status(i) === 0 ? wc.wrId(i) : -wc.wrId(i));
        if (n > 0) idle = 0;
      }
    }
    return ids[end.qp];
  };
  return { provider, ends, peers, completed };
}

function write(end: End, id: number): void {
  end.send.write(id, SIGNALED, 0, 0, 0, 0, 0);
}

function post(end: End): number {
  const n = end.v.postSend(end.qp, end.send.ring, 0, end.send.length);
  end.send.clear();
  return n;
}

describe.each(Object.keys(kinds))('WAIT, %s', (kind) => {
  test('the provider reports how WAIT is supported', async () => {
    const { provider } = await open(kind, 1);
    expect(provider.wait).toBe(kind.split(',')[0]);
  });

  test('0_WAITs complete in order when signaled', async () => {
    const { ends, completed } = await open(kind, 1);
    const [a] = ends;
    write(a, 1);
    a.send.wait(2, SIGNALED, a.sendCq, 0, 4).wait(3, 0, a.sendCq, 0);
    write(a, 4);
    expect(post(a)).toBe(4);
    expect(await completed(a)).toEqual([1, 2, 4]);
  });

  test('a WAIT holds later requests until the CQ has that many more completions', async () => {
    const { ends, completed } = await open(kind, 2);
    const [a, b] = ends;
    a.send.wait(1, 0, b.sendCq, 2);
    write(a, 2);
    post(a);
    expect(await completed(a)).toEqual([]);
    write(b, 1);
    post(b);
    expect(await completed(a)).toEqual([]);
    write(b, 2);
    post(b);
    expect(await completed(a)).toEqual([2]);
  });

  test('each WAIT on a CQ counts from where the previous one ended', async () => {
    const { ends, completed } = await open(kind, 3);
    const [a, b, c] = ends;
    for (const [i, end] of [a, b].entries()) {
      end.send.wait(0, 0, c.sendCq, 1);
      write(end, i + 1);
      post(end);
    }
    write(c, 9);
    post(c);
    expect(await completed(a)).toEqual([1]);
    expect(await completed(b)).toEqual([]);
    write(c, 10);
    post(c);
    expect(await completed(b)).toEqual([2]);
  });

  test('a WAIT counts messages, not their pieces', async () => {
    const { ends, peers, completed } = await open(kind, 2);
    const [a, b] = ends;
    const { addr, rkey } = peers[1].mr;
    a.send.wait(1, 0, b.sendCq, 2);
    write(a, 2);
    post(a);
    b.send.write(1, SIGNALED, b.mr.addr, 4096, b.mr.lkey, addr, rkey);
    post(b);
    expect(await completed(b)).toEqual([1]);
    expect(await completed(a)).toEqual([]);
    b.send.write(2, SIGNALED, b.mr.addr, 4096, b.mr.lkey, addr, rkey);
    post(b);
    expect(await completed(a)).toEqual([2]);
  });

  test('waiting requests are flushed when the queue pair fails', async () => {
    const { ends, completed } = await open(kind, 2);
    const [a, b] = ends;
    a.send.wait(1, 0, b.sendCq, 1);
    write(a, 2);
    post(a);
    expect(await completed(a)).toEqual([]);
    modify(a, { qpState: V.IBV_QPS_ERR });
    expect(await completed(a)).toEqual([-1, -2]);
  });
});

test('without emulation, a device without WAIT refuses it', async () => {
  const fabric = createFabric({ autoAdvance: false, wait: false });
  const end = makeEnd(fabric, 0);
  connect(end, makeEnd(fabric, 1));
  end.send.wait(1, 0, end.sendCq, 0);
  expect(post(end)).toBe(0);
  expect(end.send.errno).toBe(V.EOPNOTSUPP);
});

describe('a policy that requires WAIT', () => {
  const idle: Policy = {
    name: 'idle',
    needs: { wait: 'required' },
    slots: 0,
    onload: (_qp, _words, _start, count) => count,
    feed: () => {},
  };
  const make = (wait: boolean, choice: WaitChoice = {}, needs: 'required' | 'none' = 'required') => {
    const { provider } = createFabric({ autoAdvance: false, wait });
    const shim = createShim(() => ({ ...idle, needs: { wait: needs } }));
    return compose(provider, [withWait(shim, needs, choice)]);
  };

  test("uses the device's WAIT", () => {
    expect(make(true).wait).toBe('simulated');
    expect(make(true, { emulation: false }).wait).toBe('simulated');
  });

  test('gets an emulation if the device has none, unless emulation is off', () => {
    expect(make(false).wait).toBe('emulated');
    expect(() => make(false, { emulation: false })).toThrow(
      expect.objectContaining({ code: 'ISO_ERR_UNSUPPORTED', message: expect.stringContaining('idle') }),
    );
    const { provider } = createFabric({ autoAdvance: false, wait: false });
    expect(() => compose(provider, [createPolicy('perf', { emulation: false })])).toThrow(
      expect.objectContaining({ code: 'ISO_ERR_UNSUPPORTED' }),
    );
  });

  test('without that requirement nothing is emulated, and a WAIT is refused', () => {
    expect(make(false, {}, 'none').wait).toBe('none');
  });
});

test.each([
  ['yield', 0],
  ['write', 3],
] as const)('0_WAIT: %s makes %i requests of three', (zeroWait, posts) => {
  const fabric = createFabric({ autoAdvance: false, wait: false });
  const provider = compose(fabric.provider, [emulateWait({ zeroWait })]);
  const a = makeEnd({ ...fabric, provider }, 0);
  connect(a, makeEnd(fabric, 1));
  a.send.wait(1, SIGNALED, a.sendCq, 0, 3);
  write(a, 2);
  expect(post(a)).toBe(2);
  expect(drain(fabric, a).map((wc) => [wc.wrId, wc.opcode, wc.status])).toEqual([
    [1, 'DRIVER2', 'SUCCESS'],
    [2, 'RDMA_WRITE', 'SUCCESS'],
  ]);
  expect(shimCounters(provider).internal.posts).toBe(posts);
});

test.each(['chunk', 'fair'])(
  'a WAIT that ended behind a failed request is flushed, under %s as on the device',
  async (name) => {
    const seen = async (chain: Interceptor[]) => {
      const fabric = createFabric({ autoAdvance: false });
      const a = makeEnd({ ...fabric, provider: compose(fabric.provider, chain) }, 0);
      connect(a, makeEnd(fabric, 1));
      write(a, 1);
      post(a);
      const first = drain(fabric, a);
      a.send.write(2, SIGNALED, a.mr.addr, 8, 0xdead, 0, 0);
      a.send.wait(3, 0, a.sendCq, 1);
      write(a, 4);
      expect(post(a)).toBe(3);
      await fabric.run();
      return [...first, ...take(a), ...drain(fabric, a)].map(({ wrId, status }) => `${wrId} ${status}`);
    };
    const bare = await seen([]);
    expect(bare).toEqual(['1 SUCCESS', '2 LOC_PROT_ERR', '3 WR_FLUSH_ERR', '4 WR_FLUSH_ERR']);
    expect(await seen([createPolicy(name, {})])).toEqual(bare);
  },
);

test.each(['bare', 'chunk', 'palos'])('a WAIT and an ENABLE wait for the end of SQD: %s', async (name) => {
  const fabric = createFabric({ autoAdvance: false });
  const chain = name === 'bare' ? [] : [createPolicy(name, {})];
  const wrapped = { ...fabric, provider: compose(fabric.provider, chain) };
  const [a, m] = [makeEnd(wrapped, 0), makeEnd(wrapped, 0, { managed: true })];
  for (const end of [a, m]) connect(end, makeEnd(wrapped, 1));
  const done = async () => {
    for (let i = 0; i < 3; i++) await fabric.run();
    return [a, m].map((end) => take(end).map(({ wrId, status }) => `${wrId} ${status}`));
  };
  for (const end of [a, m]) write(end, 1);
  expect([post(a), post(m)]).toEqual([1, 1]);
  expect(await done()).toEqual([['1 SUCCESS'], []]);
  modify(a, { qpState: V.IBV_QPS_SQD });
  a.send.wait(2, SIGNALED, a.sendCq, 1).enable(3, SIGNALED, m.qp, 1);
  expect(post(a)).toBe(2);
  expect(await done()).toEqual([[], []]);
  modify(a, { qpState: V.IBV_QPS_RTS });
  expect(await done()).toEqual([['2 SUCCESS', '3 SUCCESS'], ['1 SUCCESS']]);
});

test.each(['bare', 'chunk', 'palos'])('a WAIT that has begun ends in SQD: %s', async (name) => {
  const fabric = createFabric({ autoAdvance: false });
  const chain = name === 'bare' ? [] : [createPolicy(name, {})];
  const wrapped = { ...fabric, provider: compose(fabric.provider, chain) };
  const [a, b] = [makeEnd(wrapped, 0), makeEnd(wrapped, 0)];
  for (const end of [a, b]) connect(end, makeEnd(wrapped, 1));
  const done = async (end: End) => {
    for (let i = 0; i < 3; i++) await fabric.run();
    return take(end).map(({ wrId, status }) => `${wrId} ${status}`);
  };
  a.send.wait(1, SIGNALED, b.sendCq, 1);
  write(a, 2);
  expect(post(a)).toBe(2);
  expect(await done(a)).toEqual([]);
  modify(a, { qpState: V.IBV_QPS_SQD });
  write(b, 3);
  post(b);
  expect(await done(b)).toEqual(['3 SUCCESS']);
  expect(await done(a)).toEqual(['1 SUCCESS']);
  modify(a, { qpState: V.IBV_QPS_RTS });
  expect(await done(a)).toEqual(['2 SUCCESS']);
});

test('a WAIT counts the completions of requests that share queue pairs', async () => {
  const world = new World(createPolicy('share', { connectionsPerQp: 2 }));
  const [[a, peer], [other]] = world.connections(2);
  world.write(a, peer, 1);
  other.send.wait(2, SIGNALED, a.sendCq, 1);
  expect(post(other)).toBe(1);
  expect(await world.settle(a)).toEqual(['1 SUCCESS', '2 SUCCESS']);
  expect(world.onOwn([a])).toBe(0);
});

test('perf with 0_WAITs that are RDMA_WRITEs without data delivers the same bytes', async () => {
  const fabric = createFabric({ autoAdvance: false, wait: false });
  const provider = compose(fabric.provider, [createPolicy('perf', { ...PERF, zeroWait: 'write' })]);
  const a = makeEnd({ ...fabric, provider }, 0);
  const b = makeEnd(fabric, 1);
  connect(a, b);
  a.bytes.fill(9, 0, 3000);
  a.send.write(1, SIGNALED, a.mr.addr, 3000, a.mr.lkey, b.mr.addr, b.mr.rkey);
  post(a);
  const ids: number[] = [];
  for (let i = 0; i < 40; i++) {
    await fabric.run();
    ids.push(...take(a).map((wc) => wc.wrId));
  }
  expect(ids).toEqual([1]);
  expect(b.bytes.subarray(0, 3001).findIndex((byte) => byte !== 9)).toBe(3000);
  expect(shimCounters(provider).internal.posts).toBeGreaterThanOrEqual(10 * 4);
});
