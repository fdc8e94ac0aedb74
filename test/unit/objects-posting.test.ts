// Posting: a partly accepted post becomes an error with the request and the reason; request objects are packed like
// batches.
import { expect, test } from 'vitest';
import { Context, type SendRequest } from '../../src/objects/index.ts';
import * as V from '../../src/verbs/index.ts';
import { createFake } from './objects-fake.ts';

function setup() {
  const fake = createFake();
  let slot: number[] = [];
  const provider: V.Provider = {
    ...fake.provider,
    createWrRing(capacity, sges, inlineBytes) {
      const info = fake.provider.createWrRing(capacity, 2, 0);
      const extBytes = V.extBytesFor(sges, inlineBytes);
      const memory = new ArrayBuffer(V.ringBytes(capacity, extBytes));
      rings.set(info.handle, new Uint32Array(memory));
      return { ...info, memory, extBytes };
    },
    postSend(qp, ring, start, count) {
      const words = rings.get(ring) as Uint32Array;
      slot = [...words.subarray(V.slotAt(start), V.slotAt(start + 1))];
      const taken = fake.provider.postSend(qp, ring, start, count);
      words[0] = fake.errno;
      words[1] = fake.reason;
      return taken;
    },
  };
  const rings = new Map<number, Uint32Array>();
  const context = new Context(provider, 'fake0');
  const pd = context.allocPd();
  const cq = context.createCq();
  const qp = pd.createQp({ sendCq: cq, cap: { maxSendSge: 4, maxInlineData: 64 } });
  const mr = pd.allocate(4096);
  return { fake, context, pd, qp, mr, rings, slot: () => slot };
}

test("the error of a full queue has the request's index and the number posted", () => {
  const { fake, context, qp, mr } = setup();
  const batch = context.sendBatch({ capacity: 8 });
  for (let i = 0; i < 8; i++) batch.send(i, 0, mr.addr, 8, mr.lkey);
  fake.room = 2;
  try {
    qp.postSend(batch, 3);
    expect.unreachable();
  } catch (error) {
    expect(error).toBeInstanceOf(V.QueueFullError);
    expect(error).toMatchObject({
      code: 'ISO_ERR_QUEUE_FULL',
      verb: 'postSend',
      index: 5,
      posted: 2,
      errno: 12,
    });
    expect((error as Error).message).toContain('the queue is full');
    expect((error as Error).message).toContain('ENOMEM');
  }
});

test('other reasons are invalid work requests', () => {
  const { fake, qp, mr } = setup();
  Object.assign(fake, { room: 0, errno: 22, reason: V.REASON_STATE });
  expect(() => qp.post({ opcode: 'SEND', sgList: [{ mr }] })).toThrow(V.InvalidWorkRequestError);
  expect(() => qp.post({ opcode: 'SEND', sgList: [{ mr }] })).toThrow('EINVAL');
  expect(() => qp.post({ opcode: 'SEND', sgList: [{ mr }] })).toThrow(
    'a state that does not allow this request: it is in RESET; call connectTo(), or start() for datagrams, first',
  );
});

test('start and count must lie inside the batch', () => {
  const { context, qp } = setup();
  const batch = context.sendBatch({ capacity: 4 }).send(0, 0, 0, 0, 0);
  expect(() => qp.postSend(batch, 0, 2)).toThrow(V.InvalidArgumentError);
  expect(() => qp.postSend(batch, -1, 1)).toThrow(V.InvalidArgumentError);
  expect(() => qp.postRecv(context.recvBatch({ capacity: 1 }), 2)).toThrow(V.InvalidArgumentError);
  expect(qp.postSend(batch)).toBe(1);
  expect(qp.postSend(batch.clear())).toBe(0);
});

