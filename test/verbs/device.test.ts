// What devices say of themselves (counterpart of rdma-core's test_device.py).
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature } from './ground.ts';
import { closeEnd, closePair, connectedPair, createQp, modify, openEnd } from './rig.ts';

const code = (name: string) => expect.objectContaining({ code: `ISO_ERR_${name}` });

feature('device queries', { group: 'device', others: 'every device' }, (it) => {
  it('the devices are in the list, and open', (ground) => {
    const names = ground.provider.getDeviceList().map(({ name }) => name);
    for (const name of ground.devices) {
      expect(names).toContain(name);
      ground.provider.closeDevice(ground.provider.openDevice(name));
    }
    expect(() => ground.provider.openDevice('nosuch0')).toThrow(code('NO_DEVICE'));
  });

  it('queryDevice: limits that hold', (ground) => {
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

  it('queryDeviceEx: what a device lacks is zero', (ground) => {
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

  it('queryPort: active; other ports there are none', (ground) => {
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
      // soft-RoCE's library knows nothing of it, which is said with 0.
      expect(a.p.queryQpDataInOrder(qpA.handle, opcode, 0)).toBe(ground.name === 'sim' ? 1 : 0);
    }
    closePair(pair);
  });
});

const clock = {
  group: 'device',
  refusedBy: ['rxe'] as const,
  others: 'devices that stamp completions (mlx5 ...)',
};
feature('the clock of completion timestamps', clock, (it) => {
  it('does not go back', async (ground) => {
    const end = openEnd(ground, 0);
    const { ticks } = end.p.queryRtValues(end.context);
    await ground.turn();
    expect(end.p.queryRtValues(end.context).ticks).toBeGreaterThan(ticks);
    closeEnd(end);
  });
});

const ece = { group: 'qp', refusedBy: ['sim', 'rxe'] as const, others: 'devices with ECE (mlx5 ...)' };
feature('enhanced connection establishment', ece, (it) => {
  it('its options are asked for', (ground) => {
    const end = openEnd(ground, 0);
    end.p.queryEce(createQp(end).handle);
  });

  it('its options are set', (ground) => {
    const end = openEnd(ground, 0);
    end.p.setEce(createQp(end).handle, { vendorId: 0, options: 0 });
  });
});

const pacing = { group: 'qp', refusedBy: ['rxe'] as const, others: 'devices with packet pacing (mlx5 ...)' };
feature('rate limits', pacing, (it) => {
  it('are set and taken back on a queue pair in RTS', (ground) => {
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

  it('are set by modifyQp too', (ground) => {
    const pair = connectedPair(ground);
    const { a, qpA } = pair;
    modify(a, qpA.handle, { qpState: V.IBV_QPS_RTS, rateLimitKbps: 1_000_000 });
    expect(() => modify(a, qpA.handle, { qpState: V.IBV_QPS_RTS, rateLimitKbps: -1 })).toThrow(
      code('ARGUMENT'),
    );
    closePair(pair);
  });
});
