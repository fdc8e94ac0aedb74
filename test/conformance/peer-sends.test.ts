/** SENDs and immediates in pieces between two shims: programs see no difference, and there are pieces. */
import { expect, test } from 'vitest';
import { createPolicy } from '../../src/policies/index.ts';
import type { Interceptor } from '../../src/shim/compose.ts';
import { CHUNK_SENDS, decodeChunks, withChunk } from '../../src/shim/peer/chunks.ts';
import { ENTRY_BYTES, NOTICE_BYTES, NOTICE_WORDS, writeNotice } from '../../src/shim/peer/entries.ts';
import * as V from '../../src/verbs/index.ts';
import { ALL_ACCESS, fill, modify, post, postRecv, toInit, toRtr, toRts } from '../sim/helpers.ts';
import { initAttr } from '../support/to-rts.ts';
import {
  agree,
  closeEnd,
  connectPeers,
  type PeerOptions,
  type PeerWorld,
  peerWorld,
  piecesOf,
  SIGNALED,
  settle,
  toState,
} from './peer-rig.ts';

const perf = () => [
  createPolicy('perf', { isolation: 'always', subMsgSizeBytes: 256, zeroWaitUnitBytes: 64 }),
];
/** Receives do not overlap. */
const SLOT = 32_768;

/** Runs the same on bare ends and between shims; returns the completions of the ends, and the pieces. */
async function both(
  run: (w: PeerWorld) => Promise<unknown>,
  o: PeerOptions = {},
  other: () => Interceptor[] = perf,
) {
  const bare = await run(peerWorld([], [], o));
  const w = peerWorld(perf(), other(), o);
  expect(await run(w)).toEqual(bare);
  return { seen: bare, pieces: piecesOf(w.a) };
}

function postRecvs({ b }: PeerWorld, count: number, length = SLOT, lkey = b.mr.lkey): void {
  for (let i = 0; i < count; i++) b.recv.recv(100 + i, b.mr.addr + i * SLOT, length, lkey);
  expect(postRecv(b)).toBe(count);
}

function postSends({ a }: PeerWorld, lengths: number[], flags: number = SIGNALED): void {
  lengths.forEach((length, i) => {
    a.send.send(i + 1, flags, a.mr.addr, length, a.mr.lkey);
  });
  expect(post(a)).toBe(lengths.length);
}

test('a long SEND goes in pieces into its receive, and completes as one message', async () => {
  const { seen, pieces } = await both(async (w) => {
    fill(w.a.bytes, 0, 5000);
    postRecvs(w, 3);
    postSends(w, [100, 5000, 3000]);
    const told = await settle(w);
    expect(w.b.bytes.subarray(SLOT, SLOT + 5000)).toEqual(w.a.bytes.subarray(0, 5000));
    expect(w.b.bytes.subarray(2 * SLOT, 2 * SLOT + 3000)).toEqual(w.a.bytes.subarray(0, 3000));
    return told;
  });
  expect(seen).toMatchObject({
    b: [
      'recv 100 SUCCESS RECV 100 imm null',
      'recv 101 SUCCESS RECV 5000 imm null',
      'recv 102 SUCCESS RECV 3000 imm null',
    ],
  });
  expect(pieces).toBe(Math.ceil(5000 / 256) + Math.ceil(3000 / 256));
});

test('without an agreement SENDs go whole, also to a peer with a shim', async () => {
  const run = async (w: PeerWorld) => {
    postRecvs(w, 2);
    postSends(w, [5000, 3000]);
    return await settle(w);
  };
  expect((await both(run, { agree: false })).pieces).toBe(0);
  expect((await both(run, {}, () => [])).pieces).toBe(0);
});