test('each opcode is packed with its operands', () => {
  const { qp, mr, slot } = setup();
  const remote = { addr: 0x1234_5678_9abcn, rkey: 77 };
  const common = { sgList: [{ mr, offset: 16, length: 8 }], remote };
  const requests: [SendRequest, number][] = [
    [{ opcode: 'SEND', sgList: common.sgList }, V.IBV_WR_SEND],
    [{ opcode: 'SEND_WITH_IMM', sgList: common.sgList, imm: 0xdeadbeef }, V.IBV_WR_SEND_WITH_IMM],
    [{ opcode: 'RDMA_WRITE', ...common }, V.IBV_WR_RDMA_WRITE],
    [{ opcode: 'RDMA_WRITE_WITH_IMM', ...common, imm: 3 }, V.IBV_WR_RDMA_WRITE_WITH_IMM],
    [{ opcode: 'RDMA_READ', ...common }, V.IBV_WR_RDMA_READ],
    [{ opcode: 'ATOMIC_FETCH_AND_ADD', ...common, add: 2n ** 40n + 1n }, V.IBV_WR_ATOMIC_FETCH_AND_ADD],
    [{ opcode: 'ATOMIC_CMP_AND_SWP', ...common, compare: -1n, swap: 5n }, V.IBV_WR_ATOMIC_CMP_AND_SWP],
  ];
  for (const [request, opcode] of requests) {
    qp.post({ wrId: 2n ** 63n + 5n, ...request });
    const words = slot();
    expect([words[V.WR_ID_LO], words[V.WR_ID_HI]]).toEqual([5, 0x8000_0000]);
    expect(words[V.WR_OP]).toBe(opcode | (V.IBV_SEND_SIGNALED << 8) | (1 << 16));
    expect(words[V.WR_SGE0] + words[V.WR_SGE0 + 1] * 2 ** 32).toBe(mr.addr + 16);
    expect(words[V.WR_SGE0 + V.SGE_LENGTH]).toBe(8);
    expect(words[V.WR_SGE0 + V.SGE_LKEY]).toBe(mr.lkey);
    if (request.remote) expect(words.slice(4, 7)).toEqual([0x5678_9abc, 0x1234, 77]);
    if (request.imm !== undefined) expect(words[V.WR_IMM]).toBe(request.imm);
  }
  expect(slot().slice(V.WR_COMPARE_LO)).toEqual([0xffffffff, 0xffffffff, 5, 0]);
});

test('flags, several elements, and inline data gathered from regions', () => {
  const { qp, mr, slot, rings } = setup();
  const sgList = [0, 1, 2].map((i) => ({ mr, offset: i * 100, length: 4 }));
  qp.post({ opcode: 'SEND', sgList, flags: { signaled: false, fence: true, solicited: true } });
  expect(slot()[V.WR_OP]).toBe(V.IBV_WR_SEND | ((V.IBV_SEND_FENCE | V.IBV_SEND_SOLICITED) << 8) | (3 << 16));
  mr.bytes.set([1, 2, 3, 4], 0);
  mr.bytes.set([5, 6, 7, 8], 100);
  qp.post({ opcode: 'SEND', sgList: sgList.slice(0, 2), flags: { inline: true } });
  expect(slot()[V.WR_INLINE_LENGTH]).toBe(8);
  const words = [...rings.values()].at(-1) as Uint32Array;
  expect([...new Uint8Array(words.buffer, V.extAt(0, 1, 64) * 4, 8)]).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  expect(() => qp.post({ opcode: 'SEND', inlineData: new Uint8Array(65) })).toThrow(V.InvalidArgumentError);
});

test('requests that cannot be packed are refused before anything is posted', () => {
  const { fake, qp, mr } = setup();
  fake.calls.length = 0;
  const bad: unknown[] = [
    { opcode: 'RDMA_SMILE' },
    { opcode: 'SEND', sgList: [{ mr, offset: 4090, length: 10 }] },
    { opcode: 'SEND', sgList: [{ mr, offset: -1 }] },
    { opcode: 'SEND', wrId: 1.5 },
    { opcode: 'RDMA_READ', sgList: [{ mr }], remote: { addr: 2n ** 60n, rkey: 1 } },
    { opcode: 'ATOMIC_FETCH_AND_ADD', sgList: [{ mr, length: 8 }] },
    { opcode: 'ATOMIC_CMP_AND_SWP', sgList: [], compare: 1n, swap: 1n },
    { opcode: 'SEND', sgList: Array(5).fill({ mr, length: 1 }) },
  ];
  for (const request of bad) expect(() => qp.post(request as SendRequest)).toThrow(V.InvalidArgumentError);
  expect(fake.calls).not.toContain('postSend');
});

