// Device queries (counterpart of rdma-core's test_device.py).
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature, until } from './ground.ts';
import { CAP, closeEnd, closePair, connectedPair, createQp, modify, openEnd } from './rig.ts';

const code = (name: string) => expect.objectContaining({ code: `ISO_ERR_${name}` });

feature('device queries', { group: 'device', others: 'every device' }, (it) => {
  it('the devices are in the list, and can be opened', (ground) => {
    const names = ground.provider.getDeviceList().map(({ name }) => name);
    for (const name of ground.devices) {
      expect(names).toContain(name);
      ground.provider.closeDevice(ground.provider.openDevice(name));
    }
    expect(() => ground.provider.openDevice('nosuch0')).toThrow(code('NO_DEVICE'));
  });

  it('queryDevice: the limits are plausible', (ground) => {
    const end = openEnd(ground, 0);
    const attr = end.p.queryDevice(end.context);
    for (const field of [
      'maxQp',
      'maxQpWr',
      'maxSge',
      'maxCq',
      'maxCqe',
      'maxMr',
      'maxPd',
      'maxSrq',
      'maxAh',
    ] as const) {
      expect(attr[field], field).toBeGreaterThan(0);
    }
    expect(attr.physPortCnt).toBe(1);
    expect(attr.nodeGuid).toMatch(/^[0-9a-f]{4}(:[0-9a-f]{4}){3}$/);
    closeEnd(end);
  });

  it('queryDeviceEx: unsupported features are zero', (ground) => {
    const end = openEnd(ground, 0);
    const attr = end.p.queryDeviceEx(end.context);
    expect(attr.odp).toEqual({ general: 0, rc: 0, uc: 0, ud: 0, xrc: 0 });
    expect(attr.tso).toEqual({ maxTsoBytes: 0, supportedQpTypes: 0 });
    expect(attr.tagMatching.maxNumTags).toBe(0);
    expect(attr.maxDeviceMemoryBytes).toBe(0);
    expect(typeof attr.completionTimestampMask).toBe('bigint');
    expect(() => end.p.queryDeviceEx(0)).toThrow(code('HANDLE'));
    closeEnd(end);
  });

  it('describeNic: the link matches queryPort; unknown values are null', (ground) => {
    const end = openEnd(ground, 0);
    const nic = end.p.describeNic?.(end.context);
    const { activeMtu } = end.p.queryPort(end.context, 1);
    expect(nic).toMatchObject({ mtuBytes: 128 * 2 ** activeMtu });
    expect(nic?.linkGbps).toBeGreaterThan(0);
    const { headerBytes, wqeGapNs, processingUnits, egressFifoBytes } = nic as V.NicFacts;
    for (const fact of [headerBytes, wqeGapNs, processingUnits, egressFifoBytes]) {
      if (ground.name === 'sim') expect(fact).toBeTypeOf('number');
      else expect(fact).toBe(null);
    }
    // Software pays for each piece of a message, so policies should not presume that pieces help.
    if (ground.name === 'soft') expect(nic?.arbitrates).toBe(false);
    expect(() => end.p.describeNic?.(0)).toThrow(code('HANDLE'));
    closeEnd(end);
  });

  it('queryPort: port 1 is active, and other ports do not exist', (ground) => {
    const end = openEnd(ground, 0);
    expect(end.p.queryPort(end.context, 1)).toMatchObject({
      state: V.IBV_PORT_ACTIVE,
      linkLayer: 'Ethernet',
    });
    for (const port of [0, 2, -1, 1.5, 1000])
      expect(() => end.p.queryPort(end.context, port)).toThrow(/queryPort/);
    closeEnd(end);
  });

  it('queryGid: an address of RoCE v2', (ground) => {
    const end = openEnd(ground, 0);
    const entry = end.p.queryGid(end.context, 1, ground.gidIndex);
    expect(entry).toMatchObject({ index: ground.gidIndex, type: 'RoCE v2' });
    expect(entry.gid).toMatch(/^::ffff:\d+\.\d+\.\d+\.\d+$/);
    expect(() => end.p.queryGid(end.context, 1, 100_000)).toThrow(code('ARGUMENT'));
    closeEnd(end);
  });

  it('queryPkey: the default partition', (ground) => {
    const end = openEnd(ground, 0);
    expect(end.p.queryPkey(end.context, 1, 0)).toBe(0xffff);
    const { pkeyTblLen } = end.p.queryPort(end.context, 1);
    for (const index of [-1, 1.5, 0x10000]) {
      expect(() => end.p.queryPkey(end.context, 1, index)).toThrow(code('ARGUMENT'));
    }
    expect(() => end.p.queryPkey(end.context, 1, pkeyTblLen)).toThrow(/queryPkey/);
    closeEnd(end);
  });

  it('queryQpDataInOrder answers for each opcode', (ground) => {
    const pair = connectedPair(ground);
    const { a, qpA } = pair;
    for (const opcode of [V.IBV_WR_SEND, V.IBV_WR_RDMA_WRITE, V.IBV_WR_RDMA_READ]) {
      // The library of soft-RoCE does not support the query, and returns 0.
      expect(a.p.queryQpDataInOrder(qpA.handle, opcode, 0)).toBe(ground.name === 'rxe' ? 0 : 1);
    }
    closePair(pair);
  });
});

