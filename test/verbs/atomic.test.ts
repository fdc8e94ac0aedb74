// Atomic operations (counterpart of rdma-core's test_atomic.py).
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature } from './ground.ts';
import {
  ACCESS,
  closePair,
  connectedAgain,
  connectedPair,
  createQp,
  type Pair,
  polled,
  postSend,
  refusal,
  toInit,
  type Wc,
} from './rig.ts';
import { closeXrc, xrcPair } from './xrc-rig.ts';

const { IBV_SEND_SIGNALED: SIGNALED } = V;
const NOTES = { group: 'atomic', others: 'devices with atomic_cap above 0' };
const NO_ATOMIC = ACCESS & ~V.IBV_ACCESS_REMOTE_ATOMIC;
/** Offsets of the counter, and of its old value. */
const COUNTER_AT = 64;
const OLD_AT = 4096;

type Ends = Pick<Pair, 'a' | 'b' | 'qpA'>;

interface Where {
  addr?: number;
  rkey?: number;
  lkey?: number;
  oldAt?: number;
}

function words({ mr }: Pair['a'], offset: number, count = 1): BigUint64Array {
  return new BigUint64Array(mr.memory, mr.byteOffset + offset, count);
}

async function add({ a, b, qpA }: Ends, value: bigint, where: Where = {}): Promise<Wc> {
  const { addr = b.mr.addr + COUNTER_AT, rkey = b.mr.rkey, lkey = a.mr.lkey, oldAt = OLD_AT } = where;
  postSend(a, qpA.handle, (w) => w.fetchAdd(1, SIGNALED, a.mr.addr + oldAt, lkey, addr, rkey, value));
  return (await polled(a, 1))[0];
}

async function swap({ a, b, qpA }: Ends, compare: bigint, value: bigint, where: Where = {}): Promise<Wc> {
  const { addr = b.mr.addr + COUNTER_AT, rkey = b.mr.rkey, lkey = a.mr.lkey, oldAt = OLD_AT } = where;
  postSend(a, qpA.handle, (w) =>
    w.compareSwap(2, SIGNALED, a.mr.addr + oldAt, lkey, addr, rkey, compare, value),
  );
  return (await polled(a, 1))[0];
}

/** The status of an atomic that must change nothing at the peer. */
async function failedAdd(pair: Ends, where: Where): Promise<string> {
  words(pair.b, COUNTER_AT)[0] = 40n;
  const { status } = await add(pair, 1n, where);
  expect(words(pair.b, COUNTER_AT)[0]).toBe(40n);
  return status;
}

feature('atomic operations', NOTES, (it) => {
  it('FETCH_AND_ADD returns the old value and stores the sum', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b } = pair;
    words(b, COUNTER_AT)[0] = 40n;
    for (let i = 0n; i < 10n; i++) {
      expect(await add(pair, 3n)).toMatchObject({ status: 'SUCCESS', opcode: 'FETCH_ADD' });
      expect(words(a, OLD_AT)[0]).toBe(40n + 3n * i);
    }
    expect(words(b, COUNTER_AT)[0]).toBe(70n);
    closePair(pair);
  });

  it('FETCH_AND_ADD of all 64 bits wraps around', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b } = pair;
    words(b, COUNTER_AT)[0] = 0xffff_ffff_ffff_fff0n;
    await add(pair, 0x1_0000_0000_0000_0020n & 0xffff_ffff_ffff_ffffn);
    expect([words(a, OLD_AT)[0], words(b, COUNTER_AT)[0]]).toEqual([0xffff_ffff_ffff_fff0n, 0x10n]);
    await add(pair, 0xffff_ffff_ffff_ffffn);
    expect(words(b, COUNTER_AT)[0]).toBe(0xfn);
    closePair(pair);
  });

  it('CMP_AND_SWP swaps when the values are equal', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b } = pair;
    words(b, COUNTER_AT)[0] = 1n << 40n;
    expect(await swap(pair, 1n << 40n, 7n)).toMatchObject({ status: 'SUCCESS', opcode: 'COMP_SWAP' });
    expect([words(a, OLD_AT)[0], words(b, COUNTER_AT)[0]]).toEqual([1n << 40n, 7n]);
    closePair(pair);
  });

  it('CMP_AND_SWP of another value changes nothing and returns the current value', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b } = pair;
    // Only the upper half differs, because all 64 bits must be compared.
    words(b, COUNTER_AT)[0] = (1n << 40n) | 5n;
    expect(await swap(pair, 5n, 7n)).toMatchObject({ status: 'SUCCESS', opcode: 'COMP_SWAP' });
    expect([words(a, OLD_AT)[0], words(b, COUNTER_AT)[0]]).toEqual([(1n << 40n) | 5n, (1n << 40n) | 5n]);
    closePair(pair);
  });

  it('bytes next to the counter and to the old value do not change', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b } = pair;
    words(b, COUNTER_AT - 8, 3).set([11n, 22n, 33n]);
    words(a, OLD_AT - 8, 3).set([44n, 55n, 66n]);
    await add(pair, 100n);
    expect([...words(b, COUNTER_AT - 8, 3)]).toEqual([11n, 122n, 33n]);
    expect([...words(a, OLD_AT - 8, 3)]).toEqual([44n, 22n, 66n]);
    closePair(pair);
  });

  it('two queue pairs count together without losing an update', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b, qpA } = pair;
    const more = connectedAgain(pair);
    for (const qp of [qpA, more.qpA]) {
      postSend(a, qp.handle, (w) => {
        for (let i = 0; i < 16; i++) {
          const last = i === 15 ? SIGNALED : 0;
          w.fetchAdd(i, last, a.mr.addr + OLD_AT, a.mr.lkey, b.mr.addr + COUNTER_AT, b.mr.rkey, 2n);
        }
      });
    }
    expect((await polled(a, 2)).map(({ status }) => status)).toEqual(['SUCCESS', 'SUCCESS']);
    expect(words(b, COUNTER_AT)[0]).toBe(64n);
    a.p.destroyQp(more.qpA.handle);
    b.p.destroyQp(more.qpB.handle);
    closePair(pair);
  });

  it('the last eight bytes of a region are accessible, but none beyond', async (ground) => {
    const pair = connectedPair(ground);
    const { b } = pair;
    const { addr, lengthBytes } = b.mr;
    expect((await add(pair, 9n, { addr: addr + lengthBytes - 8 })).status).toBe('SUCCESS');
    expect(words(b, lengthBytes - 8)[0]).toBe(9n);
    expect(await failedAdd(pair, { addr: addr + lengthBytes })).toBe('REM_ACCESS_ERR');
    closePair(pair);
  });
});

