// The object layer on simulated devices: every opcode, with its bytes compared.
import { afterEach, expect, test } from 'vitest';
import { type Connection, Context, connect, expectSuccess, listen } from '../../src/objects/index.ts';
import { createPolicy } from '../../src/policies/index.ts';
import { createFabric, type FabricOptions } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import { IBV_SEND_SIGNALED, IBV_WC_REM_ACCESS_ERR, type WcBatch } from '../../src/verbs/index.ts';

const open: Context[] = [];
afterEach(() => {
  for (const context of open.splice(0)) context.close();
});

const ALL = { remoteRead: true, remoteWrite: true, remoteAtomic: true };

async function pair(options: FabricOptions = {}, interceptors: Interceptor[] = []) {
  const fabric = createFabric({ hosts: 2, ...options });
  const provider = compose(fabric.provider, interceptors);
  const ends = ['sim0', 'sim1'].map((name) => {
    const context = new Context(provider, name);
    open.push(context);
    const pd = context.allocPd();
    const cq = context.createCq();
    return { context, pd, cq, mr: pd.allocate(1 << 16, { access: ALL }) };
  });
  const [a, b] = ends;
  const cap = { maxSendSge: 4, maxInlineData: 64 };
  const accepted = new Promise<Connection>((resolve) => {
    void listen(a.context, { port: 7, pd: a.pd, sendCq: a.cq, cap }, resolve);
  });
  const client = await connect(b.context, { port: 7, host: 'sim0', pd: b.pd, sendCq: b.cq, cap });
  const server = await accepted;
  return { fabric, a: { ...a, qp: server.qp, end: server }, b: { ...b, qp: client.qp, end: client } };
}

test('every operation moves its bytes', async () => {
  const { a, b } = await pair();
  const remote = { addr: a.mr.addr, rkey: a.mr.rkey };
  b.mr.bytes.set(Buffer.from('written'), 0);
  b.qp.post({ wrId: 2n ** 64n - 1n, opcode: 'RDMA_WRITE', sgList: [{ mr: b.mr, length: 7 }], remote });
  expect(expectSuccess(await b.cq.next())).toMatchObject({
    wrId: 2n ** 64n - 1n,
    opcode: 'RDMA_WRITE',
    qp: b.qp,
  });
  expect(Buffer.from(a.mr.bytes.subarray(0, 7)).toString()).toBe('written');

  b.qp.post({ opcode: 'RDMA_READ', sgList: [{ mr: b.mr, offset: 100, length: 7 }], remote });
  expect(expectSuccess(await b.cq.next())).toMatchObject({ opcode: 'RDMA_READ', byteLen: 7 });
  expect(Buffer.from(b.mr.bytes.subarray(100, 107)).toString()).toBe('written');

  a.qp.receive({ wrId: 1, sgList: [{ mr: a.mr, offset: 1000, length: 100 }] });
  b.qp.post({ opcode: 'SEND_WITH_IMM', imm: 0xfeedbeef, inlineData: Buffer.from('inline') });
  expect(expectSuccess(await a.cq.next())).toMatchObject({
    wrId: 1n,
    opcode: 'RECV',
    imm: 0xfeedbeef,
    byteLen: 6,
  });
  expect(expectSuccess(await b.cq.next()).opcode).toBe('SEND');
  expect(Buffer.from(a.mr.bytes.subarray(1000, 1006)).toString()).toBe('inline');

  const word = new DataView(a.mr.buffer, 2048, 8);
  word.setBigUint64(0, 40n, true);
  const atomic = {
    sgList: [{ mr: b.mr, offset: 200, length: 8 }],
    remote: { ...remote, addr: a.mr.addr + 2048 },
  };
  b.qp.post({ opcode: 'ATOMIC_FETCH_AND_ADD', ...atomic, add: 2n });
  b.qp.post({ opcode: 'ATOMIC_CMP_AND_SWP', ...atomic, compare: 42n, swap: 7n });
  for (const wc of await b.cq.drain(2)) expectSuccess(wc);
  expect(word.getBigUint64(0, true)).toBe(7n);
  expect(new DataView(b.mr.buffer, 200, 8).getBigUint64(0, true)).toBe(42n);
});

test('requests of several elements, and a batch posted from its middle', async () => {
  const { a, b } = await pair();
  b.mr.bytes.set([1, 2, 3, 4, 5, 6], 0);
  const sgList = [3, 0, 5].map((offset) => ({ mr: b.mr, offset, length: 1 }));
  b.qp.post({ opcode: 'RDMA_WRITE', sgList, remote: { addr: a.mr.addr, rkey: a.mr.rkey } });
  expectSuccess(await b.cq.next());
  expect([...a.mr.bytes.subarray(0, 3)]).toEqual([4, 1, 6]);

  const batch = b.context.sendBatch({ capacity: 8 });
  for (let i = 0; i < 8; i++) {
    batch.write(i, IBV_SEND_SIGNALED, b.mr.addr + i, 1, b.mr.lkey, a.mr.addr + 100 + i, a.mr.rkey);
  }
  expect(b.qp.postSend(batch, 2, 3)).toBe(3);
  expect((await b.cq.drain(3)).map((wc) => wc.wrId)).toEqual([2n, 3n, 4n]);
  expect([...a.mr.bytes.subarray(100, 108)]).toEqual([0, 0, 3, 4, 5, 0, 0, 0]);
});