feature('devices', { group: 'device', others: 'every device' }, (it) => {
  it('the list has distinct names, GUIDs, and the provider', (ground) => {
    const list = ground.provider.getDeviceList();
    expect(new Set(list.map(({ name }) => name)).size).toBe(list.length);
    for (const device of list) {
      expect(device.guid).toMatch(/^[0-9a-f]{4}(:[0-9a-f]{4}){3}$/);
      expect(device.provider).toBe(ground.name === 'rxe' ? 'rdma-core' : ground.name);
      expect(device.transport.length).toBeGreaterThan(0);
    }
  });

  it('unknown names are rejected', (ground) => {
    for (const name of ['', 'nosuch0', `${ground.devices[0]} `, `${ground.devices[0]}\0`]) {
      expect(() => ground.provider.openDevice(name)).toThrow(code('NO_DEVICE'));
    }
    for (const name of [undefined, null, 5, {}]) {
      expect(() => ground.provider.openDevice(name as string)).toThrow(V.IsoverbsError);
    }
  });

  it('a device may be open many times; each context is closed once', (ground) => {
    const { provider: p, devices } = ground;
    const contexts = Array.from({ length: 20 }, () => p.openDevice(devices[0]));
    expect(new Set(contexts).size).toBe(20);
    const attr = p.queryDevice(contexts[0]);
    for (const context of contexts) {
      expect(p.queryDevice(context)).toEqual(attr);
      p.closeDevice(context);
      expect(() => p.closeDevice(context)).toThrow(code('HANDLE'));
    }
  });

  it('closing a context with children fails and names them', (ground) => {
    const { provider: p, devices } = ground;
    const context = p.openDevice(devices[0]);
    const channel = p.createCompChannel(context);
    expect(() => p.closeDevice(context)).toThrow(/completion channel/);
    const cq = p.createCq(context, 4, channel).handle;
    expect(() => p.closeDevice(context)).toThrow(/completion queue/);
    p.destroyCq(cq);
    p.destroyCompChannel(channel);
    p.closeDevice(context);
  });

  it('queries require an open device', (ground) => {
    const end = openEnd(ground, 0);
    const { p } = end;
    const closed = p.openDevice(ground.devices[0]);
    p.closeDevice(closed);
    for (const wrong of [closed, 0, -1, 1.5, Number.NaN, end.pd, end.cq, end.mr.handle]) {
      expect(() => p.queryDevice(wrong)).toThrow(code('HANDLE'));
      expect(() => p.queryDeviceEx(wrong)).toThrow(code('HANDLE'));
      expect(() => p.queryRtValues(wrong)).toThrow(code('HANDLE'));
      expect(() => p.queryPort(wrong, 1)).toThrow(code('HANDLE'));
      expect(() => p.queryGid(wrong, 1, 0)).toThrow(code('HANDLE'));
      expect(() => p.queryPkey(wrong, 1, 0)).toThrow(code('HANDLE'));
      expect(() => p.closeDevice(wrong)).toThrow(code('HANDLE'));
    }
    closeEnd(end);
  });

  it('the clock advances, and sleep() takes the given time', async (ground) => {
    const { provider: p, devices } = ground;
    const context = p.openDevice(devices[0]);
    const beganNs = p.nowNs(context);
    let awake = false;
    const slept = p.sleep(context, 2_000_000).then(() => {
      awake = true;
    });
    await until(ground, 'the end of sleep()', () => awake);
    await slept;
    expect(p.nowNs(context) - beganNs).toBeGreaterThanOrEqual(2_000_000);
    p.closeDevice(context);
  });
});

