// context.allocPd({ slab }): parts of one region, on simulated devices.
import { afterEach, expect, test } from 'vitest';
import { Context, expectSuccess, type ProtectionDomain } from '../../src/objects/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';

const open: Context[] = [];
afterEach(() => {
  for (const context of open.splice(0)) context.close();
});

const ACCESS = { remoteRead: true, remoteWrite: true };

function openPd(lengthBytes = 4096): { context: Context; pd: ProtectionDomain } {
  const context = new Context(createFabric({ hosts: 2 }).provider, 'sim0');
  open.push(context);
  return { context, pd: context.allocPd({ slab: { lengthBytes, access: ACCESS } }) };
}

test('parts have one key, do not overlap, and are aligned to 64 bytes', () => {
  const { pd } = openPd();
  const parts = [1, 64, 100, 2000].map((bytes) => pd.allocate(bytes, { access: ACCESS }));
  expect(new Set(parts.map(({ rkey }) => rkey)).size).toBe(1);
  expect(new Set(parts.map(({ lkey }) => lkey)).size).toBe(1);
  const [{ addr }] = parts;
  expect(parts.map((part) => part.addr - addr)).toEqual([0, 64, 128, 256]);
  for (const [i, { bytes }] of parts.entries()) bytes.fill(i + 1);
  for (const [i, { bytes }] of parts.entries()) expect([...new Set(bytes)]).toEqual([i + 1]);
});

test('other access rights, and what does not fit, get regions of their own', () => {
  const { pd } = openPd();
  const part = pd.allocate(4000, { access: ACCESS });
  const other = pd.allocate(64);
  const large = pd.allocate(4096, { access: ACCESS });
  expect(new Set([part.rkey, other.rkey, large.rkey]).size).toBe(3);
  other.close();
  large.close();
});

test('without queue pairs, the bytes of closed parts are used again, zeroed and joined', () => {
  const { pd } = openPd();
  const parts = [1024, 1024, 2048].map((bytes) => pd.allocate(bytes, { access: ACCESS }));
  const [{ addr, rkey }] = parts;
  for (const part of parts) {
    part.bytes.fill(7);
    part.close();
  }
  const all = pd.allocate(4096, { access: ACCESS });
  expect(all).toMatchObject({ addr, rkey });
  expect(all.bytes.every((byte) => byte === 0)).toBe(true);
});

test('a request in flight cannot reach a later part before reclaim()', async () => {
  const { context, pd } = openPd(1024);
  const cq = context.createCq();
  const qp = pd.createQp({ sendCq: cq });
  qp.connectTo(qp.endpoint());
  const source = pd.allocate(512);
  source.bytes.fill(9);
  const target = pd.allocate(512, { access: ACCESS });
  const { addr, rkey } = target;
  qp.post({ opcode: 'RDMA_WRITE', sgList: [{ mr: source, length: 512 }], remote: { addr, rkey } });
  target.close();
  const later = [512, 512].map((bytes) => pd.allocate(bytes, { access: ACCESS }));
  expect(later[0].addr).toBe(addr + 512);
  expect(later[1].rkey).not.toBe(rkey);
  expectSuccess(await cq.next());
  for (const { bytes } of later) expect(bytes.every((byte) => byte === 0)).toBe(true);
  expect(pd.reclaim()).toBe(512);
  expect(pd.reclaim()).toBe(0);
  const again = pd.allocate(512, { access: ACCESS });
  expect(again).toMatchObject({ addr, rkey });
  expect(again.bytes.every((byte) => byte === 0)).toBe(true);
});

test('impossible slabs, and rereg() of a part, are rejected', () => {
  const { context, pd } = openPd();
  for (const lengthBytes of [0, -64, 63, 100, Number.NaN, 2 ** 60]) {
    const allocate = () => context.allocPd({ slab: { lengthBytes } });
    expect(allocate).toThrow(expect.objectContaining({ code: 'ISO_ERR_ARGUMENT' }));
  }
  const part = pd.allocate(64, { access: ACCESS });
  expect(() => part.rereg({ access: {} })).toThrow(expect.objectContaining({ code: 'ISO_ERR_UNSUPPORTED' }));
  part.close();
  expect(() => part.bytes).toThrow(expect.objectContaining({ code: 'ISO_ERR_HANDLE' }));
  part.close();
  expect(pd.reclaim()).toBe(64);
  pd.close();
  expect(pd.closed).toBe(true);
});
