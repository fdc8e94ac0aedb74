// Memory regions: access flags, re-registration (counterpart of rdma-core's test_mr.py and test_relaxed_ordering.py).
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature } from './ground.ts';
import { ACCESS, closeEnd, closePair, connectedPair, openEnd, type Pair, polled, postSend } from './rig.ts';

const { IBV_SEND_SIGNALED: SIGNALED } = V;

/** The status of a WRITE of 100 bytes by `a`. */
async function writeStatus({ a, qpA }: Pair, addr: number, rkey: number, lkey?: number): Promise<string> {
  postSend(a, qpA.handle, (batch) => batch.write(2, SIGNALED, a.mr.addr, 100, lkey ?? a.mr.lkey, addr, rkey));
  return (await polled(a, 1))[0].status;
}

feature('memory regions', { group: 'mr', others: 'every device' }, (it) => {
  it('every sensible combination of access registers, and deregisters', (ground) => {
    const end = openEnd(ground, 0);
    for (let access = 0; access < 32; access++) {
      const writes = (access & (V.IBV_ACCESS_REMOTE_WRITE | V.IBV_ACCESS_REMOTE_ATOMIC)) !== 0;
      if (writes && (access & V.IBV_ACCESS_LOCAL_WRITE) === 0) {
        expect(() => end.p.allocMr(end.pd, 4096, access)).toThrow(
          expect.objectContaining({ code: 'ISO_ERR_ARGUMENT', verb: 'allocMr' }),
        );
        continue;
      }
      const mr = end.p.allocMr(end.pd, 4096, access);
      expect(mr.memory.byteLength).toBeGreaterThanOrEqual(4096);
      end.p.deregMr(mr.handle);
      expect(() => end.p.deregMr(mr.handle)).toThrow(expect.objectContaining({ code: 'ISO_ERR_HANDLE' }));
    }
    closeEnd(end);
  });

  it('one memory may be registered several times, each with keys of its own', async (ground) => {
    const pair = connectedPair(ground);
    const { b } = pair;
    const memory = new ArrayBuffer(8192);
    const [first, second] = [
      b.p.regMr(b.pd, memory, 0, 8192, ACCESS),
      b.p.regMr(b.pd, memory, 4096, 4096, ACCESS),
    ];
    expect(second.addr - first.addr).toBe(4096);
    pair.a.bytes.fill(6, 0, 100);
    expect(await writeStatus(pair, second.addr, second.rkey)).toBe('SUCCESS');
    expect(new Uint8Array(memory)[4096]).toBe(6);
    expect(await writeStatus(pair, first.addr + 4096, first.rkey)).toBe('SUCCESS');
    b.p.deregMr(second.handle);
    expect(await writeStatus(pair, second.addr, second.rkey)).toBe('REM_ACCESS_ERR');
    b.p.deregMr(first.handle);
    closePair(pair);
  });

  it('IBV_ACCESS_HUGETLB and IBV_ACCESS_RELAXED_ORDERING change nothing that can be seen', async (ground) => {
    for (const flag of [V.IBV_ACCESS_RELAXED_ORDERING, V.IBV_ACCESS_HUGETLB]) {
      const pair = connectedPair(ground, { mrAccess: ACCESS | flag });
      pair.a.bytes.fill(4, 0, 100);
      expect(await writeStatus(pair, pair.b.mr.addr + 4096, pair.b.mr.rkey)).toBe('SUCCESS');
      expect(pair.b.bytes[4195]).toBe(4);
      closePair(pair);
    }
  });

  it('unknown access bits are refused', (ground) => {
    const end = openEnd(ground, 0);
    expect(() => end.p.allocMr(end.pd, 4096, 1 << 12)).toThrow(/access must be/);
    closeEnd(end);
  });
});

feature(
  'zero-based memory regions',
  { group: 'mr', others: 'devices that honour IBV_ACCESS_ZERO_BASED' },
  (it) => {
    it('are reached at the address that registration tells', async (ground) => {
      const pair = connectedPair(ground);
      const { a, b } = pair;
      const mr = b.p.allocMr(b.pd, 8192, ACCESS | V.IBV_ACCESS_ZERO_BASED);
      if (ground.name === 'sim') expect(mr.addr).toBe(0);
      a.bytes.fill(3, 0, 100);
      expect(await writeStatus(pair, mr.addr + 500, mr.rkey)).toBe('SUCCESS');
      expect(new Uint8Array(mr.memory, mr.byteOffset).subarray(500, 600).every((byte) => byte === 3)).toBe(
        true,
      );
      expect(await writeStatus(pair, mr.addr + 8192 - 99, mr.rkey)).toBe('REM_ACCESS_ERR');
      b.p.deregMr(mr.handle);
      closePair(pair);
    });
  },
);

