/** The programs of shim.test.ts under policies that run in a worker thread. */
// @module-tag wide
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { workerDriver } from '../../src/drivers/worker/front.ts';
import { count } from '../../src/interceptors/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, makeEnd, modify, post, SIGNALED, take } from '../sim/helpers.ts';
import { tagsIf } from '../support/variants.ts';
import { negotiate } from './negotiate.ts';
import { type Op, type Program, program, runProgram } from './program.ts';
import { simGround } from './sim-ground.ts';
import { module, perfSpec, workerChains } from './worker-chains.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 8);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_123);

/** A policy that cuts, and one of each kind of order. */
const SHORT = ['arbitrary', 'perf 256', 'justitia', 'fair'];

for (const [name, { chain, wait }] of Object.entries(workerChains)) {
  const options = { tags: tagsIf(SHORT.includes(name)), timeout: 600_000 };
  test(`a program sees no difference: ${name} in a worker`, options, async () => {
    await fc.assert(
      fc.asyncProperty(program, async (p) => {
        const bare = await runProgram(p, [], simGround(wait));
        const shimmed = await runProgram(p, chain(), simGround(wait));
        expect(shimmed).toEqual(bare);
      }),
      { numRuns: RUNS, seed: SEED },
    );
  });
}

test('twins of a policy in a worker are connected, and carry pieces', async () => {
  let onTwins = 0;
  const posts = (): Interceptor => {
    const twins = new Set<number>();
    return {
      name: 'posts',
      wrap: (next) => ({
        createQp(pd, attr) {
          const info = next.createQp(pd, attr);
          if (attr.sendCq === attr.recvCq && attr.cap.maxSendWr === 8) twins.add(info.handle);
          return info;
        },
        postSend(qp, ring, start, count) {
          if (twins.has(qp)) onTwins += count;
          return next.postSend(qp, ring, start, count);
        },
      }),
    };
  };
  await fc.assert(
    fc.asyncProperty(program, async (p) => {
      const bare = await runProgram(p, [], simGround());
      const chain = [negotiate(), workerDriver([module('striping')]), posts()];
      expect(await runProgram(p, chain, simGround())).toEqual(bare);
    }),
    { numRuns: RUNS, seed: SEED },
  );
  expect(onTwins).toBeGreaterThan(0);
}, 600_000);

function oneWrite(bytes: number): Program {
  const op: Op = {
    kind: 'write',
    sges: [bytes],
    local: 0,
    remote: 0,
    flags: V.IBV_SEND_SIGNALED,
    fault: 'none',
  };
  return { qps: 1, sigAll: false, sharedCq: false, steps: [{ do: 'post', qp: 0, ops: [op] }] };
}

test('decisions of the worker reach the device: a large WRITE becomes many, a small one stays whole', async () => {
  for (const [bytes, least, most] of [
    [100, 1, 1],
    [12_000, 12_000 / 256, 1000],
  ]) {
    const ground = simGround();
    const below = count();
    const provider = compose(ground.provider, [below]);
    await runProgram(oneWrite(bytes), [workerDriver([perfSpec(256, 64)])], { ...ground, provider });
    expect(below.counts.sends).toBeGreaterThanOrEqual(least);
    expect(below.counts.sends).toBeLessThanOrEqual(most);
  }
});

test('a worker keeps no ring after its contexts are closed', async () => {
  const ground = simGround();
  const open = new Set<number>();
  let made = 0;
  const rings: Interceptor = {
    name: 'rings',
    wrap: (next) => ({
      createWrRing: (...args) => added(next.createWrRing(...args)),
      createWcRing: (...args) => added(next.createWcRing(...args)),
      destroyRing: (ring) => {
        next.destroyRing(ring);
        open.delete(ring);
      },
    }),
  };
  const added = (info: V.RingInfo) => {
    made++;
    open.add(info.handle);
    return info;
  };
  const provider = compose(ground.provider, [rings]);
  await runProgram(oneWrite(12_000), [workerDriver([perfSpec(256, 64)])], { ...ground, provider });
  // The program has three rings, for receives, sends and completions.
  expect(made).toBeGreaterThan(3);
  expect([...open]).toEqual([]);
});

