/** READ by remote control between two shims: the peer answers with WRITEs, and programs see no difference. */
// @module-tag wide
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createPolicy } from '../../src/policies/index.ts';
import type { Interceptor } from '../../src/shim/compose.ts';
import { decodeChunks, TwinChunk, withChunk } from '../../src/shim/peer/chunks.ts';
import { readByRemoteControl } from '../../src/shim/peer/remote-read.ts';
import * as V from '../../src/verbs/index.ts';
import { ALL_ACCESS, type End, fill, post, toInit, toRtr, toRts } from '../sim/helpers.ts';
import { chains } from './chains.ts';
import { negotiate } from './negotiate.ts';
import {
  closeEnd,
  connectPeers,
  type PeerOptions,
  type PeerWorld,
  peerWorld,
  SIGNALED,
  settle,
  toState,
} from './peer-rig.ts';
import { program, runProgram } from './program.ts';
import { simGround } from './sim-ground.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 20);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_124);
/** The interval in which the shim probes the peer. */
const PROBE_NS = 60e6;
const chain = () => [
  createPolicy('perf', {
    isolation: 'always',
    subMsgSizeBytes: 256,
    zeroWaitUnitBytes: 64,
    readByRemoteControl: true,
  }),
];

for (const name of ['arbitrary', 'perf 1024, WAIT emulated']) {
  test(`READs are answered by the peer, and a program sees no difference: ${name}`, async () => {
    const { chain: inner, wait } = chains[name];
    await fc.assert(
      fc.asyncProperty(program, async (p) => {
        const bare = await runProgram(p, [], simGround(wait));
        const all = [negotiate(), readByRemoteControl({ minBytes: 1000 }), ...inner()];
        expect(await runProgram(p, all, simGround(wait))).toEqual(bare);
      }),
      { numRuns: RUNS, seed: SEED },
    );
  }, 600_000);
}

/** Number of pieces into which the policy below the outermost shim cut an end's requests, including its answers. */
function pieces(end: End): number {
  return end.v.counters?.()[1]?.internal.pieces ?? 0;
}

async function both(
  run: (w: PeerWorld) => Promise<unknown>,
  o: PeerOptions = {},
  other: () => Interceptor[] = chain,
) {
  const bare = await run(peerWorld([], [], o));
  const w = peerWorld(chain(), other(), o);
  const before = pieces(w.b);
  expect(await run(w)).toEqual(bare);
  return { seen: bare as { a: string[]; b: string[] }, served: pieces(w.b) - before };
}

function read(
  { a, b }: PeerWorld,
  id: number,
  bytes: number,
  o: Partial<{ lkey: number; rkey: number; at: number }> = {},
) {
  const { lkey = a.mr.lkey, rkey = b.mr.rkey, at = 0 } = o;
  a.send.read(id, SIGNALED, a.mr.addr + id * 40_000, bytes, lkey, b.mr.addr + at, rkey);
}

test('the peer writes a long READ in pieces, and it completes as a READ', async () => {
  const { seen, served } = await both(async (w) => {
    fill(w.b.bytes, 0, 40_000, 9);
    read(w, 1, 40_000);
    read(w, 2, 100);
    read(w, 3, 5000);
    post(w.a);
    const told = await settle(w);
    const copy = w.b.bytes.subarray(0, 40_000);
    expect(Buffer.compare(w.a.bytes.subarray(40_000, 80_000), copy)).toBe(0);
    expect(Buffer.compare(w.a.bytes.subarray(120_000, 125_000), copy.subarray(0, 5000))).toBe(0);
    for (const end of [w.a, w.b]) closeEnd(end);
    return told;
  });
  expect(seen.a).toEqual([
    'send 1 SUCCESS RDMA_READ',
    'send 2 SUCCESS RDMA_READ',
    'send 3 SUCCESS RDMA_READ',
  ]);
  expect(served).toBe(Math.ceil(40_000 / 256) + Math.ceil(5000 / 256));
});

test('the policy of the peer makes the pieces', async () => {
  const w = peerWorld(chain(), chain());
  read(w, 1, 40_000);
  post(w.a);
  expect((await settle(w)).a).toEqual(['send 1 SUCCESS RDMA_READ']);
  expect(pieces(w.b)).toBe(Math.ceil(40_000 / 256));
  expect(pieces(w.a)).toBe(0);
});

