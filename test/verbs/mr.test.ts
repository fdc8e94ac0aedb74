// Memory regions: access flags, re-registration (counterpart of rdma-core's test_mr.py and test_relaxed_ordering.py).
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature } from './ground.ts';
import {
  ACCESS,
  closeEnd,
  closePair,
  connectedPair,
  openEnd,
  type Pair,
  polled,
  postRecv,
  postSend,
} from './rig.ts';

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

  it('one memory may be registered several times, each time with its own keys', async (ground) => {
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

  it('IBV_ACCESS_HUGETLB and IBV_ACCESS_RELAXED_ORDERING have no visible effect', async (ground) => {
    for (const flag of [V.IBV_ACCESS_RELAXED_ORDERING, V.IBV_ACCESS_HUGETLB]) {
      const pair = connectedPair(ground, { mrAccess: ACCESS | flag });
      pair.a.bytes.fill(4, 0, 100);
      expect(await writeStatus(pair, pair.b.mr.addr + 4096, pair.b.mr.rkey)).toBe('SUCCESS');
      expect(pair.b.bytes[4195]).toBe(4);
      closePair(pair);
    }
  });

  it('unknown access bits are rejected', (ground) => {
    const end = openEnd(ground, 0);
    expect(() => end.p.allocMr(end.pd, 4096, 1 << 12)).toThrow(/access must consist/);
    closeEnd(end);
  });
});

const NOTES = { group: 'mr', others: 'every device' };
const code = (name: string) => expect.objectContaining({ code: `ISO_ERR_${name}` });
/** The status of a request with a wrong local key. */
const wrongKey = (pair: Pair) => (pair.a.ground.name === 'rxe' ? 'LOC_QP_OP_ERR' : 'LOC_PROT_ERR');

async function readStatus({ a, qpA }: Pair, addr: number, rkey: number, bytes = 100): Promise<string> {
  postSend(a, qpA.handle, (w) => w.read(3, SIGNALED, a.mr.addr, bytes, a.mr.lkey, addr, rkey));
  return (await polled(a, 1))[0].status;
}