const perfInWorker = () => [workerDriver([perfSpec(256, 64)])];
test.each([
  ['bare', () => []],
  ['in a worker, emulated', perfInWorker],
] as [string, () => Interceptor[]][])(
  'an ENABLE past what is posted is refused at its post: %s',
  async (name, chain) => {
    const { fabric } = simGround(name === 'bare');
    const on = { ...fabric, provider: compose(fabric.provider, chain()) };
    const [a, m, peer] = [makeEnd(on, 0), makeEnd(on, 0, { managed: true }), makeEnd(fabric, 1)];
    connect(a, peer);
    connect(m, m);
    const write = (id: number) => m.send.write(id, SIGNALED, 0, 0, 0, 0, 0);
    const enable = (id: number, count: number) => a.send.enable(id, SIGNALED, m.qp, count);
    const refused = () => [a.send.errno, a.send.reason];
    const done = async (end: typeof a) => {
      await fabric.run();
      return take(end).map(({ wrId, status }) => [wrId, status]);
    };
    write(1);
    post(m);
    enable(2, 1);
    enable(3, 1);
    expect(post(a)).toBe(1);
    expect(refused()).toEqual([V.EINVAL, V.REASON_TARGET]);
    expect([await done(a), await done(m)]).toEqual([[[2, 'SUCCESS']], [[1, 'SUCCESS']]]);
    for (const id of [4, 5]) write(id);
    post(m);
    enable(6, 3);
    expect(post(a)).toBe(0);
    enable(7, 0);
    enable(8, 1);
    expect(post(a)).toBe(1);
    expect(refused()).toEqual([V.EINVAL, V.REASON_TARGET]);
    expect([await done(a), await done(m)]).toEqual([
      [[7, 'SUCCESS']],
      [
        [4, 'SUCCESS'],
        [5, 'SUCCESS'],
      ],
    ]);
    modify(m, { qpState: V.IBV_QPS_RESET });
    connect(m, m);
    write(9);
    post(m);
    enable(10, 2);
    expect(post(a)).toBe(0);
    enable(11, 1);
    expect(post(a)).toBe(1);
    expect([await done(a), await done(m)]).toEqual([[[11, 'SUCCESS']], [[9, 'SUCCESS']]]);
  },
);

test('requests whose memory is detached before the worker takes them are all flushed in order', async () => {
  const { fabric } = simGround();
  const on = { ...fabric, provider: compose(fabric.provider, perfInWorker()) };
  const [a, b] = [makeEnd(on, 0, { cap: { maxSendWr: 256 } }), makeEnd(fabric, 1, { bytes: 12_000 })];
  connect(a, b);
  const memory = new ArrayBuffer(12_000);
  const mr = a.v.regMr(a.pd, memory, 0, 12_000, V.IBV_ACCESS_LOCAL_WRITE);
  // More requests than the worker takes at once; the last ones use other memory.
  const ids = Array.from({ length: 150 }, (_, id) => id);
  for (const id of ids) {
    const { addr, lkey } = id < 140 ? mr : a.mr;
    a.send.write(id, id % 3 === 0 ? SIGNALED : 0, addr, 12_000, lkey, b.mr.addr, b.mr.rkey);
  }
  expect(post(a)).toBe(150);
  structuredClone(memory, { transfer: [memory] });
  for (let i = 0; i < 5; i++) await fabric.run();
  expect(take(a).map(({ wrId, status }) => [wrId, status])).toEqual(ids.map((id) => [id, 'WR_FLUSH_ERR']));
  expect(a.v.queryQp(a.qp).attr.qpState).toBe(V.IBV_QPS_ERR);
});

test('the ledger in a worker accepts completions of any number of requests that were posted past it', async () => {
  const { fabric } = simGround();
  const on = { ...fabric, provider: compose(fabric.provider, perfInWorker()) };
  const small = makeEnd(on, 0);
  const cap = { maxSendWr: 64, maxRecvWr: 64, maxSendSge: 4, maxRecvSge: 4, maxInlineData: 128 };
  const { pd, sendCq, recvCq } = small;
  const { handle, qpNum } = small.v.createQp(pd, {
    qpType: V.IBV_QPT_RC,
    sendCq,
    recvCq,
    cap,
    sqSigAll: false,
    managed: false,
  });
  const large = { ...small, qp: handle, qpNum };
  const peers = [makeEnd(fabric, 1), makeEnd(fabric, 1)];
  connect(small, peers[0]);
  connect(large, peers[1]);
  const write = async (end: typeof small, count: number, bytes: number) => {
    for (let i = 0; i < count; i++)
      end.send.write(i, SIGNALED, end.mr.addr, bytes, end.mr.lkey, peers[0].mr.addr, peers[0].mr.rkey);
    const taken = post(end);
    let polled = 0;
    for (let turn = 0; turn < 50 && polled < taken; turn++) {
      await fabric.run();
      polled += take(end).length;
    }
    expect(polled).toBe(count);
  };
  // The first long message moves the shared CQ to the worker; short ones of the other queue pair never do.
  large.send.write(0, SIGNALED, large.mr.addr, 12_000, large.mr.lkey, peers[1].mr.addr, peers[1].mr.rkey);
  post(large);
  for (let turn = 0; turn < 50 && take(large).length === 0; turn++) await fabric.run();
  for (let round = 0; round < 40; round++) await write(small, 10, 16);
  expect(() => modify(small, { qpState: V.IBV_QPS_ERR })).not.toThrow();
});