feature('limits of devices', { group: 'device', others: 'every device' }, (it) => {
  it('are whole numbers, large enough to work with', (ground) => {
    const end = openEnd(ground, 0);
    const attr = end.p.queryDevice(end.context);
    for (const [name, value] of Object.entries(attr)) {
      if (typeof value === 'number') expect(Number.isInteger(value) && value >= 0, name).toBe(true);
    }
    expect(attr.maxMrSizeBytes).toBeGreaterThan(4096);
    expect(attr.maxPkeys).toBeGreaterThan(0);
    expect(attr.maxQpRdAtom).toBeGreaterThan(0);
    expect(attr.sysImageGuid).toMatch(/^[0-9a-f]{4}(:[0-9a-f]{4}){3}$/);
    expect(attr.atomicCap).toBe(1);
    closeEnd(end);
  });

  it('the node GUID is that of the list', (ground) => {
    const end = openEnd(ground, 0);
    const listed = end.p.getDeviceList().find(({ name }) => name === ground.devices[0]);
    expect(end.p.queryDevice(end.context).nodeGuid).toBe(listed?.guid);
    closeEnd(end);
  });

  it('maxSge elements are granted, but not one more', (ground) => {
    const end = openEnd(ground, 0);
    const { maxSge } = end.p.queryDevice(end.context);
    const wanted = (sges: number) => createQp(end, { cap: { ...CAP, maxSendSge: sges, maxRecvSge: sges } });
    const qp = wanted(maxSge);
    expect([qp.cap.maxSendSge, qp.cap.maxRecvSge]).toEqual([maxSge, maxSge]);
    end.p.destroyQp(qp.handle);
    expect(() => wanted(maxSge + 1)).toThrow(V.IsoverbsError);
    closeEnd(end);
  });

  it('maxQpWr requests are not exceeded', (ground) => {
    const end = openEnd(ground, 0);
    const { maxQpWr } = end.p.queryDevice(end.context);
    expect(() => createQp(end, { cap: { ...CAP, maxSendWr: maxQpWr + 1 } })).toThrow(V.IsoverbsError);
    expect(() => createQp(end, { cap: { ...CAP, maxRecvWr: maxQpWr + 1 } })).toThrow(V.IsoverbsError);
    closeEnd(end);
  });

  it('maxSrqWr and maxSrqSge are not exceeded', (ground) => {
    const end = openEnd(ground, 0);
    const { maxSrqWr, maxSrqSge } = end.p.queryDevice(end.context);
    const srq = end.p.createSrq(end.pd, { maxWr: 16, maxSge: maxSrqSge });
    expect(srq.maxSge).toBeGreaterThanOrEqual(maxSrqSge);
    end.p.destroySrq(srq.handle);
    expect(() => end.p.createSrq(end.pd, { maxWr: maxSrqWr + 1, maxSge: 1 })).toThrow(V.IsoverbsError);
    expect(() => end.p.createSrq(end.pd, { maxWr: 1, maxSge: maxSrqSge + 1 })).toThrow(V.IsoverbsError);
    closeEnd(end);
  });

  it('the capability flags match XRC, memory windows and invalidation', (ground) => {
    const end = openEnd(ground, 0);
    const { p } = end;
    const { deviceCapFlags: flags, maxMw } = p.queryDevice(end.context);
    expect(p.queryDeviceEx(end.context).xrc).toBe((flags & V.IBV_DEVICE_XRC) !== 0);
    if ((flags & V.IBV_DEVICE_XRC) !== 0) p.closeXrcd(p.openXrcd(end.context));
    else expect(() => p.openXrcd(end.context)).toThrow(code('UNSUPPORTED'));
    expect(flags & V.IBV_DEVICE_MEM_WINDOW_TYPE_2B).not.toBe(0);
    expect(maxMw).toBeGreaterThan(0);
    p.deallocMw(p.allocMw(end.pd, V.IBV_MW_TYPE_2).handle);
    closeEnd(end);
  });

  it('queryDeviceEx returns the same values each time, and for the other device', (ground) => {
    const [a, b] = [openEnd(ground, 0), openEnd(ground, 1)];
    const first = a.p.queryDeviceEx(a.context);
    expect(a.p.queryDeviceEx(a.context)).toEqual(first);
    expect(b.p.queryDeviceEx(b.context)).toEqual(first);
    closeEnd(a);
    closeEnd(b);
  });
});

