/** Connections carry the messages of two shims without any help from the program. */
import { once } from 'node:events';
import { expect, test } from 'vitest';
import {
  type Connection,
  Context,
  connect,
  listen,
  type MemoryRegion,
  type QueuePair,
} from '../../src/objects/index.ts';
import { createPolicy } from '../../src/policies/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import { BYTES, type CmTransfer, transferOverCm } from './cm-transfer.ts';

const perf = () => [createPolicy('perf', { isolation: 'always' })];

async function transfer(callers: Interceptor[], listeners: Interceptor[], bySelf = false) {
  const { provider } = createFabric({ hosts: 2, seed: 1 });
  const make = (name: string, chain: Interceptor[]) => {
    const context = new Context(compose(provider, chain), name);
    const pd = context.allocPd();
    const cq = context.createCq({ cqe: 64 });
    return { context, pd, cq, mr: pd.allocate(BYTES) };
  };
  const a = make('sim0', callers);
  const b = make('sim1', listeners);
  const seen = bySelf ? byEndpoints(a, b) : await byConnection(a, b);
  new Uint8Array(a.mr.buffer).forEach((_, i, bytes) => {
    bytes[i] = i * 7;
  });
  if (bySelf) seen.b.receive({ sgList: [{ mr: b.mr }] });
  await seen.a.execute({ opcode: 'SEND_WITH_IMM', imm: 5, sgList: [{ mr: a.mr }] });
  const got = await b.cq.next();
  const pieces = a.context.provider.counters?.()[0]?.internal.pieces ?? 0;
  const same = Buffer.from(a.mr.buffer, 0, BYTES).equals(Buffer.from(b.mr.buffer, 0, BYTES));
  a.context.close();
  b.context.close();
  return { pieces, got: { status: got.status, byteLen: got.byteLen, imm: got.imm }, same };
}

type Side = { context: Context; pd: ReturnType<Context['allocPd']>; cq: ReturnType<Context['createCq']> };

async function byConnection(a: Side, b: Side & { mr: MemoryRegion }) {
  const accepted: Connection[] = [];
  // Posted before the listener has sent anything.
  const prepare = (qp: QueuePair) => qp.receive({ sgList: [{ mr: b.mr }] });
  const options = { port: 0, pd: b.pd, sendCq: b.cq, prepare };
  const listener = await listen(b.context, options, (c) => accepted.push(c));
  const connection = await connect(a.context, { port: listener.port, pd: a.pd, sendCq: a.cq });
  if (accepted.length === 0) await once(listener, 'connection');
  return { a: connection.qp, b: accepted[0].qp };
}

function byEndpoints(a: Side, b: Side) {
  const [qpA, qpB] = [a, b].map(({ pd, cq }) => pd.createQp({ sendCq: cq }));
  for (const qp of [qpA, qpB]) qp.toInit();
  const [ofA, ofB] = [qpA.endpoint(), qpB.endpoint()];
  // The rest is the same as over any wire.
  qpA.connectTo(JSON.parse(JSON.stringify(ofB)));
  qpB.connectTo(JSON.parse(JSON.stringify(ofA)));
  return { a: qpA, b: qpB };
}

const whole = { pieces: 0, got: { status: 0, byteLen: BYTES, imm: 5 }, same: true };

test('between two shims a long SEND goes in pieces; with one shim or none it goes whole', async () => {
  const cut = { ...whole, pieces: Math.ceil(BYTES / 16384) };
  expect(await transfer(perf(), perf())).toEqual(cut);
  expect(await transfer(perf(), perf(), true)).toEqual(cut);
  expect(await transfer(perf(), [])).toEqual(whole);
  expect(await transfer([], perf())).toEqual(whole);
  expect(await transfer([], [], true)).toEqual(whole);
});

const padded = (bytes: Uint8Array, room: number) => Buffer.concat([bytes, Buffer.alloc(room - bytes.length)]);
const none: Uint8Array = new Uint8Array(0);
const overCm = (transfer: Omit<CmTransfer, 'provider'>) =>
  transferOverCm({ provider: createFabric({ hosts: 2, seed: 1 }).provider, ...transfer });
const CUT = Math.ceil(BYTES / 16384);
const { got } = whole;

test('rdma_cm carries the messages behind the private data of the programs, which do not notice', async () => {
  const both = { caller: perf(), server: perf() };
  const heard = (request = none, reply = none) => [padded(request, 56), padded(reply, 196)];
  expect(await overCm(both)).toEqual({ pieces: CUT, got, same: true, heard: heard() });
  const [short, long] = [Buffer.from('open sesame'), Buffer.alloc(196, 9)];
  const said = { request: short, reply: short };
  const uncut = { pieces: 0, got, same: true, heard: heard(short, short) };
  expect(await overCm({ ...both, ...said })).toEqual({ ...uncut, pieces: CUT });
  expect(await overCm({ ...both, ...said, server: [] })).toEqual(uncut);
  expect(await overCm({ ...both, ...said, caller: [] })).toEqual(uncut);
  // Without room in the private data, SENDs go whole.
  const full = long.subarray(0, 56);
  expect(await overCm({ ...both, request: full })).toEqual({ ...uncut, heard: heard(full) });
  expect(await overCm({ ...both, reply: long })).toEqual({ ...uncut, heard: heard(none, long) });
  expect(await overCm({ ...both, options: { initiatorDepth: 0 } })).toMatchObject({ pieces: 0, got });
});

test('READs by remote control are agreed on over rdma_cm, too', async () => {
  const byPeer = () => [
    createPolicy('perf', { isolation: 'always', waits: 'fixed', readByRemoteControl: true }),
  ];
  const request = Buffer.from('0123456789abcdef');
  const run = await overCm({ caller: byPeer(), server: byPeer(), request });
  // Pieces of the SEND, and pieces of the READ, which the other side writes.
  expect(run).toMatchObject({ pieces: 2 * CUT, got, same: true });
});
