// How objects translate their arguments, on simulated devices: addresses, access, queues and closing.
import { inspect } from 'node:util';
import { afterEach, expect, test } from 'vitest';
import { accessBits } from '../../src/objects/access.ts';
import { Context, type QueuePair, type SendRequest } from '../../src/objects/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import * as V from '../../src/verbs/index.ts';

const open: Context[] = [];
afterEach(() => {
  for (const context of open.splice(0)) context.close();
});

function setup(name = 'sim0', fabric = createFabric({ hosts: 2 })) {
  const context = new Context(fabric.provider, name);
  open.push(context);
  const pd = context.allocPd();
  const cq = context.createCq();
  const mr = pd.allocate(4096, { access: { remoteRead: true, remoteWrite: true, mwBind: true } });
  return { fabric, context, pd, cq, mr };
}

const refusal = (code: V.ErrorCode, message = '') =>
  expect.objectContaining({ code, message: expect.stringContaining(message) });

/** 40 bytes whose last 20 are an IPv4 header, as RoCE v2 leaves them. */
function ipv4Grh(source: number[], destination: number[], junk = 0): Uint8Array {
  const bytes = new Uint8Array(40).fill(junk);
  bytes.set([0x45, 0x12, 0, 60, 0, 0, 0x40, 0, 63, 17, 0, 0, ...source, ...destination], 20);
  let sum = 0;
  for (let i = 20; i < 40; i += 2) sum += (bytes[i] << 8) | bytes[i + 1];
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  bytes.set([(~sum >> 8) & 0xff, ~sum & 0xff], 30);
  return bytes;
}

test.each([0, 0x60, 0xff])('a GRH of RoCE v2 over IPv4, with bytes of %i before it', (junk) => {
  expect(V.parseGrh(ipv4Grh([10, 0, 0, 2], [10, 0, 0, 1], junk))).toEqual({
    type: 'RoCE v2',
    sgid: '::ffff:10.0.0.2',
    dgid: '::ffff:10.0.0.1',
    trafficClass: 0x12,
    flowLabel: 0,
    hopLimit: 63,
  });
});

test('a GRH of IPv6, and of InfiniBand; no GRH', () => {
  const bytes = new Uint8Array(40);
  bytes.set([0x61, 0x2a, 0xbc, 0xde, 0, 0, 17, 9]);
  bytes.set(V.gidToBytes('fe80::2'), 8);
  bytes.set(V.gidToBytes('fe80::1'), 24);
  const grh = { sgid: 'fe80::2', dgid: 'fe80::1', trafficClass: 0x12, flowLabel: 0xabcde, hopLimit: 9 };
  expect(V.parseGrh(bytes)).toEqual({ type: 'RoCE v2', ...grh });
  bytes[6] = 0x1b;
  expect(V.parseGrh(bytes)).toEqual({ type: 'IB', ...grh });
  expect(() => V.parseGrh(new Uint8Array(40))).toThrow(refusal('ISO_ERR_ARGUMENT', 'not a GRH'));
  expect(() => V.parseGrh(new Uint8Array(39))).toThrow(refusal('ISO_ERR_ARGUMENT', '40 bytes'));
});

test('an address handle for the reply: by GID and its index, or by LID without a GRH; not from another context', () => {
  const { pd } = setup();
  const from = { flags: V.IBV_WC_GRH, slid: 0, sl: 3, dlidPathBits: 0 };
  expect(pd.createAhFrom(from, ipv4Grh([10, 0, 0, 2], [10, 0, 0, 1])).attr).toMatchObject({
    dgid: '::ffff:10.0.0.2',
    sgidIndex: 1,
    sl: 3,
    hopLimit: 63,
    portNum: 1,
  });
  expect(pd.createAhFrom(from, ipv4Grh([10, 0, 0, 2], [239, 1, 1, 1])).attr.sgidIndex).toBe(1);
  expect(() => pd.createAhFrom(from, ipv4Grh([10, 0, 0, 2], [10, 9, 9, 9]))).toThrow('10.9.9.9');
  expect(() => pd.createAhFrom(from, new Uint8Array(10))).toThrow(refusal('ISO_ERR_ARGUMENT', '40 bytes'));
});

test('access flags by name', () => {
  expect(accessBits({ mwBind: true, zeroBased: true })).toBe(
    V.IBV_ACCESS_LOCAL_WRITE | V.IBV_ACCESS_MW_BIND | V.IBV_ACCESS_ZERO_BASED,
  );
  expect(accessBits({ onDemand: true, hugetlb: true, relaxedOrdering: true, localWrite: false })).toBe(
    V.IBV_ACCESS_ON_DEMAND | V.IBV_ACCESS_HUGETLB | V.IBV_ACCESS_RELAXED_ORDERING,
  );
  expect(() => accessBits({ remote: true } as never)).toThrow(
    refusal('ISO_ERR_ARGUMENT', "unknown access right 'remote'"),
  );
});