feature('ports and their tables', { group: 'device', others: 'every device' }, (it) => {
  it('queryPort: the sizes are consistent', (ground) => {
    const end = openEnd(ground, 0);
    const port = end.p.queryPort(end.context, 1);
    expect(port.activeMtu).toBeLessThanOrEqual(port.maxMtu);
    expect(port.activeMtu).toBeGreaterThanOrEqual(V.IBV_MTU_256);
    expect(port.maxMtu).toBeLessThanOrEqual(V.IBV_MTU_4096);
    expect(port.maxMsgSizeBytes).toBeGreaterThan(4096);
    expect(port.gidTblLen).toBeGreaterThan(ground.gidIndex);
    expect(port.pkeyTblLen).toBeGreaterThan(0);
    expect([1, 2, 4, 8, 16]).toContain(port.activeWidth);
    expect(port.activeSpeed).toBeGreaterThan(0);
    expect(port.physState).toBe(5); // The link is up.
    closeEnd(end);
  });

  it('queryGid: the whole table, entries in use with their interface, empty ones as ::', (ground) => {
    const end = openEnd(ground, 0);
    const { gidTblLen } = end.p.queryPort(end.context, 1);
    const table = Array.from({ length: gidTblLen }, (_, i) => end.p.queryGid(end.context, 1, i));
    const used = table.filter(({ gid }) => gid !== '::');
    expect(used.length).toBeGreaterThan(0);
    for (const entry of used) {
      expect(['IB', 'RoCE v1', 'RoCE v2']).toContain(entry.type);
      // Simulated ports have no interface in the kernel.
      if (ground.name === 'sim') expect(entry.ndevIfindex).toBe(0);
      else expect(entry.ndevIfindex).toBeGreaterThan(0);
    }
    expect(new Set(used.map(({ gid, type }) => `${gid} ${type}`)).size).toBe(used.length);
    expect(table.map(({ index }) => index)).toEqual(Array.from({ length: gidTblLen }, (_, i) => i));
    closeEnd(end);
  });

  it('queryGid: other ports and indices do not exist', (ground) => {
    const end = openEnd(ground, 0);
    const { gidTblLen } = end.p.queryPort(end.context, 1);
    for (const index of [gidTblLen, -1, 0.5, Number.NaN, 2 ** 32]) {
      expect(() => end.p.queryGid(end.context, 1, index)).toThrow(code('ARGUMENT'));
    }
    for (const port of [0, 2, -1, 1.5, 256]) {
      expect(() => end.p.queryGid(end.context, port, 0)).toThrow(code('ARGUMENT'));
    }
    closeEnd(end);
  });

  it('the two devices have different addresses', (ground) => {
    const [a, b] = [openEnd(ground, 0), openEnd(ground, 1)];
    expect(a.gid === b.gid).toBe(ground.devices[0] === ground.devices[1]);
    closeEnd(a);
    closeEnd(b);
  });

  it('queryPkey: the index of a key can be looked up in the table', (ground) => {
    const end = openEnd(ground, 0);
    const { pkeyTblLen } = end.p.queryPort(end.context, 1);
    const table = Array.from({ length: pkeyTblLen }, (_, i) => end.p.queryPkey(end.context, 1, i));
    expect(table.indexOf(0xffff)).toBe(0);
    for (const key of table) expect(Number.isInteger(key) && key >= 0 && key <= 0xffff).toBe(true);
    for (const port of [0, 2, -1]) expect(() => end.p.queryPkey(end.context, port, 0)).toThrow(/queryPkey/);
    closeEnd(end);
  });
});

