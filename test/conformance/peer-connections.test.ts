/** Connections carry what two shims tell each other; a program asks for nothing. */
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

const BYTES = 100_000;
const perf = () => [createPolicy('perf')];

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
  // Posted before the listener has said anything.
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
  // As over any wire.
  qpA.connectTo(JSON.parse(JSON.stringify(ofB)));
  qpB.connectTo(JSON.parse(JSON.stringify(ofA)));
  return { a: qpA, b: qpB };
}

const whole = { pieces: 0, got: { status: 0, byteLen: BYTES, imm: 5 }, same: true };

test('between two shims a long SEND goes in pieces; with one, or none, it goes whole', async () => {
  const cut = { ...whole, pieces: Math.ceil(BYTES / 16384) };
  expect(await transfer(perf(), perf())).toEqual(cut);
  expect(await transfer(perf(), perf(), true)).toEqual(cut);
  expect(await transfer(perf(), [])).toEqual(whole);
  expect(await transfer([], perf())).toEqual(whole);
  expect(await transfer([], [], true)).toEqual(whole);
});
