/** Messages that are striped over queue pairs and their twins: they arrive intact, and complete once and in order. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createShim } from '../../src/shim/shim.ts';
import * as V from '../../src/verbs/index.ts';
import { ALL_ACCESS, fill, post, postRecv } from '../sim/helpers.ts';
import { mixedProgram, runMixed } from './mixed.ts';
import { negotiate } from './negotiate.ts';
import {
  closeEnd,
  type PeerOptions,
  type PeerWorld,
  peerWorld,
  SIGNALED,
  settle,
  toState,
} from './peer-rig.ts';
import { program, runProgram } from './program.ts';
import { simGround } from './sim-ground.ts';
import { Striping } from './striping.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 30);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_125);
const MIB = 1 << 20;
const PIECE = 16_384;

interface Striped extends PeerWorld {
  policy: Striping;
}

/** Two ends with memory of 2 MiB, each with a shim that stripes. */
function striped(o: PeerOptions = {}, policy = new Striping(PIECE)): Striped {
  const bytes = 2 * MIB;
  const both = { ...o, a: { bytes, ...o.a }, b: { bytes, ...o.b } };
  const w = peerWorld([createShim(() => policy)], [createShim(() => new Striping(PIECE))], both);
  return { ...w, policy };
}

type Op = 'write' | 'read';

function add(
  { a, b }: PeerWorld,
  op: Op,
  id: number,
  bytes: number,
  at = 0,
  flags = SIGNALED,
  rkey = b.mr.rkey,
) {
  a.send[op](id, flags, a.mr.addr + at, bytes, a.mr.lkey, b.mr.addr + at, rkey);
}

function expectSame({ a, b }: PeerWorld, bytes: number): void {
  expect(Buffer.compare(a.bytes.subarray(0, bytes), b.bytes.subarray(0, bytes))).toBe(0);
}

/** Fills the memory that the bytes come from. */
function fillSource({ a, b }: PeerWorld, op: Op, bytes: number): void {
  fill((op === 'write' ? a : b).bytes, 0, bytes, 7);
}

function close({ a, b, fabric }: PeerWorld): void {
  for (const end of [a, b]) closeEnd(end);
  expect(fabric.simulation.world.qps.filter((qp) => qp !== undefined)).toEqual([]);
}