feature('atomic operations that fail at the peer', NOTES, (it) => {
  it('a wrong rkey: REM_ACCESS_ERR, and later requests are flushed', async (ground) => {
    const pair = connectedPair(ground);
    expect(await failedAdd(pair, { rkey: pair.b.mr.rkey + 1 })).toBe('REM_ACCESS_ERR');
    expect((await add(pair, 1n)).status).toBe('WR_FLUSH_ERR');
    expect(words(pair.b, COUNTER_AT)[0]).toBe(40n);
    closePair(pair);
  });

  it('a region without IBV_ACCESS_REMOTE_ATOMIC: REM_ACCESS_ERR', async (ground) => {
    const pair = connectedPair(ground);
    const { b } = pair;
    const mr = b.p.allocMr(b.pd, 4096, NO_ATOMIC);
    const target = { addr: mr.addr, rkey: mr.rkey };
    expect((await add(pair, 1n, target)).status).toBe('REM_ACCESS_ERR');
    expect(new BigUint64Array(mr.memory, mr.byteOffset, 1)[0]).toBe(0n);
    b.p.deregMr(mr.handle);
    closePair(pair);
  });

  it('a queue pair without IBV_ACCESS_REMOTE_ATOMIC: REM_INV_REQ_ERR', async (ground) => {
    for (const op of [add, (pair: Pair) => swap(pair, 40n, 1n)]) {
      const pair = connectedPair(ground, { access: NO_ATOMIC });
      words(pair.b, COUNTER_AT)[0] = 40n;
      expect((await op(pair, 1n)).status).toBe('REM_INV_REQ_ERR');
      expect(words(pair.b, COUNTER_AT)[0]).toBe(40n);
      closePair(pair);
    }
  });

  it('CMP_AND_SWP with a wrong rkey, or beyond the region: REM_ACCESS_ERR', async (ground) => {
    for (const which of ['rkey', 'addr']) {
      const pair = connectedPair(ground);
      const { b } = pair;
      const where =
        which === 'rkey' ? { rkey: b.mr.rkey ^ 0x7f0000 } : { addr: b.mr.addr + b.mr.lengthBytes };
      expect((await swap(pair, 0n, 1n, where)).status).toBe('REM_ACCESS_ERR');
      expect(words(b, COUNTER_AT)[0]).toBe(0n);
      closePair(pair);
    }
  });
});