test('a description of another version is ignored', async () => {
  const run = async (change: (bytes: Uint8Array) => Uint8Array) => {
    const w = peerWorld(perf(), perf(), { agree: false });
    const described = w.b.v.describePeer?.(w.b.qp) as Uint8Array;
    w.a.v.setPeer?.(w.a.qp, change(described.slice()));
    postRecvs(w, 1);
    postSends(w, [5000]);
    expect((await settle(w)).b).toEqual(['recv 100 SUCCESS RECV 5000 imm null']);
    return piecesOf(w.a);
  };
  const set = (at: number, value: number) => (bytes: Uint8Array) => {
    bytes[at] = value;
    return bytes;
  };
  expect(await run(set(0, 7))).toBe(0);
  expect(await run(set(4, 2))).toBe(0);
  expect(await run(set(12, 3))).toBe(0);
  expect(await run((bytes) => bytes.subarray(4))).toBe(0);
  expect(await run(() => new Uint8Array(0))).toBe(0);
});

test('a SEND without a receive waits, and fails when it has waited too long', async () => {
  const late = async (w: PeerWorld) => {
    postSends(w, [5000]);
    await w.fabric.advance(20_000);
    postRecvs(w, 1);
    return await settle(w);
  };
  expect((await both(late)).seen).toMatchObject({ a: ['send 1 SUCCESS SEND'] });
  const { seen } = await both(
    async (w) => {
      postSends(w, [5000, 5000]);
      return await settle(w);
    },
    { a: { rnrRetry: 1 } },
  );
  expect(seen).toMatchObject({ a: ['send 1 RNR_RETRY_EXC_ERR', 'send 2 WR_FLUSH_ERR'] });
});

test('a SEND longer than its receive fails at both ends', async () => {
  const { seen } = await both(async (w) => {
    postRecvs(w, 2, 4000);
    postSends(w, [3000, 5000]);
    return await settle(w);
  });
  expect(seen).toMatchObject({
    a: ['send 1 SUCCESS SEND', 'send 2 REM_INV_REQ_ERR'],
    b: ['recv 100 SUCCESS RECV 3000 imm null', 'recv 101 LOC_LEN_ERR'],
  });
});

test('a receive with an invalid key fails at both ends', async () => {
  const { seen } = await both(async (w) => {
    postRecvs(w, 2, SLOT, 0xdead);
    postSends(w, [5000]);
    return await settle(w);
  });
  expect(seen).toMatchObject({
    a: ['send 1 REM_OP_ERR'],
    b: ['recv 100 LOC_PROT_ERR', 'recv 101 WR_FLUSH_ERR'],
  });
});

test("memory without remote access receives pieces under a shim's key, which ends with the region", async () => {
  const access = V.IBV_ACCESS_LOCAL_WRITE;
  const { pieces } = await both(
    async (w) => {
      fill(w.a.bytes, 0, 5000);
      postRecvs(w, 2);
      postSends(w, [5000, 400]);
      const told = await settle(w);
      expect(w.b.bytes.subarray(0, 5000)).toEqual(w.a.bytes.subarray(0, 5000));
      // No object of the shim keeps the protection domain open.
      for (const end of [w.a, w.b]) closeEnd(end);
      return told;
    },
    { b: { access } },
  );
  expect(pieces).toBe(Math.ceil(5000 / 256) + 2);
});

test('receives in any region of a protection domain accept pieces', async () => {
  const { seen, pieces } = await both(async (w) => {
    const { b } = w;
    const extra = [0, 1].map(() => b.v.allocMr(b.pd, SLOT, V.IBV_ACCESS_LOCAL_WRITE));
    extra.forEach((mr, i) => {
      b.recv.recv(i, mr.addr, SLOT, mr.lkey);
    });
    postRecv(b);
    postRecvs(w, 1);
    postSends(w, [5000, 5000, 5000]);
    const { a } = await settle(w);
    for (const { handle } of extra) b.v.deregMr(handle);
    return a;
  });
  expect(seen).toEqual([1, 2, 3].map((id) => `send ${id} SUCCESS SEND`));
  expect(pieces).toBe(3 * Math.ceil(5000 / 256));
});