test('polling in a loop without an await makes progress', async () => {
  const { a, b } = await pair();
  const wc: WcBatch = b.context.wcBatch({ capacity: 16 });
  for (let i = 0; i < 100; i++) {
    b.qp.post({
      opcode: 'RDMA_WRITE',
      sgList: [{ mr: b.mr, length: 64 }],
      remote: { addr: a.mr.addr, rkey: a.mr.rkey },
    });
    while (b.cq.poll(wc) === 0);
  }
  expect(b.context.nowNs()).toBeGreaterThan(0);
});

test('completions fetched by a wait survive a poll with a bad batch or count', async () => {
  const { a, b } = await pair();
  const send = b.context.sendBatch({ capacity: 10 });
  for (let i = 0; i < 10; i++) {
    send.write(i, IBV_SEND_SIGNALED, b.mr.addr, 8, b.mr.lkey, a.mr.addr, a.mr.rkey);
  }
  b.qp.postSend(send);
  await b.context.sleep(100_000);
  expect((await b.cq.next()).wrId).toBe(0n);
  const wc = b.context.wcBatch({ capacity: 4 });
  const closed = b.context.wcBatch({ capacity: 4 });
  closed.close();
  for (const max of [100, -1, Number.NaN, 2.5]) {
    expect(() => b.cq.poll(wc, max)).toThrow(expect.objectContaining({ code: 'ISO_ERR_ARGUMENT' }));
  }
  expect(() => b.cq.poll(closed)).toThrow(expect.objectContaining({ code: 'ISO_ERR_HANDLE' }));
  const ids: number[] = [];
  while (b.cq.poll(wc) > 0) for (let i = 0; i < wc.length; i++) ids.push(wc.wrId(i));
  expect(ids).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
});

test('a refused access fails the request and flushes those behind it', async () => {
  const { a, b } = await pair();
  const sgList = [{ mr: b.mr, length: 8 }];
  b.qp.post({ wrId: 1, opcode: 'RDMA_WRITE', sgList, remote: { addr: a.mr.addr, rkey: a.mr.rkey ^ 1 } });
  b.qp.post({ wrId: 2, opcode: 'RDMA_WRITE', sgList, remote: { addr: a.mr.addr, rkey: a.mr.rkey } });
  const [first, second] = await b.cq.drain(2);
  expect(first).toMatchObject({ wrId: 1n, status: IBV_WC_REM_ACCESS_ERR });
  expect(second).toMatchObject({ wrId: 2n, statusText: 'WR_FLUSH_ERR', isRecv: false });
  expect(b.qp.state).toBe('ERR');
});

test('when a host dies, its waiting receiver is flushed and notified', async () => {
  const { fabric, a, b } = await pair();
  a.qp.receive({ wrId: 77, sgList: [{ mr: a.mr, length: 8 }] });
  const waiting = a.cq.next();
  const closed = new Promise<Error | undefined>((resolve) => a.end.on('close', resolve));
  fabric.fault({ kill: 'sim1' });
  expect(await waiting).toMatchObject({ wrId: 77n, statusText: 'WR_FLUSH_ERR', isRecv: true });
  expect((await closed)?.message).toContain('sim1');
  void b;
});

test('a policy sees every posted batch, with and without send rings', async () => {
  const { a, b } = await pair({}, [createPolicy('perf', { isolation: 'always' })]);
  const batch = b.context.sendBatch({ capacity: 1 });
  for (let round = 0; round < 3; round++) {
    for (let i = 0; i < 4; i++) {
      const at = b.mr.addr;
      batch.clear().write(i, IBV_SEND_SIGNALED, at, 1 << 16, b.mr.lkey, a.mr.addr, a.mr.rkey);
      b.qp.postSend(batch);
    }
    const done = await b.cq.drain(4, { deadlineMs: 2000 });
    expect(done.map((wc) => [wc.wrId, wc.statusText])).toEqual([0n, 1n, 2n, 3n].map((id) => [id, 'SUCCESS']));
  }
});

test('GIDs: the RoCE v2 one of the IPv4 address is preferred', async () => {
  const { a } = await pair();
  expect(a.context.chooseGid()).toMatchObject({ index: 1, type: 'RoCE v2', gid: '::ffff:10.0.0.1' });
  expect(() => a.context.chooseGid(1, 99)).toThrow('in use');
});
