// qp.execute() and qp.drain() on simulated devices: which caller gets which completion.
import { afterEach, expect, test } from 'vitest';
import { type CompletionQueue, Context, type QueuePair } from '../../src/objects/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';

const open: Context[] = [];
afterEach(() => {
  for (const context of open.splice(0)) context.close();
});

const ALL = { remoteRead: true, remoteWrite: true, remoteAtomic: true };

/** Queue pairs of sim0, each connected to one of sim1; those of a side share one completion queue. */
function setup(count = 1, channel?: null) {
  const fabric = createFabric({ hosts: 2 });
  const ends = ['sim0', 'sim1'].map((name) => {
    const context = new Context(fabric.provider, name);
    open.push(context);
    const pd = context.allocPd();
    const cq = context.createCq({ cqe: 1024, channel });
    const qps = Array.from({ length: count }, () => pd.createQp({ sendCq: cq, cap: { maxSendSge: 4 } }));
    return { context, pd, cq, qps, mr: pd.allocate(1 << 16, { access: ALL }) };
  });
  const [a, b] = ends;
  for (let i = 0; i < count; i++) {
    const [mine, theirs] = [a.qps[i].endpoint(), b.qps[i].endpoint()];
    a.qps[i].connectTo(theirs);
    b.qps[i].connectTo(mine);
  }
  const write = (qp: QueuePair, wrId: number, signaled = true) =>
    qp.post({
      opcode: 'RDMA_WRITE',
      wrId,
      sgList: [{ mr: a.mr, length: 64 }],
      remote: { addr: b.mr.addr, rkey: b.mr.rkey },
      flags: { signaled },
    });
  return { fabric, a, b, write };
}

const pollAll = (context: Context, cq: CompletionQueue): number[] => {
  const wc = context.wcBatch({ capacity: 16 });
  const ids: number[] = [];
  while (cq.poll(wc) > 0) for (let i = 0; i < wc.length; i++) ids.push(wc.wrId(i));
  wc.close();
  return ids;
};

test.each([undefined, null])('execute() resolves with its own completion; channel %s', async (channel) => {
  const { a, b, write } = setup(1, channel);
  const [qp] = a.qps;
  a.mr.bytes.set([1, 2, 3]);
  write(qp, 1);
  const executed = qp.execute({
    opcode: 'RDMA_WRITE',
    wrId: 99,
    sgList: [{ mr: a.mr, length: 3 }],
    remote: { addr: b.mr.addr + 1000, rkey: b.mr.rkey },
  });
  write(qp, 2);
  expect(await executed).toMatchObject({ wrId: 99n, opcode: 'RDMA_WRITE', qpNum: qp.qpNum });
  expect([...b.mr.bytes.subarray(1000, 1003)]).toEqual([1, 2, 3]);
  await a.context.sleep(1e6);
  expect(pollAll(a.context, a.cq)).toEqual([1, 2]);
});

test('concurrent execute() calls do not take completions from cq.drain()', async () => {
  const { a, b, write } = setup(2);
  const [qp, other] = a.qps;
  const others = a.cq.drain(20);
  const executed = Array.from({ length: 20 }, (_, i) => {
    write(other, i);
    return qp.execute({
      opcode: 'RDMA_READ',
      wrId: i,
      sgList: [{ mr: a.mr, length: 8 }],
      remote: { addr: b.mr.addr, rkey: b.mr.rkey },
    });
  });
  expect((await Promise.all(executed)).map(({ wrId }) => wrId)).toEqual(
    Array.from({ length: 20 }, (_, i) => BigInt(i)),
  );
  expect((await others).map(({ wrId }) => Number(wrId))).toEqual(Array.from({ length: 20 }, (_, i) => i));
});

test('execute() rejects for a failed or refused request, and leaves no completion behind', async () => {
  const { a, b } = setup();
  const [qp] = a.qps;
  const sgList = [{ mr: a.mr, length: 8 }];
  await expect(qp.execute({ opcode: 'BIND_MW' })).rejects.toMatchObject({ code: 'ISO_ERR_ARGUMENT' });
  const bad = qp.execute({ opcode: 'RDMA_WRITE', sgList, remote: { addr: b.mr.addr, rkey: b.mr.rkey ^ 1 } });
  const flushed = qp.execute({ opcode: 'RDMA_WRITE', sgList, remote: { addr: b.mr.addr, rkey: b.mr.rkey } });
  await expect(bad).rejects.toMatchObject({ code: 'ISO_ERR_COMPLETION', status: 10 });
  await expect(flushed).rejects.toMatchObject({ code: 'ISO_ERR_COMPLETION', status: 5 });
  expect(pollAll(a.context, a.cq)).toEqual([]);
});