test("rereg() changes a region's memory, domain and access", () => {
  const { context, pd } = setup();
  const mr = pd.register(new SharedArrayBuffer(64));
  const memory = new SharedArrayBuffer(256);
  mr.rereg({ memory, byteOffset: 64, lengthBytes: 100 });
  expect([mr.lengthBytes, mr.bytes.byteLength, mr.buffer === memory]).toEqual([100, 100, true]);
  const other = context.allocPd();
  mr.rereg({ pd: other, access: { remoteRead: true } });
  expect(mr.pd).toBe(other);
  expect(() => other.close()).toThrow(refusal('ISO_ERR_BUSY', mr.label));
  expect(() => mr.rereg({ memory: new ArrayBuffer(0) })).toThrow(refusal('ISO_ERR_MEMORY'));
  expect(() => mr.rereg({ pd: 7 as never })).toThrow(refusal('ISO_ERR_HANDLE', 'pd must be'));
  mr.close();
  other.close();
  expect(() => pd.registerDmabuf(3, { lengthBytes: 4096 })).toThrow(refusal('ISO_ERR_UNSUPPORTED'));
});

test('completion queues: resizing, moderation, timestamps', async () => {
  const { context, pd, cq, mr } = setup();
  expect(cq.resize(1000)).toBeGreaterThanOrEqual(1000);
  expect(cq.cqe).toBeGreaterThanOrEqual(1000);
  cq.moderate({ count: 4, periodUs: 100 });
  const stamped = context.createCq({ timestamps: true, wallclock: true });
  const qp = pd.createQp({ sendCq: stamped, recvCq: cq });
  qp.connectTo(qp.endpoint());
  const remote = { addr: mr.addr + 64, rkey: mr.rkey };
  const done = await qp.execute({ opcode: 'RDMA_WRITE', sgList: [{ mr, length: 8 }], remote });
  expect(typeof done.ticks).toBe('bigint');
  expect(Number(done.ticks)).toBeGreaterThan(0);
  expect(typeof done.wallclockNs).toBe('bigint');
  qp.rateLimit({ rateLimitKbps: 0 });
  qp.receive({});
  expect(await qp.drain()).toMatchObject([{ ticks: null, wallclockNs: null }]);
  expect(context.pkeys()).toEqual([{ index: 0, pkey: 0xffff }]);
  expect(context.queryDeviceEx().cqModeration.maxCount).toBeGreaterThan(0);
  expect(context.queryRtValues().ticks).toBeGreaterThan(0n);
  expect(qp.queryDataInOrder('RDMA_WRITE')).toBe(true);
});

test('a request with a wrong, closed or missing object is refused', () => {
  const fabric = createFabric({ hosts: 2 });
  const [here, there] = [setup('sim0', fabric), setup('sim1', fabric)];
  const qp = here.pd.createQp({ sendCq: here.cq, type: 'UD' });
  qp.start();
  const ah = there.pd.createAhTo(qp.endpoint());
  const closed = here.pd.createAhTo(qp.endpoint());
  closed.close();
  const window = here.pd.allocMw();
  const wrong: [SendRequest, V.ErrorCode, string][] = [
    [{ opcode: 'SEND', to: { ah, qpNum: 1 } }, 'ISO_ERR_HANDLE', 'a different context'],
    [{ opcode: 'SEND', to: { ah: closed, qpNum: 1 } }, 'ISO_ERR_HANDLE', 'is closed'],
    [{ opcode: 'SEND', to: { ah: 5 as never, qpNum: 1 } }, 'ISO_ERR_HANDLE', 'to.ah must be'],
    [{ opcode: 'SEND' }, 'ISO_ERR_ARGUMENT', 'requires to: { ah, qpNum }'],
    [{ opcode: 'LOCAL_INV' }, 'ISO_ERR_ARGUMENT', 'invalidate'],
    [{ opcode: 'BIND_MW' }, 'ISO_ERR_ARGUMENT', 'bind'],
    [{ opcode: 'BIND_MW', bind: { window, mr: there.mr, access: 0 } }, 'ISO_ERR_HANDLE', 'bind.mr'],
    [{ opcode: 'JUMP' as never }, 'ISO_ERR_ARGUMENT', 'JUMP'],
  ];
  for (const [request, code, message] of wrong)
    expect(() => qp.post(request)).toThrow(refusal(code, message));
  expect(() => here.pd.createSrq({ cq: here.cq })).toThrow(refusal('ISO_ERR_ARGUMENT', 'xrcd'));
  expect(() => here.pd.createQp({ type: 'XRC_RECV' } as never)).toThrow(refusal('ISO_ERR_ARGUMENT'));
  expect(() => here.pd.allocMw({ type: 3 as never })).toThrow(refusal('ISO_ERR_ARGUMENT', '1 or 2'));
  expect(() => here.pd.createQp({ sendCq: here.cq, srq: {} as never })).toThrow(
    refusal('ISO_ERR_HANDLE', 'srq'),
  );
});

