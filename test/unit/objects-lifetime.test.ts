// Objects that are open, closed, busy or foreign: what they answer, and the order in which a context closes them.
import { expect, test } from 'vitest';
import { Context, ProtectionDomain, QueuePair } from '../../src/objects/index.ts';
import { BusyError, InvalidHandleError, MemoryError } from '../../src/verbs/index.ts';
import { createFake } from './objects-fake.ts';

/** Constructors with the signatures of ES2024. */
type Flexible<T> = new (length: number, options: { maxByteLength: number }) => T;

function setup(fake = createFake()) {
  const context = new Context(fake.provider, 'fake0');
  const pd = context.allocPd();
  const cq = context.createCq();
  const qp = pd.createQp({ sendCq: cq });
  const mr = pd.allocate(4096);
  return { fake, context, pd, cq, qp, mr };
}

test('context.close() closes queue pairs, queues, channels, regions, domains, rings and the device', () => {
  const { fake, context } = setup();
  context.sendBatch({ capacity: 4 });
  fake.calls.length = 0;
  context.close();
  context.close();
  expect(fake.calls).toEqual([
    'destroyQp',
    'destroyCq',
    'destroyCompChannel',
    'deregMr',
    'deallocPd',
    'destroyRing',
    'closeDevice',
  ]);
});

test('every close() may be called twice, and Symbol.dispose is close()', () => {
  const { fake, context, qp } = setup();
  qp[Symbol.dispose]();
  qp.close();
  expect(fake.calls.filter((call) => call === 'destroyQp')).toHaveLength(1);
  const batch = context.wcBatch({ capacity: 1 });
  batch.close();
  batch.close();
  context.close();
  expect(fake.calls.filter((call) => call === 'destroyRing')).toHaveLength(1);
});

test('close() of a parent with live children is refused, and the error names them', () => {
  const { pd, cq, qp, mr } = setup();
  expect(() => pd.close()).toThrow(BusyError);
  expect(() => pd.close()).toThrow(`${qp.label}, ${mr.label}`);
  expect(() => cq.close()).toThrow(`completion queue 1 of fake0 is still used by ${qp.label}`);
  expect(pd.closed).toBe(false);
  qp.close();
  cq.close();
  mr.close();
  pd.close();
  expect(pd.closed).toBe(true);
});

test('errors of a closed object name it', async () => {
  const { context, pd, cq, qp, mr } = setup();
  const batch = context.sendBatch({ capacity: 1 }).send(0, 0, mr.addr, 8, mr.lkey);
  const wc = context.wcBatch({ capacity: 1 });
  const recv = context.recvBatch({ capacity: 1 }).recv(0, mr.addr, 8, mr.lkey);
  context.close();
  expect(() => qp.postSend(batch)).toThrow(`${qp.label} is closed`);
  expect(() => qp.postRecv(recv)).toThrow(InvalidHandleError);
  expect(() => qp.modify({ qpState: 1 })).toThrow(InvalidHandleError);
  expect(() => qp.state).toThrow(InvalidHandleError);
  expect(() => cq.poll(wc)).toThrow('completion queue 1 of fake0 is closed');
  await expect(cq.next()).rejects.toThrow(InvalidHandleError);
  expect(() => mr.bytes).toThrow(`${mr.label} is closed`);
  expect(() => mr.buffer).toThrow(InvalidHandleError);
  expect(() => pd.allocate(8)).toThrow(InvalidHandleError);
  expect(() => context.allocPd()).toThrow('context of fake0 is closed');
  expect(() => context.nowNs()).toThrow(InvalidHandleError);
});