test('closing the queue pair rejects its pending execute() and drain()', async () => {
  const { a, b } = setup();
  const [qp] = a.qps;
  const executed = qp.execute({
    opcode: 'RDMA_WRITE',
    sgList: [{ mr: a.mr, length: 8 }],
    remote: { addr: b.mr.addr, rkey: b.mr.rkey },
  });
  qp.close();
  await expect(executed).rejects.toMatchObject({ code: 'ISO_ERR_HANDLE' });
  const [peer] = b.qps;
  const drained = peer.drain();
  peer.close();
  await expect(drained).rejects.toMatchObject({ code: 'ISO_ERR_HANDLE' });
});

test('drain() returns all completions of one queue pair, and leaves those of the others in order', async () => {
  const { fabric, a, b, write } = setup(2);
  const [qp, other] = a.qps;
  fabric.fault({ linkDown: 'sim1' });
  const ids: number[] = [];
  for (let i = 0; i < 40; i++) {
    write(qp, i, i % 2 === 0);
    write(other, 1000 + i);
    ids.push(i);
  }
  for (let i = 0; i < 5; i++) qp.receive({ wrId: 100 + i, sgList: [{ mr: a.mr, length: 8 }] });
  const done = await qp.drain();
  expect(qp.state).toBe('ERR');
  expect(done.every((wc) => wc.qp === qp && wc.statusText === 'WR_FLUSH_ERR')).toBe(true);
  expect(done.filter((wc) => !wc.isRecv).map((wc) => Number(wc.wrId))).toEqual(ids);
  expect(done.filter((wc) => wc.isRecv).map((wc) => Number(wc.wrId))).toEqual([100, 101, 102, 103, 104]);
  fabric.fault({ linkUp: 'sim1' });
  expect((await a.cq.drain(40)).map((wc) => Number(wc.wrId))).toEqual(
    Array.from({ length: 40 }, (_, i) => 1000 + i),
  );
  expect(pollAll(a.context, a.cq)).toEqual([]);
  expect(await qp.drain()).toEqual([]);
  void b;
});

test('drain() of a full queue also returns successes that were never polled', async () => {
  const { a, write } = setup(1, null);
  const [qp] = a.qps;
  const { maxSendWr, maxRecvWr } = qp.cap;
  write(qp, 7);
  await a.context.sleep(1e6);
  for (let i = 0; i < maxSendWr - 1; i++) write(qp, i);
  for (let i = 0; i < maxRecvWr; i++) qp.receive({ wrId: i, sgList: [{ mr: a.mr, length: 8 }] });
  const done = await qp.drain();
  expect(done).toHaveLength(maxSendWr + maxRecvWr);
  expect(done[0]).toMatchObject({ wrId: 7n, statusText: 'SUCCESS' });
});

test('drain() of an untouched queue pair, and of one in INIT with receives', async () => {
  const { a } = setup();
  const qp = a.pd.createQp({ sendCq: a.cq });
  expect(await qp.drain()).toEqual([]);
  qp.toInit();
  qp.receive({ wrId: 5, sgList: [{ mr: a.mr, length: 8 }] });
  expect(await qp.drain()).toMatchObject([{ wrId: 5n, isRecv: true }]);
  qp.reset();
  expect(qp.state).toBe('RESET');
});

test('a reset discards posted requests and rejects execute() and drain()', async () => {
  const { a } = setup();
  const [qp] = a.qps;
  // The peer has no receive posted, so the SEND cannot complete.
  const executed = qp.execute({ opcode: 'SEND', sgList: [{ mr: a.mr, length: 8 }] });
  qp.reset();
  await expect(executed).rejects.toMatchObject({ code: 'ISO_ERR_STATE' });
  qp.toInit();
  qp.receive({ sgList: [{ mr: a.mr, length: 8 }] });
  const drained = qp.drain();
  qp.reset();
  await expect(drained).rejects.toMatchObject({ code: 'ISO_ERR_STATE' });
});

test('each bind() resolves with the key of its own bind', async () => {
  const { a } = setup();
  const mr = a.pd.allocate(4096, { access: { ...ALL, mwBind: true } });
  const window = a.pd.allocMw({ type: 1 });
  const bind = () => window.bind(a.qps[0], { mr, access: { remoteRead: true } });
  const keys = await Promise.all([bind(), bind(), bind()]);
  expect(new Set(keys).size).toBe(3);
  expect(window.rkey).toBe(keys[2]);
});