feature('registration', NOTES, (it) => {
  it('memory allocated by the provider is page-aligned, zeroed, and freed with the region', (ground) => {
    const end = openEnd(ground, 0);
    const mr = end.p.allocMr(end.pd, 10_000, ACCESS);
    expect([mr.addr % 4096, mr.lengthBytes]).toEqual([0, 10_000]);
    const bytes = new Uint8Array(mr.memory, mr.byteOffset, mr.lengthBytes);
    expect(bytes.every((byte) => byte === 0)).toBe(true);
    end.p.deregMr(mr.handle);
    expect(bytes.byteLength).toBe(0);
    closeEnd(end);
  });

  it('the caller’s memory, private or shared, whole or in part, outlives the region', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b } = pair;
    a.bytes.fill(7, 0, 100);
    for (const memory of [new ArrayBuffer(8192), new SharedArrayBuffer(8192)]) {
      const mr = b.p.regMr(b.pd, memory, 1001, 500, ACCESS);
      expect(mr).toMatchObject({ memory, byteOffset: 1001, lengthBytes: 500 });
      expect(await writeStatus(pair, mr.addr + 400, mr.rkey)).toBe('SUCCESS');
      b.p.deregMr(mr.handle);
      const bytes = new Uint8Array(memory);
      expect([bytes[1400], bytes[1401], bytes[1500], bytes[1501]]).toEqual([0, 7, 7, 0]);
    }
    closePair(pair);
  });

  it('lengths and offsets outside the memory are refused', (ground) => {
    const end = openEnd(ground, 0);
    const memory = new ArrayBuffer(4096);
    for (const [offset, bytes] of [
      [0, 0],
      [0, 4097],
      [1, 4096],
      [4096, 1],
      [-1, 10],
      [0, -1],
      [0.5, 10],
      [0, 1.5],
      [0, Number.NaN],
      [2 ** 53, 1],
    ]) {
      expect(() => end.p.regMr(end.pd, memory, offset, bytes, ACCESS)).toThrow(code('ARGUMENT'));
    }
    for (const bytes of [0, -1, 0.5, Number.NaN, 2 ** 53]) {
      expect(() => end.p.allocMr(end.pd, bytes, ACCESS)).toThrow(code('ARGUMENT'));
    }
    closeEnd(end);
  });

  it('invalid memory, and memory that may move, is rejected', (ground) => {
    const end = openEnd(ground, 0);
    const detached = new ArrayBuffer(64);
    structuredClone(detached, { transfer: [detached] });
    const resizable = new (ArrayBuffer as unknown as new (n: number, o: object) => ArrayBuffer)(64, {
      maxByteLength: 128,
    });
    for (const memory of [detached, resizable, new ArrayBuffer(0)]) {
      expect(() => end.p.regMr(end.pd, memory, 0, 1, ACCESS)).toThrow(code('MEMORY'));
    }
    for (const memory of [undefined, null, 5, 'abc', {}, [], new Uint8Array(64)]) {
      expect(() => end.p.regMr(end.pd, memory as ArrayBuffer, 0, 1, ACCESS)).toThrow(V.IsoverbsError);
    }
    closeEnd(end);
  });

  it('requires a live protection domain', (ground) => {
    const end = openEnd(ground, 0);
    const gone = end.p.allocPd(end.context);
    end.p.deallocPd(gone);
    for (const pd of [gone, 0, -1, end.cq, end.context, Number.NaN]) {
      expect(() => end.p.allocMr(pd, 64, 0)).toThrow(code('HANDLE'));
      expect(() => end.p.regMr(pd, new ArrayBuffer(64), 0, 64, 0)).toThrow(code('HANDLE'));
    }
    for (const mr of [0, -1, end.pd, end.cq, Number.NaN]) {
      expect(() => end.p.deregMr(mr)).toThrow(code('HANDLE'));
    }
    closeEnd(end);
  });

  it('remote writes and atomics require local write, for memory of either kind', (ground) => {
    const end = openEnd(ground, 0);
    for (const access of [V.IBV_ACCESS_REMOTE_WRITE, V.IBV_ACCESS_REMOTE_ATOMIC]) {
      expect(() => end.p.allocMr(end.pd, 64, access)).toThrow(code('ARGUMENT'));
      expect(() => end.p.regMr(end.pd, new ArrayBuffer(64), 0, 64, access)).toThrow(code('ARGUMENT'));
    }
    closeEnd(end);
  });

  it('many regions: all keys differ, and the key of one gives no access to another', async (ground) => {
    const pair = connectedPair(ground);
    const { b } = pair;
    const mrs = Array.from({ length: 100 }, () => b.p.allocMr(b.pd, 4096, ACCESS));
    expect(new Set(mrs.map(({ rkey }) => rkey)).size).toBe(100);
    expect(new Set(mrs.map(({ lkey }) => lkey)).size).toBe(100);
    expect(await writeStatus(pair, mrs[99].addr, mrs[99].rkey)).toBe('SUCCESS');
    expect(await writeStatus(pair, mrs[0].addr, mrs[1].rkey)).toBe('REM_ACCESS_ERR');
    for (const { handle } of mrs) b.p.deregMr(handle);
    closePair(pair);
  });

  it('a region of 16 MiB can be written up to its last byte', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b } = pair;
    const bytes = 1 << 24;
    const mr = b.p.allocMr(b.pd, bytes, ACCESS);
    a.bytes.fill(9, 0, 100);
    expect(await writeStatus(pair, mr.addr + bytes - 100, mr.rkey)).toBe('SUCCESS');
    expect(new Uint8Array(mr.memory, mr.byteOffset)[bytes - 1]).toBe(9);
    b.p.deregMr(mr.handle);
    closePair(pair);
  });
});