describe.each(['write', 'read'] as const)('a %s', (op) => {
  const done = (id: number) => `send ${id} SUCCESS RDMA_${op.toUpperCase()}`;

  test('of 1 MiB over a queue pair and its twin arrives intact, with one completion', async () => {
    const w = striped();
    fillSource(w, op, MIB);
    add(w, op, 1, MIB);
    post(w.a);
    expect((await settle(w)).a).toEqual([done(1)]);
    expectSame(w, MIB);
    const [own, twin] = w.policy.pieces;
    expect(own + twin).toBeGreaterThanOrEqual(MIB / PIECE - 1);
    expect(Math.min(own, twin)).toBeGreaterThan(MIB / PIECE / 4);
    expect(w.policy.most).toBeGreaterThan(1);
    close(w);
  });

  test('over its twin alone arrives intact, with one completion', async () => {
    const w = striped();
    w.policy.twinsOnly = true;
    fillSource(w, op, MIB);
    add(w, op, 1, MIB);
    add(w, op, 2, MIB, MIB, 0);
    post(w.a);
    expect((await settle(w)).a).toEqual([done(1)]);
    expectSame(w, 2 * MIB);
    expect(w.policy.pieces[1]).toBeGreaterThan(2 * (MIB / PIECE - 2));
    close(w);
  });

  test('and those after it complete in order, and those without a signal not at all', async () => {
    const w = striped();
    fillSource(w, op, 2 * MIB);
    const sizes = [200_000, 64, 100_000, 300_000, 16, 50_000];
    let at = 0;
    for (const [id, bytes] of sizes.entries()) {
      add(w, op, id, bytes, at, id % 2 === 0 ? SIGNALED : 0);
      at += bytes;
    }
    add(w, op, 9, 100_000, at);
    post(w.a);
    expect((await settle(w)).a).toEqual([0, 2, 4, 9].map(done));
    expectSame(w, at + 100_000);
    close(w);
  });

  test('whose twin fails is sent again without it, and completes once', async () => {
    for (const ns of [1, 2000, 10_000, 40_000, 80_000]) {
      const w = striped();
      fillSource(w, op, MIB);
      add(w, op, 1, MIB);
      add(w, op, 2, 100, MIB);
      post(w.a);
      await w.fabric.advance(ns);
      const [twin] = w.policy.twins.flat();
      w.fabric.provider.modifyQp(twin.qp, { qpState: V.IBV_QPS_ERR }, V.IBV_QP_STATE);
      expect((await settle(w)).a).toEqual([done(1), done(2)]);
      expectSame(w, MIB);
      expect(twin.connected).toBe(false);
      close(w);
    }
  });

  test('with a wrong key fails once, as on the device, and later ones are flushed', async () => {
    const w = striped();
    add(w, op, 1, MIB, 0, SIGNALED, 0xdead);
    add(w, op, 2, MIB);
    post(w.a);
    expect((await settle(w)).a).toEqual(['send 1 REM_ACCESS_ERR', 'send 2 WR_FLUSH_ERR']);
    close(w);
  });

  test('does nothing through a twin that the queue pair would not allow', async () => {
    const denied = op === 'write' ? V.IBV_ACCESS_REMOTE_WRITE : V.IBV_ACCESS_REMOTE_READ;
    const w = striped({ b: { qpAccess: ALL_ACCESS & ~denied } });
    w.policy.twinsOnly = true;
    add(w, op, 1, MIB);
    post(w.a);
    expect((await settle(w)).a).toEqual(['send 1 REM_INV_REQ_ERR']);
    close(w);
  });

  test.each(['ERR', 'RESET', 'destroyed'])(
    'whose queue pair is %s in flight leaves nothing behind',
    async (how) => {
      for (const ns of [1, 3000, 20_000, 60_000]) {
        const w = striped();
        fillSource(w, op, MIB);
        add(w, op, 1, MIB);
        add(w, op, 2, MIB);
        post(w.a);
        await w.fabric.advance(ns);
        if (how === 'destroyed') {
          close(w);
          continue;
        }
        toState(w.a, how === 'ERR' ? V.IBV_QPS_ERR : V.IBV_QPS_RESET);
        const flushed = ['send 1 WR_FLUSH_ERR', 'send 2 WR_FLUSH_ERR'];
        expect((await settle(w)).a).toEqual(how === 'ERR' ? flushed : []);
        expect(w.policy.twins.flat()[0].connected).toBe(false);
        close(w);
      }
    },
  );
});

test('SENDs are striped into receives of a peer that accepts pieces', async () => {
  const w = striped();
  const { a, b } = w;
  fill(a.bytes, 0, MIB, 3);
  for (const id of [1, 2]) b.recv.recv(id, b.mr.addr + (id - 1) * (MIB / 2), MIB / 2, b.mr.lkey);
  postRecv(b);
  a.send.send(1, SIGNALED, a.mr.addr, MIB / 2, a.mr.lkey);
  a.send.sendImm(2, SIGNALED, a.mr.addr + MIB / 2, MIB / 2, a.mr.lkey, 77);
  post(a);
  const seen = await settle(w);
  expect(seen.a).toEqual(['send 1 SUCCESS SEND', 'send 2 SUCCESS SEND']);
  expect(seen.b).toEqual([
    `recv 1 SUCCESS RECV ${MIB / 2} imm null`,
    `recv 2 SUCCESS RECV ${MIB / 2} imm 77`,
  ]);
  expectSame(w, MIB);
  expect(w.policy.pieces[1]).toBeGreaterThan(10);
  close(w);
});

test.each([300, 5000])('programs see no difference: %i bytes', { timeout: 600_000 }, async (pieceBytes) => {
  const policies: Striping[] = [];
  const striping = () => {
    policies.push(new Striping(pieceBytes, 2));
    return policies[policies.length - 1];
  };
  const chain = () => [negotiate(), createShim(striping)];
  const settings = { numRuns: RUNS, seed: SEED };
  await fc.assert(
    fc.asyncProperty(program, async (p) => {
      const bare = await runProgram(p, [], simGround());
      expect(await runProgram(p, chain(), simGround())).toEqual(bare);
    }),
    settings,
  );
  await fc.assert(
    fc.asyncProperty(mixedProgram(), async (p) => {
      const bare = await runMixed(p, [], simGround());
      expect(await runMixed(p, chain(), simGround())).toEqual(bare);
    }),
    settings,
  );
  const onTwins = policies.reduce((sum, { pieces }) => sum + pieces[1], 0);
  expect(onTwins).toBeGreaterThan(RUNS / 2);
});