const paging = { group: 'odp', refusedBy: ['sim', 'rxe'] as const, others: 'devices with on-demand paging' };
feature('on-demand paging', paging, (it) => {
  it('a region whose pages are not pinned', (ground) => {
    const end = openEnd(ground, 0);
    end.p.allocMr(end.pd, 4096, ACCESS | V.IBV_ACCESS_ON_DEMAND);
  });
});

const dmabuf = {
  group: 'mr',
  refusedBy: ['sim', 'rxe'] as const,
  others: 'devices with dma-buf import (mlx5 ...)',
};
feature('dma-buf import', dmabuf, (it) => {
  it('memory of another device', (ground) => {
    const end = openEnd(ground, 0);
    end.p.regDmabufMr(end.pd, 0, 4096, 0, 1, ACCESS);
  });
});

const rereg = { group: 'mr', refusedBy: ['rxe'] as const, others: 'devices with ibv_rereg_mr' };
feature('re-registration', rereg, (it) => {
  it('access: what was allowed no longer is, under the new key', async (ground) => {
    const pair = connectedPair(ground);
    const { b } = pair;
    const mr = b.p.allocMr(b.pd, 4096, ACCESS);
    expect(await writeStatus(pair, mr.addr, mr.rkey)).toBe('SUCCESS');
    const access = V.IBV_ACCESS_LOCAL_WRITE | V.IBV_ACCESS_REMOTE_READ;
    const changed = b.p.reregMr(mr.handle, { access });
    expect(changed).toMatchObject({ handle: mr.handle, addr: mr.addr, lengthBytes: 4096 });
    expect(await writeStatus(pair, changed.addr, changed.rkey)).toBe('REM_ACCESS_ERR');
    b.p.deregMr(mr.handle);
    closePair(pair);
  });

  it('protection domain: opens for the new one only', async (ground) => {
    const pair = connectedPair(ground);
    const { b } = pair;
    const other = b.p.allocPd(b.context);
    const mr = b.p.allocMr(other, 4096, ACCESS);
    const changed = b.p.reregMr(mr.handle, { pd: b.pd });
    b.p.deallocPd(other);
    expect(await writeStatus(pair, changed.addr, changed.rkey)).toBe('SUCCESS');
    expect(() => b.p.deallocPd(b.pd)).toThrow(/memory region/);
    b.p.deregMr(mr.handle);
    closePair(pair);
  });

  it('translation, and all three at once', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b } = pair;
    const other = b.p.allocPd(b.context);
    const [first, second] = [new ArrayBuffer(4096), new ArrayBuffer(16384)];
    const mr = b.p.regMr(other, first, 0, 4096, 0);
    const translation = { memory: second, byteOffset: 4096, lengthBytes: 8192 };
    const changed = b.p.reregMr(mr.handle, { pd: b.pd, access: ACCESS, translation });
    expect(changed).toMatchObject({ memory: second, byteOffset: 4096, lengthBytes: 8192 });
    a.bytes.fill(2, 0, 100);
    expect(await writeStatus(pair, changed.addr + 8092, changed.rkey)).toBe('SUCCESS');
    expect(new Uint8Array(second)[4096 + 8191]).toBe(2);
    expect(await writeStatus(pair, changed.addr + 8093, changed.rkey)).toBe('REM_ACCESS_ERR');
    b.p.deregMr(mr.handle);
    b.p.deallocPd(other);
    closePair(pair);
  });

  it('a change of nothing, or to what can not be, is refused and changes nothing', async (ground) => {
    const pair = connectedPair(ground);
    const { b } = pair;
    const first = b.p.allocMr(b.pd, 4096, 0);
    const mr = b.p.reregMr(first.handle, { access: ACCESS });
    const resizable = new (ArrayBuffer as unknown as new (n: number, o: object) => ArrayBuffer)(64, {
      maxByteLength: 128,
    });
    const wrong: [change: V.MrChange, code: string][] = [
      [{}, 'ISO_ERR_ARGUMENT'],
      [{ access: V.IBV_ACCESS_REMOTE_WRITE }, 'ISO_ERR_ARGUMENT'],
      [{ access: 1 << 12 }, 'ISO_ERR_ARGUMENT'],
      [{ pd: b.cq }, 'ISO_ERR_HANDLE'],
      [{ translation: { memory: resizable, byteOffset: 0, lengthBytes: 64 } }, 'ISO_ERR_MEMORY'],
      [{ translation: { memory: new ArrayBuffer(64), byteOffset: 0, lengthBytes: 65 } }, 'ISO_ERR_ARGUMENT'],
    ];
    for (const [change, code] of wrong) {
      expect(() => b.p.reregMr(mr.handle, change)).toThrow(
        expect.objectContaining({ code, verb: 'reregMr' }),
      );
    }
    expect(await writeStatus(pair, mr.addr, mr.rkey)).toBe('SUCCESS');
    b.p.deregMr(mr.handle);
    expect(() => b.p.reregMr(mr.handle, { access: 0 })).toThrow(/reregMr needs a live memory region/);
    closePair(pair);
  });
});