feature('what a region allows', NOTES, (it) => {
  it('peers access a region from its first byte to its last', async (ground) => {
    const pair = connectedPair(ground);
    const { b } = pair;
    const mr = b.p.allocMr(b.pd, 5000, ACCESS);
    expect(await writeStatus(pair, mr.addr, mr.rkey)).toBe('SUCCESS');
    expect(await writeStatus(pair, mr.addr + 4900, mr.rkey)).toBe('SUCCESS');
    expect(await readStatus(pair, mr.addr + 4900, mr.rkey)).toBe('SUCCESS');
    b.p.deregMr(mr.handle);
    closePair(pair);
  });

  for (const [name, off] of [
    ['before its first byte', -1],
    ['beyond its last', 4901],
  ] as const) {
    for (const op of ['WRITE', 'READ']) {
      it(`no ${op} ${name}: REM_ACCESS_ERR`, async (ground) => {
        const pair = connectedPair(ground);
        const { b } = pair;
        const mr = b.p.allocMr(b.pd, 5000, ACCESS);
        const status = op === 'READ' ? readStatus : writeStatus;
        pair.a.bytes.fill(5, 0, 100);
        expect(await status(pair, mr.addr + off, mr.rkey)).toBe('REM_ACCESS_ERR');
        expect(new Uint8Array(mr.memory, mr.byteOffset, 5000).every((byte) => byte === 0)).toBe(true);
        b.p.deregMr(mr.handle);
        closePair(pair);
      });
    }
  }

  for (const [op, lacking] of [
    ['WRITE', V.IBV_ACCESS_REMOTE_WRITE],
    ['READ', V.IBV_ACCESS_REMOTE_READ],
  ] as const) {
    it(`no ${op} without its flag: REM_ACCESS_ERR`, async (ground) => {
      const pair = connectedPair(ground);
      const { b } = pair;
      const mr = b.p.allocMr(b.pd, 4096, ACCESS & ~lacking);
      const [allowed, refused] = op === 'READ' ? [writeStatus, readStatus] : [readStatus, writeStatus];
      expect(await allowed(pair, mr.addr, mr.rkey)).toBe('SUCCESS');
      expect(await refused(pair, mr.addr, mr.rkey)).toBe('REM_ACCESS_ERR');
      b.p.deregMr(mr.handle);
      closePair(pair);
    });
  }

  it('keys are invalid after deregistration at both ends', async (ground) => {
    for (const where of ['there', 'here']) {
      const pair = connectedPair(ground);
      const end = where === 'there' ? pair.b : pair.a;
      const mr = end.p.allocMr(end.pd, 4096, ACCESS);
      end.p.deregMr(mr.handle);
      const { b } = pair;
      if (where === 'there') expect(await writeStatus(pair, mr.addr, mr.rkey)).toBe('REM_ACCESS_ERR');
      else expect(await writeStatus(pair, b.mr.addr, b.mr.rkey, mr.lkey)).toBe(wrongKey(pair));
      closePair(pair);
    }
  });

  it('read-only memory can be sent from, but not received into', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b, qpA, qpB } = pair;
    const [source, sink] = [a.p.allocMr(a.pd, 4096, 0), b.p.allocMr(b.pd, 4096, 0)];
    new Uint8Array(source.memory, source.byteOffset).fill(6, 0, 64);
    postSend(a, qpA.handle, (w) => w.write(1, SIGNALED, source.addr, 64, source.lkey, b.mr.addr, b.mr.rkey));
    expect(await polled(a, 1)).toMatchObject([{ wrId: 1, status: 'SUCCESS' }]);
    expect(b.bytes[63]).toBe(6);
    postRecv({ ...b, mr: sink }, qpB.handle, 2, 0, 64);
    postSend(a, qpA.handle, (w) => w.send(3, SIGNALED, source.addr, 64, source.lkey));
    // soft-RoCE reports LOC_QP_OP_ERR for any key that does not match.
    const status = ground.name === 'rxe' ? 'LOC_QP_OP_ERR' : 'LOC_PROT_ERR';
    expect((await polled(b, 1))[0]).toMatchObject({ wrId: 2, status });
    expect((await polled(a, 1))[0]).toMatchObject({ wrId: 3, status: 'REM_OP_ERR' });
    expect(new Uint8Array(sink.memory, sink.byteOffset)[0]).toBe(0);
    a.p.deregMr(source.handle);
    b.p.deregMr(sink.handle);
    closePair(pair);
  });

  it('local elements outside their region: LOC_PROT_ERR', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b, qpA } = pair;
    const mr = a.p.allocMr(a.pd, 4096, ACCESS);
    postSend(a, qpA.handle, (w) => w.write(1, SIGNALED, mr.addr + 4000, 97, mr.lkey, b.mr.addr, b.mr.rkey));
    expect((await polled(a, 1))[0]).toMatchObject({ wrId: 1, status: 'LOC_PROT_ERR' });
    a.p.deregMr(mr.handle);
    closePair(pair);
  });
});

feature(
  'zero-based memory regions',
  { group: 'mr', others: 'devices that honour IBV_ACCESS_ZERO_BASED' },
  (it) => {
    it('are accessible at the address that registration returns', async (ground) => {
      const pair = connectedPair(ground);
      const { a, b } = pair;
      const mr = b.p.allocMr(b.pd, 8192, ACCESS | V.IBV_ACCESS_ZERO_BASED);
      if (ground.name !== 'rxe') expect(mr.addr).toBe(0);
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

const paging = {
  group: 'odp',
  refusedBy: ['sim', 'soft', 'rxe'] as const,
  others: 'devices with on-demand paging',
};
feature('on-demand paging', paging, (it) => {
  it('a region whose pages are not pinned works', (ground) => {
    const end = openEnd(ground, 0);
    end.p.allocMr(end.pd, 4096, ACCESS | V.IBV_ACCESS_ON_DEMAND);
  });
});

const dmabuf = {
  group: 'mr',
  refusedBy: ['sim', 'soft', 'rxe'] as const,
  others: 'devices with dma-buf import (mlx5 ...)',
};
feature('dma-buf import', dmabuf, (it) => {
  it('memory of another device can be registered', (ground) => {
    const end = openEnd(ground, 0);
    end.p.regDmabufMr(end.pd, 0, 4096, 0, 1, ACCESS);
  });
});

const rereg = { group: 'mr', refusedBy: ['rxe'] as const, others: 'devices with ibv_rereg_mr' };
feature('re-registration', rereg, (it) => {
  it('access: revoked rights no longer apply under the new key', async (ground) => {
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

  it('protection domain: only the new one has access', async (ground) => {
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

  it('translation changes, alone and with the others', async (ground) => {
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

  it('an empty or invalid change is rejected and changes nothing', async (ground) => {
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
