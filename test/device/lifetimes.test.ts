/** Devices, handles and memory: which objects may be closed when, and how late calls fail. */
import { afterEach, describe, expect, test } from 'vitest';
import { createRdmaCoreProvider } from '../../src/providers/rdma-core/index.ts';
import * as V from '../../src/verbs/index.ts';
import { ACCESS, defined, errorOf, Rig, type RigOptions, skipReason } from './rig.ts';

const SIGNALED = V.IBV_SEND_SIGNALED;

describe.skipIf(skipReason !== '')('devices', () => {
  test('list, attributes, port and GIDs', () => {
    const { provider: p, name } = defined();
    const listed = p.getDeviceList().find((d) => d.name === name)!;
    expect(listed.provider).toBe('rdma-core');
    expect(listed.guid).toMatch(/^[0-9a-f]{4}(:[0-9a-f]{4}){3}$/);
    const context = p.openDevice(name);
    const attr = p.queryDevice(context);
    expect(attr.maxQpWr).toBeGreaterThan(100);
    expect(attr.maxSge).toBeGreaterThan(3);
    expect(attr.physPortCnt).toBe(1);
    expect(attr.nodeGuid).toBe(listed.guid);
    const port = p.queryPort(context, 1);
    expect(port.state).toBe(V.IBV_PORT_ACTIVE);
    expect(port.linkLayer).toBe('Ethernet');
    expect(port.maxMsgSizeBytes).toBeGreaterThan(1 << 20);
    expect(p.queryGid(context, 1, 0)).toMatchObject({ index: 0, type: 'RoCE v2' });
    expect(p.queryGid(context, 1, port.gidTblLen - 1).gid).toBe('::');
    for (const call of [
      () => p.queryPort(context, 2),
      () => p.queryPort(context, 0),
      () => p.queryGid(context, 1, port.gidTblLen),
      () => p.queryGid(context, 1, -1),
      () => p.queryGid(context, 1, 0.5),
    ]) {
      expect(errorOf(call).code).toBe('ISO_ERR_ARGUMENT');
    }
    p.closeDevice(context);
  });

  test('opening a missing device throws a typed error', () => {
    const { provider: p } = defined();
    expect(errorOf(() => p.openDevice('none0')).code).toBe('ISO_ERR_NO_DEVICE');
    expect(errorOf(() => p.openDevice(7 as unknown as string)).code).toBe('ISO_ERR_ARGUMENT');
  });

  test('requests beyond the limits of the device are rejected', () => {
    const rig = new Rig();
    const { p, context, pd, cq } = rig;
    const dev = p.queryDevice(context);
    expect(errorOf(() => p.createCq(context, dev.maxCqe + 1, 0)).code).toBe('ISO_ERR_NO_RESOURCES');
    expect(errorOf(() => p.createCq(context, 0, 0)).code).toBe('ISO_ERR_ARGUMENT');
    const cap = { maxSendWr: 8, maxRecvWr: 8, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
    const create = (change: Partial<V.QpCap>) => () =>
      p.createQp(pd, { qpType: 2, sendCq: cq, recvCq: cq, cap: { ...cap, ...change }, sqSigAll: false });
    for (const change of [
      { maxSendWr: dev.maxQpWr + 1 },
      { maxSendSge: dev.maxSge + 1 },
      { maxInlineData: 100000 },
    ]) {
      expect(errorOf(create(change)).code).toBe('ISO_ERR_NO_RESOURCES');
    }
    expect(errorOf(create({ maxSendWr: -1 })).code).toBe('ISO_ERR_ARGUMENT');
    const managed = () =>
      p.createQp(pd, { qpType: 2, sendCq: cq, recvCq: cq, cap, sqSigAll: false, managed: true });
    expect(errorOf(managed).code).toBe('ISO_ERR_UNSUPPORTED');
    rig.close();
  });
});

/** Calls of every verb with one handle replaced; everything else is valid. */
function callsByHandle({
  p,
  context,
  pd,
  cq,
  qp,
  send,
  recv,
  wcs,
}: Rig): Record<string, (handle: number) => unknown> {
  const attr: V.QpInitAttr = {
    qpType: 2,
    sendCq: cq,
    recvCq: cq,
    cap: { maxSendWr: 1, maxRecvWr: 1, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 },
    sqSigAll: false,
  };
  return {
    closeDevice: (h) => p.closeDevice(h),
    queryDevice: (h) => p.queryDevice(h),
    queryPort: (h) => p.queryPort(h, 1),
    queryGid: (h) => p.queryGid(h, 1, 0),
    allocPd: (h) => p.allocPd(h),
    deallocPd: (h) => p.deallocPd(h),
    allocMr: (h) => p.allocMr(h, 4096, 1),
    regMr: (h) => p.regMr(h, new SharedArrayBuffer(64), 0, 64, 1),
    deregMr: (h) => p.deregMr(h),
    createCompChannel: (h) => p.createCompChannel(h),
    destroyCompChannel: (h) => p.destroyCompChannel(h),
    watchCompChannel: (h) => p.watchCompChannel(h, () => {}),
    refCompChannel: (h) => p.refCompChannel(h, true),
    createCq: (h) => p.createCq(h, 16, 0),
    createCqWithChannel: (h) => p.createCq(context, 16, h === 0 ? 1 : h),
    destroyCq: (h) => p.destroyCq(h),
    reqNotifyCq: (h) => p.reqNotifyCq(h, false),
    createQp: (h) => p.createQp(h, attr),
    createQpSrq: (h) => p.createQp(pd, { ...attr, srq: h || 1 }),
    createQpXrcd: (h) => p.createQp(pd, { ...attr, qpType: V.IBV_QPT_XRC_RECV, xrcd: h }),
    openXrcd: (h) => p.openXrcd(h),
    closeXrcd: (h) => p.closeXrcd(h),
    createSrq: (h) => p.createSrq(h, { maxWr: 1, maxSge: 1 }),
    modifySrq: (h) => p.modifySrq(h, { srqLimit: 1 }, V.IBV_SRQ_LIMIT),
    querySrq: (h) => p.querySrq(h),
    destroySrq: (h) => p.destroySrq(h),
    postSrqRecv: (h) => p.postSrqRecv(h, recv.ring, 0, 1),
    createAh: (h) => p.createAh(h, { dgid: '::ffff:127.0.0.1' }),
    destroyAh: (h) => p.destroyAh(h),
    attachMcast: (h) => p.attachMcast(h, '::ffff:239.0.0.1', 0),
    detachMcast: (h) => p.detachMcast(h, '::ffff:239.0.0.1', 0),
    allocMw: (h) => p.allocMw(h, 1),
    queryMw: (h) => p.queryMw(h),
    deallocMw: (h) => p.deallocMw(h),
    reregMr: (h) => p.reregMr(h, { access: 1 }),
    regDmabufMr: (h) => p.regDmabufMr(h, 0, 4096, 0, 0, 1),
    createQpSendCq: (h) => p.createQp(pd, { ...attr, sendCq: h }),
    createQpRecvCq: (h) => p.createQp(pd, { ...attr, recvCq: h }),
    modifyQp: (h) => p.modifyQp(h, { qpState: V.IBV_QPS_ERR }, V.IBV_QP_STATE),
    queryQp: (h) => p.queryQp(h),
    destroyQp: (h) => p.destroyQp(h),
    destroyRing: (h) => p.destroyRing(h),
    postSend: (h) => p.postSend(h, send.ring, 0, 1),
    postSendRing: (h) => p.postSend(qp, h, 0, 1),
    postRecv: (h) => p.postRecv(h, recv.ring, 0, 1),
    postRecvRing: (h) => p.postRecv(qp, h, 0, 1),
    validateSend: (h) => p.validateSend(h, send.ring, 0),
    validateSendRing: (h) => p.validateSend(qp, h, 0),
    pollCq: (h) => p.pollCq(h, wcs.ring, 0, 1),
    pollCqRing: (h) => p.pollCq(cq, h, 0, 1),
  };
}

describe.skipIf(skipReason !== '')('handles', () => {
  test('closing a parent throws BusyError and names its children', () => {
    const rig = new Rig({ channel: true });
    const { p, context, pd, cq, channel } = rig;
    expect(errorOf(() => p.deallocPd(pd))).toMatchObject({ code: 'ISO_ERR_BUSY', errno: V.EBUSY });
    expect(errorOf(() => p.deallocPd(pd)).message).toMatch(/1 memory region, 1 queue pair/);
    expect(errorOf(() => p.destroyCq(cq)).message).toMatch(/1 queue pair/);
    expect(errorOf(() => p.destroyCompChannel(channel)).message).toMatch(/1 completion queue/);
    expect(errorOf(() => p.closeDevice(context)).code).toBe('ISO_ERR_BUSY');
    rig.close();
  });

  test('every verb rejects closed handles, handles of another kind, and anything else', () => {
    const rig = new Rig({ channel: true });
    const { p, context, pd, cq, qp, channel, mr, send, wcs } = rig;
    const verbs = callsByHandle(rig);
    const closedPd = p.allocPd(context);
    p.deallocPd(closedPd);
    const closedCq = p.createCq(context, 4, 0).handle;
    p.destroyCq(closedCq);
    const closedRing = p.createWrRing(1, 1, 0).handle;
    p.destroyRing(closedRing);
    const junk: unknown[] = [
      0,
      -1,
      1,
      2 ** 31,
      2 ** 53,
      Number.NaN,
      1.5,
      undefined,
      null,
      'x',
      {},
      10n,
      true,
    ];
    const closed = [closedPd, closedCq, closedRing];
    const wrongKind = [context, pd, cq, qp, channel, mr.handle, send.ring, wcs.ring];
    const right: Record<string, number[]> = {
      closeDevice: [context],
      deallocPd: [pd],
      destroyCq: [cq],
      destroyCompChannel: [channel],
    };
    const kindOf = (handle: number) => handle >> 27;
    for (const [verb, call] of Object.entries(verbs)) {
      for (const handle of [...junk, ...closed]) {
        expect(errorOf(() => call(handle as number)).code, `${verb}(${String(handle)})`).toBe(
          'ISO_ERR_HANDLE',
        );
      }
      // Of all live handles, the verb accepts only those of the kind that the error's text names.
      const needs = errorOf(() => call(0)).message;
      for (const handle of wrongKind) {
        const name = V.KIND_NAMES[kindOf(handle)];
        if (needs.includes(name) || right[verb]?.includes(handle)) continue;
        if (verb === 'destroyRing' && kindOf(handle) >= V.KIND_WR_RING) continue;
        const error = errorOf(() => call(handle));
        expect(error.code, `${verb}(${name})`).toBe('ISO_ERR_HANDLE');
        expect(error.message).toContain(`got a ${name}`);
      }
    }
    rig.close();
  });

  test('objects of two contexts do not mix', () => {
    const a = new Rig({ channel: true });
    const b = new Rig();
    const { p } = a;
    const cap = { maxSendWr: 1, maxRecvWr: 1, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
    const mixed = { qpType: 2, sendCq: b.cq, recvCq: a.cq, cap, sqSigAll: false };
    expect(errorOf(() => p.createQp(a.pd, mixed)).code).toBe('ISO_ERR_HANDLE');
    expect(errorOf(() => p.createCq(b.context, 4, a.channel)).code).toBe('ISO_ERR_HANDLE');
    a.close();
    b.close();
  });

  test('two providers share handles', () => {
    const rig = new Rig();
    const again = createRdmaCoreProvider();
    expect(again.queryDevice(rig.context).maxQp).toBe(rig.p.queryDevice(rig.context).maxQp);
    rig.close();
  });

  test('thousands of objects are created and destroyed', () => {
    const rig = new Rig();
    const { p, context } = rig;
    const seen = new Set<number>();
    for (let i = 0; i < 2000; i++) {
      const pd = p.allocPd(context);
      seen.add(pd);
      p.deallocPd(pd);
    }
    expect(seen.size).toBe(2000);
    rig.close();
  });
});

describe.skipIf(skipReason !== '')('memory', () => {
  let rig: Rig;
  const open = (options: RigOptions = {}) => {
    rig = Rig.connected(options);
    return rig;
  };
  afterEach(() => rig.close());

  /** Writes from `info` to the rig's own memory and checks that the bytes arrived. */
  async function usable(info: V.MrInfo) {
    const view = new Uint8Array(info.memory, info.byteOffset, info.lengthBytes);
    view.set([9, 8, 7]);
    rig.send.clear().write(1, SIGNALED, info.addr, 3, info.lkey, rig.addr + 4096, rig.mr.rkey);
    expect(rig.postSend()).toBe(1);
    expect(await rig.drain(1)).toMatchObject([{ status: 0 }]);
    expect([...rig.bytes.subarray(4096, 4099)]).toEqual([9, 8, 7]);
  }

  test('memory allocated by the library is page-aligned, zeroed, and detached by deregMr', async () => {
    const { p, pd } = open();
    const info = p.allocMr(pd, 10_000, ACCESS);
    expect(info.addr % 4096).toBe(0);
    expect(info.memory.byteLength).toBe(10_000);
    expect(new Uint8Array(info.memory).every((byte) => byte === 0)).toBe(true);
    await usable(info);
    p.deregMr(info.handle);
    expect(info.memory.byteLength).toBe(0);
    expect(errorOf(() => p.deregMr(info.handle)).code).toBe('ISO_ERR_HANDLE');
  });

  test('regMr registers an ArrayBuffer or a SharedArrayBuffer of the application, or a part', async () => {
    const { p, pd } = open();
    for (const memory of [new ArrayBuffer(8192), new SharedArrayBuffer(8192)]) {
      const info = p.regMr(pd, memory, 100, 5000, ACCESS);
      expect(info).toMatchObject({ memory, byteOffset: 100, lengthBytes: 5000 });
      await usable(info);
      p.deregMr(info.handle);
      expect(memory.byteLength).toBe(8192);
    }
  });

  test('memory that may move is rejected', () => {
    const { p, pd } = open();
    const Resizable = ArrayBuffer as unknown as new (n: number, o: { maxByteLength: number }) => ArrayBuffer;
    const Growable = SharedArrayBuffer as unknown as new (n: number, o: object) => SharedArrayBuffer;
    const detached = new ArrayBuffer(64);
    structuredClone(detached, { transfer: [detached] });
    for (const memory of [
      new Resizable(64, { maxByteLength: 128 }),
      new Growable(64, { maxByteLength: 128 }),
      new ArrayBuffer(0),
      detached,
    ]) {
      expect(errorOf(() => p.regMr(pd, memory, 0, 64, 1)).code).toBe('ISO_ERR_MEMORY');
    }
    const ok = new ArrayBuffer(64);
    for (const [memory, offset, length, access] of [
      [ok, 0, 65, 1],
      [ok, 64, 1, 1],
      [ok, -1, 1, 1],
      [ok, 0, 0, 1],
      [ok, 0.5, 1, 1],
      [ok, 0, 64, 256],
      [ok, 0, 64, 1.5],
      [ok, 0, 64, -1],
      [new Uint8Array(8), 0, 8, 1],
      [undefined, 0, 8, 1],
    ] as [ArrayBuffer, number, number, number][]) {
      expect(errorOf(() => p.regMr(pd, memory, offset, length, access)).code).toBe('ISO_ERR_ARGUMENT');
    }
    expect(errorOf(() => p.regMr(pd, ok, 0, 64, V.IBV_ACCESS_REMOTE_WRITE)).message).toMatch(/local write/);
    for (const bytes of [0, -1, 1.5, Number.NaN]) {
      expect(errorOf(() => p.allocMr(pd, bytes, 1)).code).toBe('ISO_ERR_ARGUMENT');
    }
    expect(errorOf(() => p.allocMr(pd, 2 ** 52, 1)).code).toBe('ISO_ERR_NO_RESOURCES');
  });

  const detachers: [string, (memory: ArrayBuffer) => unknown][] = [
    ['structuredClone', (memory) => structuredClone(memory, { transfer: [memory] })],
    ['postMessage', (memory) => new MessageChannel().port1.postMessage(memory, [memory])],
  ];
  if ('transfer' in ArrayBuffer.prototype) {
    detachers.push(['transfer()', (memory) => (memory as unknown as { transfer(): ArrayBuffer }).transfer()]);
  }

  test.each(detachers)(
    'a detached foreign buffer fails its batch and its queue pair: %s',
    async (_name, detach) => {
      const { p, pd, qp, send, recv, addr, mr } = open();
      const memory = new ArrayBuffer(4096);
      const info = p.regMr(pd, memory, 0, 4096, ACCESS);
      await usable(info);
      detach(memory);
      expect(memory.byteLength).toBe(0);
      send.clear().write(1, SIGNALED, addr, 8, mr.lkey, addr + 64, mr.rkey);
      send.write(2, SIGNALED, info.addr, 8, info.lkey, addr + 64, mr.rkey);
      expect(p.validateSend(qp, send.ring, 1)).toBe(V.EINVAL);
      expect(rig.postSend()).toBe(1);
      expect([send.errno, send.reason]).toEqual([V.EINVAL, V.REASON_DETACHED]);
      expect(p.queryQp(qp).attr.qpState).toBe(V.IBV_QPS_ERR);
      recv.clear().recv(3, info.addr, 8, info.lkey);
      expect(rig.postRecv()).toBe(0);
      expect([recv.errno, recv.reason]).toEqual([V.EINVAL, V.REASON_DETACHED]);
      p.deregMr(info.handle);
    },
  );

  test.each(detachers)('buffers allocated by the library cannot be detached: %s', async (_name, detach) => {
    const { p, pd } = open();
    const info = p.allocMr(pd, 4096, ACCESS);
    let moved: unknown;
    try {
      moved = detach(info.memory as ArrayBuffer);
    } catch {
      // Node.js refuses to transfer memory that it does not own.
    }
    // transfer() cannot be refused: the device keeps using memory that still exists.
    rig.send.clear().write(1, SIGNALED, info.addr, 3, info.lkey, rig.addr + 4096, rig.mr.rkey);
    expect(rig.postSend()).toBe(1);
    expect(await rig.drain(1)).toMatchObject([{ status: 0 }]);
    p.deregMr(info.handle);
    if (moved instanceof ArrayBuffer && moved.byteLength > 0) new Uint8Array(moved).fill(1);
  });

  test('a deregistered lkey fails in the device, and its number may be reused', async () => {
    const { p, pd, send, addr, mr } = open();
    const memory = new ArrayBuffer(4096);
    const info = p.regMr(pd, memory, 0, 4096, ACCESS);
    p.deregMr(info.handle);
    structuredClone(memory, { transfer: [memory] });
    send.clear().write(1, SIGNALED, info.addr, 8, info.lkey, addr, mr.rkey);
    expect(rig.postSend()).toBe(1);
    const [wc] = await rig.drain(1);
    expect(wc.status).not.toBe(0);
  });

  test('a destroyed ring', () => {
    const { p, qp } = open();
    const info = p.createWrRing(4, 8, 0);
    expect(info.capacity).toBe(4);
    expect(info.extBytes).toBe(V.extBytesFor(8, 0));
    expect(info.memory.byteLength).toBe(V.ringBytes(4, info.extBytes));
    p.destroyRing(info.handle);
    expect(info.memory.byteLength).toBe(0);
    expect(errorOf(() => p.postSend(qp, info.handle, 0, 1)).code).toBe('ISO_ERR_HANDLE');
    expect(errorOf(() => p.createWrRing(0, 2, 0)).code).toBe('ISO_ERR_ARGUMENT');
    expect(errorOf(() => p.createWrRing(2 ** 30, 2, 0)).code).toBe('ISO_ERR_ARGUMENT');
    expect(errorOf(() => p.createWcRing(Number.NaN)).code).toBe('ISO_ERR_ARGUMENT');
  });
});