const clock = {
  group: 'device',
  refusedBy: ['rxe'] as const,
  others: 'devices that stamp completions (mlx5 ...)',
};
feature('the clock of completion timestamps', clock, (it) => {
  it('does not go backwards', async (ground) => {
    const end = openEnd(ground, 0);
    const { ticks } = end.p.queryRtValues(end.context);
    await ground.turn();
    expect(end.p.queryRtValues(end.context).ticks).toBeGreaterThan(ticks);
    closeEnd(end);
  });
});

const ece = {
  group: 'qp',
  refusedBy: ['sim', 'soft', 'rxe'] as const,
  others: 'devices with ECE (mlx5 ...)',
};
feature('enhanced connection establishment', ece, (it) => {
  it('its options can be queried', (ground) => {
    const end = openEnd(ground, 0);
    end.p.queryEce(createQp(end).handle);
  });

  it('its options can be set', (ground) => {
    const end = openEnd(ground, 0);
    end.p.setEce(createQp(end).handle, { vendorId: 0, options: 0 });
  });
});

const pacing = { group: 'qp', refusedBy: ['rxe'] as const, others: 'devices with packet pacing (mlx5 ...)' };
feature('rate limits', pacing, (it) => {
  it('can be set and removed on a queue pair in RTS', (ground) => {
    const pair = connectedPair(ground);
    const { a, qpA } = pair;
    const { packetPacing } = a.p.queryDeviceEx(a.context);
    a.p.modifyQpRateLimit(qpA.handle, {
      rateLimitKbps: 1_000_000,
      maxBurstBytes: 8192,
      typicalPktBytes: 1024,
    });
    expect(packetPacing.maxKbps).toBeGreaterThanOrEqual(1_000_000);
    expect(packetPacing.supportedQpTypes & (1 << V.IBV_QPT_RC)).not.toBe(0);
    expect(() => a.p.modifyQpRateLimit(qpA.handle, { rateLimitKbps: packetPacing.maxKbps + 1 })).toThrow(
      code('ARGUMENT'),
    );
    expect(() => a.p.modifyQpRateLimit(qpA.handle, { rateLimitKbps: -1 })).toThrow(code('ARGUMENT'));
    a.p.modifyQpRateLimit(qpA.handle, { rateLimitKbps: 0 });
    closePair(pair);
  });

  it('can also be set by modifyQp', (ground) => {
    const pair = connectedPair(ground);
    const { a, qpA } = pair;
    modify(a, qpA.handle, { qpState: V.IBV_QPS_RTS, rateLimitKbps: 1_000_000 });
    expect(() => modify(a, qpA.handle, { qpState: V.IBV_QPS_RTS, rateLimitKbps: -1 })).toThrow(
      code('ARGUMENT'),
    );
    closePair(pair);
  });
});