test('missing fields are refused, and never taken from the previous request', () => {
  const { pd, cq, mr } = setup();
  const { addr, rkey } = mr;
  const sgList = [{ mr, length: 8 }];
  const rc = pd.createQp({ sendCq: cq });
  rc.connectTo(rc.endpoint());
  rc.post({ opcode: 'RDMA_WRITE_WITH_IMM', sgList, remote: { addr, rkey }, imm: 7 });
  const ud = pd.createQp({ sendCq: cq, type: 'UD' });
  ud.start();
  ud.post({ opcode: 'SEND', sgList, to: { ah: pd.createAhTo(ud.endpoint()), qpNum: ud.qpNum } });
  const wrong: [QueuePair, object, string][] = [
    [rc, { opcode: 'RDMA_WRITE', sgList }, 'requires remote: { addr, rkey }'],
    [rc, { opcode: 'ATOMIC_FETCH_AND_ADD', sgList, add: 1n }, 'requires remote'],
    [rc, { opcode: 'SEND_WITH_IMM', sgList }, 'requires imm'],
    [rc, { opcode: 'RDMA_WRITE_WITH_IMM', sgList, remote: { addr, rkey } }, 'requires imm'],
    [rc, { opcode: 'SEND', sgList, wrId: 'a' }, "got 'a'"],
    [rc, { opcode: 'SEND', sg_list: sgList }, "'sg_list'"],
    [rc, { opcode: 'SEND', sgList: [{ mr, addr }] }, "sgList[0]: no option 'addr'"],
    [rc, { opcode: 'SEND', sgList, flags: { signalled: false } }, "'signalled'"],
    [ud, { opcode: 'SEND', sgList }, 'requires to: { ah, qpNum }'],
  ];
  for (const [qp, request, message] of wrong)
    expect(() => qp.post(request as SendRequest)).toThrow(refusal('ISO_ERR_ARGUMENT', message));
});

test('unknown options are refused', () => {
  const { context, pd, cq } = setup();
  const qp = pd.createQp({ sendCq: cq });
  const wrong: [() => unknown, string][] = [
    [() => context.createCq(16 as never), 'got 16'],
    [() => context.createCq({ cqes: 16 } as never), "'cqes'"],
    [() => context.sendBatch(undefined as never), 'sendBatch'],
    [() => context.wcBatch(4 as never), 'wcBatch'],
    [() => pd.createQp({ sendCq: cq, cap: { maxSendWR: 1 } as never }), "'maxSendWR'"],
    [() => pd.createQp({ sendCq: cq, sigAll: true } as never), "'sigAll'"],
    [() => pd.createSrq({ maxwr: 1 } as never), "'maxwr'"],
    [() => qp.modify({ state: 'RTS' } as never), "'state'"],
    [() => createFabric({ host: 3 } as never), "'host'"],
    [() => pd.createQp({ sendCq: cq, type: 'UD' }).connectTo(qp.endpoint()), 'use start()'],
    [() => pd.allocate('4096' as never), "lengthBytes must be a positive integer, got '4096'"],
    [() => pd.createSrq().postRecv(null as never), 'postRecv: the batch must be a RecvBatch'],
    [() => cq.poll(undefined as never), 'poll: the batch must be a WcBatch'],
  ];
  for (const [call, message] of wrong) expect(call).toThrow(refusal('ISO_ERR_ARGUMENT', message));
});

test('console.log() shows an object on one line', () => {
  const { context, mr } = setup();
  expect(inspect({ mr })).toBe(`{ mr: MemoryRegion { ${mr.label} } }`);
  context.close();
  expect(inspect(context)).toBe('Context { context of sim0, closed }');
});

test('parents report these children as busy, and the context closes them in order', () => {
  const { context, pd, cq, mr } = setup();
  const xrcd = context.openXrcd();
  const srq = pd.createSrq({ xrcd, cq });
  const receiver = xrcd.createQp();
  const shared = pd.createSrq();
  const qp = pd.createQp({ sendCq: cq, srq: shared });
  const group = pd.createQp({ sendCq: cq, type: 'UD' });
  group.start();
  group.attachMcast('::ffff:239.1.1.1');
  // Attached once, in either spelling.
  group.attachMcast('::ffff:239.1.1.2');
  group.attachMcast('::FFFF:ef01:102');
  group.detachMcast('::ffff:239.1.1.1');
  const rest = [pd.createAhTo(group.endpoint()), pd.allocMw(), mr];
  expect(() => xrcd.close()).toThrow(refusal('ISO_ERR_BUSY', srq.label));
  expect(() => xrcd.close()).toThrow(receiver.label);
  expect(() => shared.close()).toThrow(refusal('ISO_ERR_BUSY', qp.label));
  expect(() => pd.close()).toThrow(refusal('ISO_ERR_BUSY', 'memory window'));
  context.close();
  for (const object of [xrcd, srq, receiver, shared, qp, group, ...rest]) expect(object.closed).toBe(true);
  expect(() => srq.receive({})).toThrow(refusal('ISO_ERR_HANDLE', 'is closed'));
  expect(() => shared.query()).toThrow(refusal('ISO_ERR_HANDLE', shared.label));
});