feature('atomic operations that fail at home', NOTES, (it) => {
  it('a wrong lkey, or one without write access: LOC_PROT_ERR', async (ground) => {
    const readOnly = (pair: Pair) => pair.a.p.allocMr(pair.a.pd, 4096, V.IBV_ACCESS_REMOTE_READ);
    for (const which of ['unknown', 'readOnly']) {
      const pair = connectedPair(ground);
      const mr = readOnly(pair);
      const lkey = which === 'unknown' ? pair.a.mr.lkey ^ 0x7f000000 : mr.lkey;
      const addr = which === 'unknown' ? pair.a.mr.addr : mr.addr;
      const { status } = await add(pair, 1n, { lkey, oldAt: addr - pair.a.mr.addr });
      expect(status).toBe('LOC_PROT_ERR');
      expect(new BigUint64Array(mr.memory, mr.byteOffset, 1)[0]).toBe(0n);
      pair.a.p.deregMr(mr.handle);
      closePair(pair);
    }
  });

  it('a remote address that is not aligned is refused when it is posted', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b, qpA } = pair;
    const { addr, rkey } = b.mr;
    for (const off of [1, 2, 4, 7]) {
      expect(
        refusal(a, qpA.handle, (w) => w.fetchAdd(1, 0, a.mr.addr, a.mr.lkey, addr + off, rkey, 1n)),
      ).toBe(V.REASON_ATOMIC);
      expect(
        refusal(a, qpA.handle, (w) => w.compareSwap(1, 0, a.mr.addr, a.mr.lkey, addr + off, rkey, 0n, 1n)),
      ).toBe(V.REASON_ATOMIC);
    }
    expect((await add(pair, 1n)).status).toBe('SUCCESS');
    closePair(pair);
  });

  it('two elements, or none, are refused when they are posted', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b, qpA } = pair;
    const two = refusal(a, qpA.handle, (w) =>
      w.fetchAdd(1, 0, a.mr.addr, a.mr.lkey, b.mr.addr, b.mr.rkey, 1n).sge(0, a.mr.addr + 64, 8, a.mr.lkey),
    );
    const inline = refusal(a, qpA.handle, (w) =>
      w.inline(1, V.IBV_WR_ATOMIC_FETCH_AND_ADD, 0, new Uint8Array(8)).remoteTo(0, b.mr.addr, b.mr.rkey),
    );
    expect(two).toBe(V.REASON_ATOMIC);
    expect(inline).not.toBe(V.REASON_NONE);
    expect((await add(pair, 1n)).status).toBe('SUCCESS');
    closePair(pair);
  });

  it('a queue pair that is not in RTS accepts none', (ground) => {
    const pair = connectedPair(ground);
    const { a, b } = pair;
    const fresh = createQp(a);
    const post = () =>
      refusal(a, fresh.handle, (w) => w.fetchAdd(1, 0, a.mr.addr, a.mr.lkey, b.mr.addr, b.mr.rkey, 1n));
    expect(post()).toBe(V.REASON_STATE);
    toInit(a, fresh.handle);
    expect(post()).toBe(V.REASON_STATE);
    a.p.destroyQp(fresh.handle);
    closePair(pair);
  });

  it('queue pairs without a connection accept none', (ground) => {
    for (const qpType of [V.IBV_QPT_UC, V.IBV_QPT_UD]) {
      const pair = connectedPair(ground, { qpType });
      const { a, b, qpA } = pair;
      const post = refusal(a, qpA.handle, (w) =>
        w.fetchAdd(1, 0, a.mr.addr, a.mr.lkey, b.mr.addr, b.mr.rkey, 1n),
      );
      expect(post).toBe(V.REASON_OPCODE);
      closePair(pair);
    }
  });
});

const XRC = { ...NOTES, refusedBy: ['rxe'] as const, others: 'devices with IBV_DEVICE_XRC: mlx4, mlx5' };
feature('atomic operations of XRC', XRC, (it) => {
  it('FETCH_AND_ADD', async (ground) => {
    const xrc = xrcPair(ground);
    const { a, b, sender, srqs } = xrc;
    words(b, COUNTER_AT)[0] = 40n;
    postSend(a, sender.handle, (w) =>
      w
        .fetchAdd(1, SIGNALED, a.mr.addr + OLD_AT, a.mr.lkey, b.mr.addr + COUNTER_AT, b.mr.rkey, 2n)
        .srqTo(0, srqs[0].srqNum),
    );
    expect(await polled(a, 1)).toMatchObject([{ wrId: 1, status: 'SUCCESS', opcode: 'FETCH_ADD' }]);
    expect([words(a, OLD_AT)[0], words(b, COUNTER_AT)[0]]).toEqual([40n, 42n]);
    closeXrc(xrc);
  });

  it('CMP_AND_SWP with the current value and with another', async (ground) => {
    const xrc = xrcPair(ground);
    const { a, b, sender, srqs } = xrc;
    words(b, COUNTER_AT)[0] = 40n;
    for (const [compare, value, after] of [
      [40n, 50n, 50n],
      [40n, 60n, 50n],
    ]) {
      postSend(a, sender.handle, (w) => {
        const { addr, rkey } = b.mr;
        w.compareSwap(1, SIGNALED, a.mr.addr + OLD_AT, a.mr.lkey, addr + COUNTER_AT, rkey, compare, value);
        w.srqTo(0, srqs[0].srqNum);
      });
      expect(await polled(a, 1)).toMatchObject([{ status: 'SUCCESS', opcode: 'COMP_SWAP' }]);
      expect(words(b, COUNTER_AT)[0]).toBe(after);
    }
    expect(words(a, OLD_AT)[0]).toBe(50n);
    closeXrc(xrc);
  });
});