test('an end that gets the description of its peer twice agrees once', async () => {
  const w = peerWorld(perf(), perf(), { agree: false });
  for (const end of [w.a, w.b]) toState(end, V.IBV_QPS_RESET);
  for (const end of [w.a, w.b]) toInit(end);
  agree(w.a, w.b);
  agree(w.a, w.b);
  for (const [end, peer] of [
    [w.a, w.b],
    [w.b, w.a],
  ]) {
    toRtr(end, peer);
    toRts(end);
  }
  postRecvs(w, 1);
  postSends(w, [5000]);
  expect((await settle(w)).a).toEqual(['send 1 SUCCESS SEND']);
  expect(piecesOf(w.a)).toBe(Math.ceil(5000 / 256));
  // No object of the shim keeps the protection domain open.
  for (const end of [w.a, w.b]) closeEnd(end);
});

test.each([
  ['that the peer was told of', [5000]],
  ['that the peer has not asked for', []],
])(
  'a region that is deregistered while a receive uses it %s: the SEND for that receive fails',
  async (_what, first) => {
    const { seen, pieces } = await both(async (w) => {
      const { b } = w;
      const extra = b.v.allocMr(b.pd, SLOT, V.IBV_ACCESS_LOCAL_WRITE);
      for (let i = 0; i <= first.length; i++) b.recv.recv(i, extra.addr, SLOT, extra.lkey);
      postRecv(b);
      if (first.length > 0) postSends(w, first);
      const before = (await settle(w)).a;
      b.v.deregMr(extra.handle);
      w.a.send.send(9, SIGNALED, w.a.mr.addr, 5000, w.a.mr.lkey);
      post(w.a);
      const after = (await settle(w)).a;
      return { before, after };
    });
    expect(seen).toEqual({ before: first.map(() => 'send 1 SUCCESS SEND'), after: ['send 9 REM_OP_ERR'] });
    // Nothing is sent in pieces into deregistered memory.
    if (first.length === 0) expect(pieces).toBe(0);
  },
);

test('a region that cannot be deregistered because of a bound window still accepts the messages on their way', async () => {
  const { seen, pieces } = await both(async (w) => {
    const { b } = w;
    const mr = b.v.allocMr(b.pd, SLOT, V.IBV_ACCESS_LOCAL_WRITE | V.IBV_ACCESS_MW_BIND);
    const mw = b.v.allocMw(b.pd, V.IBV_MW_TYPE_2);
    b.send.bindMw(7, SIGNALED, mw.handle, mr.handle, mr.addr, SLOT, V.IBV_ACCESS_REMOTE_READ, mw.rkey + 1);
    post(b);
    b.recv.recv(100, mr.addr, SLOT, mr.lkey);
    postRecv(b);
    const bound = await settle(w);
    fill(w.a.bytes, 0, 28_000);
    postSends(w, [28_000]);
    await w.fabric.advance(3000);
    expect(() => b.v.deregMr(mr.handle)).toThrow(V.BusyError);
    expect(() => b.v.reregMr(mr.handle, { access: V.IBV_ACCESS_LOCAL_WRITE })).toThrow(V.BusyError);
    const told = await settle(w);
    const bytes = new Uint8Array(mr.memory, mr.byteOffset, 28_000);
    expect(Buffer.from(bytes).equals(w.a.bytes.subarray(0, 28_000))).toBe(true);
    b.v.deallocMw(mw.handle);
    b.v.deregMr(mr.handle);
    return [bound, told];
  });
  expect(seen).toMatchObject([
    { b: ['send 7 SUCCESS BIND_MW'] },
    { a: ['send 1 SUCCESS SEND'], b: ['recv 100 SUCCESS RECV 28000 imm null'] },
  ]);
  expect(pieces).toBeGreaterThan(100);
});

test('ERR of the receiver in mid-transfer fails the sender once', async () => {
  await both(
    async (w) => {
      postRecvs(w, 4);
      postSends(w, [20_000, 20_000]);
      await w.fabric.advance(1200);
      toState(w.b, V.IBV_QPS_ERR);
      const { a } = await settle(w);
      // How far the first SEND got depends on timing; the completions of both do not.
      return a.length;
    },
    { a: { timeout: 4, retryCnt: 2 } },
  );
});