test('without an agreement, or support at the peer, READs are issued unchanged', async () => {
  const run = async (w: PeerWorld) => {
    read(w, 1, 20_000);
    post(w.a);
    return await settle(w);
  };
  expect((await both(run, { agree: false })).served).toBe(0);
  expect((await both(run, {}, () => [createPolicy('perf', { isolation: 'always' })])).served).toBe(0);
  expect((await both(run, {}, () => [])).served).toBe(0);
});

test('a READ sees the effect of earlier requests, and later requests wait', async () => {
  for (const flags of [SIGNALED, 0]) {
    await both(async (w) => {
      const { a, b } = w;
      fill(a.bytes, 0, 6000, 1);
      fill(a.bytes, 6000, 6000, 5);
      a.send.write(1, flags, a.mr.addr, 6000, a.mr.lkey, b.mr.addr, b.mr.rkey);
      read(w, 2, 6000);
      a.send.write(3, SIGNALED, a.mr.addr + 6000, 6000, a.mr.lkey, b.mr.addr, b.mr.rkey);
      post(a);
      const told = await settle(w);
      expect(Buffer.compare(a.bytes.subarray(80_000, 86_000), a.bytes.subarray(0, 6000))).toBe(0);
      return told;
    });
  }
});

test('a READ that the device would refuse fails as on the device', async () => {
  const cases: [string, (w: PeerWorld) => void, PeerOptions?][] = [
    ['REM_ACCESS_ERR', (w) => read(w, 1, 5000, { rkey: 0xdead })],
    ['REM_ACCESS_ERR', (w) => read(w, 1, 5000, { at: (1 << 20) - 4000 })],
    ['LOC_PROT_ERR', (w) => read(w, 1, 5000, { lkey: 0xdead })],
    ['REM_ACCESS_ERR', (w) => read(w, 1, 5000), { b: { access: V.IBV_ACCESS_LOCAL_WRITE } }],
    ['REM_INV_REQ_ERR', (w) => read(w, 1, 5000), { b: { qpAccess: ALL_ACCESS & ~V.IBV_ACCESS_REMOTE_READ } }],
    ['LOC_PROT_ERR', (w) => read(w, 1, 5000), { a: { access: V.IBV_ACCESS_REMOTE_READ } }],
  ];
  for (const [status, go, o] of cases) {
    const { seen } = await both(async (w) => {
      go(w);
      read(w, 2, 5000);
      post(w.a);
      const told = await settle(w);
      const states = [w.a, w.b].map((end) => end.v.queryQp(end.qp).attr.qpState);
      for (const end of [w.a, w.b]) closeEnd(end);
      return { ...told, states };
    }, o);
    expect(seen.a).toEqual([`send 1 ${status}`, 'send 2 WR_FLUSH_ERR']);
  }
});

test('a key of another protection domain is refused', async () => {
  const { seen } = await both(async (w) => {
    const { b } = w;
    const pd = b.v.allocPd(b.context);
    const mr = b.v.allocMr(pd, 1 << 16, ALL_ACCESS);
    w.a.send.read(1, SIGNALED, w.a.mr.addr, 5000, w.a.mr.lkey, mr.addr, mr.rkey);
    post(w.a);
    return await settle(w);
  });
  expect(seen.a).toEqual(['send 1 REM_ACCESS_ERR']);
});

test('ERR, RESET and destruction in mid-transfer leave no key behind', async () => {
  for (const ns of [300, 2500, 6000]) {
    for (const end of ['err', 'reset', 'destroy'] as const) {
      const w = peerWorld(chain(), chain());
      read(w, 1, 40_000);
      read(w, 2, 40_000);
      post(w.a);
      await w.fabric.advance(ns);
      if (end !== 'destroy') {
        toState(w.a, end === 'err' ? V.IBV_QPS_ERR : V.IBV_QPS_RESET);
        const { a } = await settle(w);
        const flushed = ['send 1 WR_FLUSH_ERR', 'send 2 WR_FLUSH_ERR'];
        expect(a).toEqual(end === 'err' ? flushed : []);
      }
      for (const one of [w.a, w.b]) closeEnd(one);
    }
  }
});

test('after a RESET READs are issued unchanged', async () => {
  const { served } = await both(async (w) => {
    for (const end of [w.a, w.b]) toState(end, V.IBV_QPS_RESET);
    connectPeers(w.a, w.b);
    read(w, 1, 20_000);
    post(w.a);
    return await settle(w);
  });
  expect(served).toBe(0);
});

