// Two ends whose shims cooperate, on a real device: SENDs in pieces, READs answered with WRITEs by the peer.
import { once } from 'node:events';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Connection, Context, connect, listen } from '../../src/objects/index.ts';
import { createPolicy } from '../../src/policies/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import { readByRemoteControl } from '../../src/shim/peer/remote-read.ts';
import { chains } from '../conformance/chains.ts';
import { BYTES, transferOverCm } from '../conformance/cm-transfer.ts';
import { negotiate } from '../conformance/negotiate.ts';
import { runProgram } from '../conformance/program.ts';
import { device, realGround, realProgram } from './ground.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 4);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_125);
const ROUNDS = 8;

async function transfer(chain: () => Interceptor[]) {
  const ground = realGround();
  const make = (name: string) => {
    const context = new Context(compose(ground.provider, chain()), name);
    const pd = context.allocPd();
    const cq = context.createCq({ cqe: 64 });
    // Receives lie in memory without remote write access.
    const options = { access: { remoteWrite: false, remoteRead: true, remoteAtomic: false } };
    return { context, pd, cq, from: pd.allocate(BYTES), to: pd.allocate(BYTES * ROUNDS, options) };
  };
  const [a, b] = ground.devices.map(make);
  new Uint8Array(a.from.buffer).forEach((_, i, bytes) => {
    bytes[i] = i * 7 + (i >> 8);
  });
  const accepted: Connection[] = [];
  const prepare = (qp: Connection['qp']) => {
    for (let i = 0; i < ROUNDS; i++) {
      qp.receive({ wrId: i, sgList: [{ mr: b.to, offset: i * BYTES, length: BYTES }] });
    }
  };
  const options = { port: 0, pd: b.pd, sendCq: b.cq, prepare };
  const listener = await listen(b.context, options, (c) => accepted.push(c));
  const connection = await connect(a.context, { port: listener.port, pd: a.pd, sendCq: a.cq });
  if (accepted.length === 0) await once(listener, 'connection');
  const lengths = Array.from({ length: ROUNDS }, (_, i) => BYTES - i * 9999);
  for (const length of lengths) {
    await connection.qp.execute({ opcode: 'SEND_WITH_IMM', imm: length, sgList: [{ mr: a.from, length }] });
  }
  const got = await b.cq.drain(ROUNDS);
  const same = lengths.every((length, i) =>
    Buffer.from(b.to.buffer, i * BYTES, length).equals(Buffer.from(a.from.buffer, 0, length)),
  );
  const remote = { addr: b.to.addr, rkey: b.to.rkey };
  await connection.qp.execute({ opcode: 'RDMA_READ', sgList: [{ mr: a.to, length: BYTES }], remote });
  const read = Buffer.from(a.to.buffer, 0, BYTES).equals(Buffer.from(a.from.buffer, 0, BYTES));
  const counted = [a, b].map(({ context }) =>
    (context.provider.counters?.() ?? []).map(({ internal }) => internal.pieces),
  );
  listener.close();
  a.context.close();
  b.context.close();
  return { seen: got.map(({ byteLen, imm }) => [byteLen, imm]), same, read, lengths, counted };
}

describe.skipIf(device === '')('cooperating shims on a real device', () => {
  test('connections carry their protocol; data, lengths and immediates equal those of bare ends', async () => {
    const bare = await transfer(() => []);
    const shimmed = await transfer(() => [
      createPolicy('perf', { isolation: 'always', readByRemoteControl: true }),
    ]);
    for (const run of [bare, shimmed]) {
      expect(run.seen).toEqual(run.lengths.map((length) => [length, length]));
      expect([run.same, run.read]).toEqual([true, true]);
    }
    // Layers: remote-read, perf, the emulation of WAIT.
    const pieces = shimmed.lengths.filter((n) => n > 16384).reduce((sum, n) => sum + Math.ceil(n / 16384), 0);
    expect(shimmed.counted.map((layers) => layers[1])).toEqual([pieces, Math.ceil(BYTES / 16384)]);
  }, 120_000);

  test('rdma_cm connections also carry the protocol', async () => {
    const ground = realGround();
    const chain = () => [createPolicy('perf', { isolation: 'always', readByRemoteControl: true })];
    const ends = { provider: ground.provider, host: 'localhost', caller: chain(), server: chain() };
    const { pieces, got, same } = await transferOverCm(ends);
    expect({ pieces, got, same }).toEqual({
      pieces: 2 * Math.ceil(BYTES / 16384),
      got: { status: 0, byteLen: BYTES, imm: 5 },
      same: true,
    });
  }, 120_000);

  test.each(['arbitrary', 'perf 1024, WAIT emulated'])(
    'a program sees no difference: %s',
    async (name) => {
      await fc.assert(
        fc.asyncProperty(realProgram, async (p) => {
          const bare = await runProgram(p, [], realGround());
          const all = [negotiate(), readByRemoteControl({ minBytes: 2000 }), ...chains[name].chain()];
          expect(await runProgram(p, all, realGround())).toEqual(bare);
        }),
        { numRuns: RUNS, seed: SEED, endOnFailure: true },
      );
    },
    300_000,
  );
});