test('after a RESET both ends may agree again or go without an agreement', async () => {
  for (const [again, ns] of [
    [true, 700],
    [false, 3000],
    [true, 4000],
  ] as const) {
    const { pieces } = await both(async (w) => {
      postRecvs(w, 5);
      postSends(w, [5000, 5000]);
      await w.fabric.advance(ns);
      for (const end of [w.a, w.b]) toState(end, V.IBV_QPS_RESET);
      await settle(w);
      connectPeers(w.a, w.b, again);
      postRecvs(w, 2);
      const before = piecesOf(w.a);
      postSends(w, [2000, 300]);
      const told = await settle(w);
      if (w.a.v.describePeer !== undefined) {
        expect(piecesOf(w.a) - before).toBe(again ? 2 + Math.ceil(2000 / 256) : 0);
      }
      return told;
    });
    expect(pieces).toBeGreaterThan(again ? 7 : 0);
  }
});

test('the peer knows receives that are posted during the agreement; a receiver in RTR accepts pieces', async () => {
  const { pieces, seen } = await both(
    async (w) => {
      const { a, b } = w;
      for (const end of [a, b]) toState(end, V.IBV_QPS_RESET);
      for (const end of [a, b]) toInit(end);
      // The peer does not know these receives, but it knows all receives posted after the agreement.
      postRecvs(w, 1);
      b.v.describePeer?.(b.qp);
      postRecvs(w, 2);
      agree(a, b);
      toRtr(b, a);
      toRtr(a, b);
      toRts(a);
      postSends(w, [2000, 1000, 2000]);
      return await settle(w);
    },
    { agree: false },
  );
  expect(seen).toMatchObject({ a: ['send 1 SUCCESS SEND', 'send 2 SUCCESS SEND', 'send 3 SUCCESS SEND'] });
  expect(pieces).toBe(Math.ceil(2000 / 256) + Math.ceil(1000 / 256));
});

test('an end that sends before the agreement sends whole messages', async () => {
  const { pieces } = await both(
    async (w) => {
      postRecvs(w, 3);
      postSends(w, [2000]);
      const first = await settle(w);
      agree(w.a, w.b);
      postSends(w, [2000, 2000]);
      return [first, await settle(w)];
    },
    { agree: false },
  );
  expect(pieces).toBe(0);
});