test('a region that is deregistered while the peer writes to it, or from it, fails as with a READ', async () => {
  for (const which of ['a', 'b'] as const) {
    const status = which === 'a' ? 'LOC_PROT_ERR' : 'REM_ACCESS_ERR';
    const w = peerWorld(chain(), chain());
    const end = w[which];
    const mr = end.v.allocMr(end.pd, 1 << 18, ALL_ACCESS);
    const [from, to] = which === 'a' ? [w.b.mr, mr] : [mr, w.a.mr];
    w.a.send.read(1, SIGNALED, to.addr, 1 << 18, to.lkey, from.addr, from.rkey);
    post(w.a);
    await w.fabric.advance(8000);
    end.v.deregMr(mr.handle);
    await w.fabric.advance(PROBE_NS);
    expect((await settle(w)).a).toEqual([`send 1 ${status}`]);
    for (const one of [w.a, w.b]) closeEnd(one);
  }
});

test('a vanished peer is detected, as by a READ', async () => {
  const o = { a: { timeout: 4, retryCnt: 1 } };
  const { seen } = await both(async (w) => {
    toState(w.b, V.IBV_QPS_ERR);
    read(w, 1, 20_000);
    post(w.a);
    return await settle(w);
  }, o);
  expect(seen.a).toEqual(['send 1 RETRY_EXC_ERR']);
  const w = peerWorld(chain(), chain(), o);
  read(w, 1, 400_000);
  post(w.a);
  await w.fabric.advance(5000);
  w.b.v.destroyQp(w.b.qp);
  await w.fabric.advance(PROBE_NS);
  expect((await settle(w)).a).toEqual(['send 1 RETRY_EXC_ERR']);
});

const TWIN = new TwinChunk('remote-read', 0);
const described = (payload: readonly number[]) => withChunk(null, TWIN.kind, payload);
const head = (qpNum: number) => TWIN.encode({ qpNum, bufferAddr: 0, rkey: 0 })[0];

test.each([
  ['no words', described([])],
  ['two words', described([head(17), 0])],
  ['five words', described([head(17), 0, 0, 0, 0])],
  ['the mark of another policy', described([head(17) ^ 0x80000000])],
  ['the number of a management queue pair', described([head(1)])],
  ['the number of multicast', described([head(0xffffff)])],
  ['an address beyond 2^53', described([head(17), 0, 0xffffffff, 1])],
  ['the same chunk twice', Buffer.concat([described([head(17)]), described([head(17)]).subarray(4)])],
  ['a length beyond the end', described([head(17)]).subarray(0, 8)],
  ['half a word', described([head(17)]).subarray(0, 10)],
])('a peer that describes its twin with %s counts as one without a twin', async (_, bytes) => {
  const w = peerWorld(chain(), [], { agree: false });
  for (const end of [w.a, w.b]) toState(end, V.IBV_QPS_RESET);
  for (const end of [w.a, w.b]) toInit(end);
  w.a.v.setPeer?.(w.a.qp, bytes);
  toRtr(w.a, w.b);
  toRtr(w.b, w.a);
  for (const end of [w.a, w.b]) toRts(end);
  w.a.send.read(1, SIGNALED, w.a.mr.addr, 50_000, w.a.mr.lkey, w.b.mr.addr, w.b.mr.rkey);
  post(w.a);
  expect((await settle(w)).a).toEqual(['send 1 SUCCESS RDMA_READ']);
  for (const end of [w.a, w.b]) closeEnd(end);
});

test('a description changes nothing once the twin is connected, nor after a RESET', async () => {
  const w = peerWorld(chain(), chain());
  const go = async () => {
    const before = pieces(w.b);
    read(w, 1, 20_000);
    post(w.a);
    expect((await settle(w)).a).toEqual(['send 1 SUCCESS RDMA_READ']);
    return pieces(w.b) - before;
  };
  for (const bytes of [null, described([head(1)]), described([head(17)])]) {
    w.a.v.setPeer?.(w.a.qp, bytes);
    expect(await go()).toBe(Math.ceil(20_000 / 256));
  }
  for (const end of [w.a, w.b]) toState(end, V.IBV_QPS_RESET);
  w.a.v.setPeer?.(w.a.qp, described([head(17)]));
  connectPeers(w.a, w.b);
  expect(decodeChunks(w.a.v.describePeer?.(w.a.qp) ?? null).has(TWIN.kind)).toBe(false);
  expect(await go()).toBe(0);
  for (const end of [w.a, w.b]) closeEnd(end);
});