test('receives are packed, and may have no elements', () => {
  const { fake, qp, mr } = setup();
  qp.receive({ wrId: 1n, sgList: [{ mr, offset: 8 }] });
  qp.receive({});
  expect(fake.calls.filter((call) => call === 'postRecv')).toHaveLength(2);
  fake.room = 0;
  expect(() => qp.receive({})).toThrow(V.IsoverbsError);
});

test('connectTo walks INIT, RTR, RTS with the preferred GID', () => {
  const { fake, qp } = setup();
  fake.calls.length = 0;
  expect(qp.state).toBe('RESET');
  const own = qp.endpoint();
  expect(own).toMatchObject({ gid: '::ffff:10.0.0.1', lid: 0, qpNum: qp.qpNum, psn: qp.psn, mtu: 3 });
  qp.connectTo({ qpNum: 5, psn: 6, gid: '::ffff:10.0.0.2', lid: 0, mtu: 2 });
  expect(qp.state).toBe('RTS');
  expect(qp.query().attr).toMatchObject({
    destQpNum: 5,
    rqPsn: 6,
    sqPsn: qp.psn,
    pathMtu: 2,
    ah: { dgid: '::ffff:10.0.0.2', sgidIndex: 1 },
  });
  expect(() => qp.endpoint({ gidIndex: 3 })).toThrow('in use: 0, 1');
});

test('arguments that only JavaScript lets through are refused by name', () => {
  const { context, qp, mr } = setup();
  const sends = context.sendBatch({ capacity: 4 });
  const receives = context.recvBatch({ capacity: 4 }).recv(0, mr.addr, 4, mr.lkey);
  const { addr, lkey } = mr;
  const calls: [() => unknown, string][] = [
    [() => qp.postSend(undefined as never), 'postSend: the batch must be a SendBatch'],
    [() => qp.postSend(null as never, 0, 1), 'got null'],
    [() => qp.postSend({ length: 1 } as never), 'got an object'],
    [() => qp.postSend(receives as never), 'got a RecvBatch'],
    [() => qp.postRecv(sends as never), 'postRecv: the batch must be a RecvBatch'],
    [() => qp.sendCq.poll(receives as never), 'poll: the batch must be a WcBatch'],
    [() => qp.sendCq.poll(null as never, 1), 'got null'],
    [() => qp.post({ opcode: 'SEND', sgList: { mr } as never }), 'sgList must be an array'],
    [() => qp.receive({ sgList: { mr } as never }), 'sgList must be an array'],
    [
      () => sends.clear().write(0, 0, 1n as never, 4, lkey, 0, 0),
      'addr must be a number, got 1n; use Number',
    ],
    [() => sends.clear().write(0, 0, addr, 4, lkey, 1n as never, 0), 'remoteAddr must be a number, got 1n'],
    [() => sends.clear().send(1n as never, 0, addr, 4, lkey), 'or wrId(index, lo, hi) for all 64 bits'],
    [
      () =>
        sends
          .clear()
          .send(0, 0, 0, 0, 0)
          .sge(0, undefined as never, 4, lkey),
      'got undefined',
    ],
    [() => sends.clear().inline(0, 2, 0, 'hello' as never), "inline: data must be a Uint8Array, got 'hello'"],
    [() => sends.clear().fetchAdd(0, 0, addr, lkey, addr, 7, 1 as never), 'add must be a BigInt'],
  ];
  for (const [call, message] of calls) {
    expect(call).toThrow(V.InvalidArgumentError);
    expect(call).toThrow(message);
  }
  // Nothing is left of a request that was refused.
  expect(() => sends.clear().write(0, 0, addr, 4, lkey, 1n as never, 0)).toThrow(V.InvalidArgumentError);
  expect(sends.length).toBe(0);
});