test('a shared receive queue and a queue pair without remote access have no table; UC has no description', () => {
  const { a } = peerWorld(perf(), perf());
  const { v, pd, sendCq, recvCq } = a;
  const cap = { maxSendWr: 8, maxRecvWr: 8, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
  const describe = (qpType: number, qpAccessFlags: number, srq = 0) => {
    const qpCap = srq === 0 ? cap : { ...cap, maxRecvWr: 0, maxRecvSge: 0 };
    const init = { qpType, sendCq, recvCq, cap: qpCap, sqSigAll: false };
    const qp = v.createQp(pd, srq === 0 ? init : { ...init, srq }).handle;
    expect(v.describePeer?.(qp)).toBe(null);
    const attr = initAttr({ qpType, qpAccessFlags });
    v.modifyQp(qp, attr, V.maskOf(attr));
    return v.describePeer?.(qp) ?? null;
  };
  const entries = (bytes: Uint8Array | null) => new Uint32Array(bytes?.buffer as ArrayBuffer)[3];
  const srq = v.createSrq(pd, { maxWr: 8, maxSge: 1 }).handle;
  expect(entries(describe(V.IBV_QPT_RC, ALL_ACCESS))).toBe(8);
  expect(entries(describe(V.IBV_QPT_RC, ALL_ACCESS, srq))).toBe(0);
  expect(entries(describe(V.IBV_QPT_RC, V.IBV_ACCESS_REMOTE_WRITE))).toBe(0);
  expect(describe(V.IBV_QPT_UC, V.IBV_ACCESS_REMOTE_WRITE)).toBe(null);
});

test('running numbers of receives and messages wrap around the table many times', async () => {
  const { pieces } = await both(
    async (w) => {
      const seen: unknown[] = [];
      for (let round = 0; round < 40; round++) {
        postRecvs(w, 7);
        postSends(w, [round, 600 + round, 3000, 0, 257, 256, 900]);
        seen.push(await settle(w));
      }
      return seen;
    },
    { b: { cap: { maxRecvWr: 16 } } },
  );
  expect(pieces).toBeGreaterThan(40 * 17);
});

test.each(['nothing', 'garbage', 'itself'])(
  'notified of %s in mid-message, an end continues with the existing agreement',
  async (what) => {
    const { seen } = await both(async (w) => {
      fill(w.a.bytes, 0, 28_000);
      postRecvs(w, 1);
      postSends(w, [28_000]);
      await w.fabric.advance(2000);
      for (const { v, qp } of [w.a, w.b]) {
        const description = {
          nothing: null,
          garbage: new Uint8Array(8),
          itself: v.describePeer?.(qp) ?? null,
        }[what];
        v.setPeer?.(qp, description as Uint8Array | null);
      }
      const lines = await settle(w);
      expect(w.b.bytes.subarray(0, 28_000)).toEqual(w.a.bytes.subarray(0, 28_000));
      return lines;
    });
    expect(seen).toEqual({ a: ['send 1 SUCCESS SEND'], b: ['recv 100 SUCCESS RECV 28000 imm null'] });
  },
);

test('if SQD takes away READs, a message in progress ends in pieces, and later ones go whole', async () => {
  const { seen, pieces } = await both(async (w) => {
    postRecvs(w, 2);
    postSends(w, [28_000, 28_000]);
    await w.fabric.advance(2000);
    toState(w.a, V.IBV_QPS_SQD);
    await w.fabric.run();
    modify(w.a, { qpState: V.IBV_QPS_SQD, maxRdAtomic: 0 });
    toState(w.a, V.IBV_QPS_RTS);
    return await settle(w);
  });
  expect(seen).toMatchObject({
    b: ['recv 100 SUCCESS RECV 28000 imm null', 'recv 101 SUCCESS RECV 28000 imm null'],
  });
  expect(pieces).toBeGreaterThanOrEqual(Math.ceil(28_000 / 256));
});

test('a receive in read-only memory fails and leaves the memory unchanged', async () => {
  const { seen } = await both(async (w) => {
    const { b } = w;
    const mr = b.v.allocMr(b.pd, SLOT, V.IBV_ACCESS_REMOTE_READ);
    b.recv.recv(100, mr.addr, SLOT, mr.lkey);
    postRecv(b);
    fill(w.a.bytes, 0, 5000);
    postSends(w, [5000]);
    const told = await settle(w);
    expect(new Uint8Array(mr.memory, mr.byteOffset, SLOT).every((byte) => byte === 0)).toBe(true);
    b.v.deregMr(mr.handle);
    return told;
  });
  expect(seen).toEqual({ a: ['send 1 REM_OP_ERR'], b: ['recv 100 LOC_PROT_ERR'] });
});

test.each([
  ['longer than its receive', SLOT + 1, 0],
  ['of a message that came whole', 5000, 10],
])('a false message length from a peer, %s, is detected', async (_, claimed, sent) => {
  const w = peerWorld([], perf());
  const { a, b } = w;
  const [, depth, lo, hi, rkey] = decodeChunks(b.v.describePeer?.(b.qp) ?? null).get(CHUNK_SENDS) ?? [];
  b.v.setPeer?.(b.qp, withChunk(null, CHUNK_SENDS, [256, 0, 0, 0, 0]));
  postRecvs(w, 1);
  writeNotice(new Uint32Array(a.mr.memory, a.mr.byteOffset, NOTICE_WORDS), 0, 0, claimed);
  const place = hi * 2 ** 32 + lo + depth * ENTRY_BYTES;
  a.send.write(1, SIGNALED, a.mr.addr, NOTICE_BYTES, a.mr.lkey, place, rkey);
  a.send.send(2, SIGNALED, a.mr.addr, sent, a.mr.lkey);
  post(a);
  expect((await settle(w)).b).toEqual([`recv 100 SUCCESS RECV ${sent} imm null`]);
});