test('objects of another context or class are refused, and the error names them', () => {
  const a = setup();
  const b = setup();
  expect(() => a.pd.createQp({ sendCq: b.cq })).toThrow(
    'sendCq: completion queue 1 of fake0 belongs to a different context',
  );
  expect(() => a.pd.createQp({ sendCq: a.mr as never })).toThrow(
    'sendCq must be a CompletionQueue, got memory region',
  );
  expect(() => a.pd.createQp({ sendCq: 5 as never })).toThrow(InvalidHandleError);
  expect(() => a.pd.createQp({} as never)).toThrow('got undefined');
  expect(() => a.qp.post({ opcode: 'SEND', sgList: [{ mr: b.mr }] })).toThrow('sgList[0].mr');
  const batch = b.context.sendBatch({ capacity: 1 }).send(0, 0, 0, 0, 0);
  expect(() => a.qp.postSend(batch)).toThrow('SendBatch does not belong to the context of fake0');
  expect(() => a.cq.poll(b.context.wcBatch({ capacity: 1 }))).toThrow(InvalidHandleError);
  expect(() => a.context.createCq({ channel: b.context.createChannel() })).toThrow(InvalidHandleError);
  const closedCq = a.context.createCq();
  closedCq.close();
  expect(() => a.pd.createQp({ sendCq: closedCq })).toThrow('completion queue 2 of fake0 is closed');
});

test('if one close fails, the others still close, and the first error is reported', () => {
  const fake = createFake();
  let fail = true;
  const provider = {
    ...fake.provider,
    deregMr(mr: number) {
      if (fail) throw new Error('device is upset');
      fake.provider.deregMr(mr);
    },
  };
  const { context, qp, cq, mr } = setup({ ...fake, provider });
  expect(() => context.close()).toThrow('device is upset');
  expect([qp.closed, cq.closed, mr.closed, context.closed]).toEqual([true, true, false, false]);
  fail = false;
  context.close();
  expect(context.closed).toBe(true);
});

test('register() refuses memory that may move, and suggests a fix', () => {
  const { pd } = setup();
  expect(() => pd.register(Buffer.from('pooled'))).toThrow(MemoryError);
  expect(() => pd.register(Buffer.from('pooled'))).toThrow('pd.allocate()');
  expect(() => pd.register(Buffer.alloc(64).subarray(8))).toThrow(MemoryError);
  const resizable = new (ArrayBuffer as Flexible<ArrayBuffer>)(8, { maxByteLength: 16 });
  expect(() => pd.register(resizable)).toThrow('resizable');
  const growable = new (SharedArrayBuffer as Flexible<SharedArrayBuffer>)(8, { maxByteLength: 16 });
  expect(() => pd.register(new Uint8Array(growable))).toThrow(MemoryError);
  const detached = new ArrayBuffer(8);
  structuredClone(detached, { transfer: [detached] });
  expect(() => pd.register(detached)).toThrow('detached');
  expect(() => pd.register({} as never)).toThrow('ArrayBuffer');
  expect(() => pd.register(new ArrayBuffer(8), { byteOffset: 4, lengthBytes: 8 })).toThrow(
    'exceed the 8 bytes',
  );
  expect(() => pd.allocate(0)).toThrow('positive integer');
  expect(() => pd.allocate(8, { access: { remoteRaed: true } as never })).toThrow(
    "unknown access right 'remoteRaed'",
  );
});

test("a region over the caller's memory exposes its bytes until the memory is detached", () => {
  const { pd } = setup();
  const memory = new ArrayBuffer(64);
  const mr = pd.register(new Uint8Array(memory, 16, 32), { byteOffset: 8 });
  expect(mr.lengthBytes).toBe(24);
  mr.bytes[0] = 7;
  expect(new Uint8Array(memory)[24]).toBe(7);
  structuredClone(memory, { transfer: [memory] });
  expect(() => mr.bytes).toThrow(MemoryError);
  expect(pd.register(Buffer.alloc(16)).lengthBytes).toBe(16);
  expect(pd.register(new SharedArrayBuffer(16)).lengthBytes).toBe(16);
});

test('instanceof works, and onClose calls back once', () => {
  const { pd, qp, context } = setup();
  expect(pd).toBeInstanceOf(ProtectionDomain);
  expect(qp).toBeInstanceOf(QueuePair);
  let closed = 0;
  qp.onClose(() => closed++);
  qp.close();
  context.close();
  expect(closed).toBe(1);
});
