// Memory windows and invalidation (counterpart of the MW cases of rdma-core's test_mr.py, and more).
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature, type Ground } from './ground.ts';
import {
  ACCESS,
  closePair,
  connectedAgain,
  connectedPair,
  type End,
  openEnd,
  type Pair,
  polled,
  postRecv,
  postSend,
} from './rig.ts';

const { IBV_SEND_SIGNALED: SIGNALED, IBV_ACCESS_REMOTE_WRITE: WRITE, IBV_ACCESS_REMOTE_READ: READ } = V;
const WINDOW_AT = 8192;
const WINDOW_BYTES = 4096;

/** Two connected ends, and a window of `b`. */
interface WindowPair extends Pair {
  mw: V.MwInfo;
}

function windowPair(ground: Ground, type: number): WindowPair {
  const pair = connectedPair(ground, { mrAccess: ACCESS | V.IBV_ACCESS_MW_BIND });
  return { ...pair, mw: pair.b.p.allocMw(pair.b.pd, type) };
}

function closeWindowPair(pair: WindowPair): void {
  pair.b.p.deallocMw(pair.mw.handle);
  closePair(pair);
}

interface Bind {
  mr?: number;
  addr?: number;
  lengthBytes?: number;
  access?: number;
  /** For type 2: the increment of the low byte of the window's current key. */
  step?: number;
}

/** Posts a bind of the window by `b` and returns the resulting key. */
function postBind({ b, qpB, mw }: WindowPair, bind: Bind = {}): number {
  const {
    mr = b.mr.handle,
    addr = b.mr.addr + WINDOW_AT,
    lengthBytes = WINDOW_BYTES,
    access = WRITE | READ,
    step = 1,
  } = bind;
  const { rkey } = b.p.queryMw(mw.handle);
  const key = ((rkey & ~0xff) | ((rkey + step) & 0xff)) >>> 0;
  postSend(b, qpB.handle, (batch) =>
    batch.bindMw(1, SIGNALED, mw.handle, mr, addr, lengthBytes, access, mw.type === 2 ? key : 0),
  );
  return b.p.queryMw(mw.handle).rkey;
}

async function bound(pair: WindowPair, bind?: Bind): Promise<number> {
  const key = postBind(pair, bind);
  expect(await polled(pair.b, 1)).toMatchObject([{ wrId: 1, status: 'SUCCESS', opcode: 'BIND_MW' }]);
  return key;
}

/** The status of a WRITE by `a` of 100 bytes to `addr` at the peer. */
async function writeStatus({ a, qpA }: Pair, addr: number, rkey: number): Promise<string> {
  postSend(a, qpA.handle, (batch) => batch.write(2, SIGNALED, a.mr.addr, 100, a.mr.lkey, addr, rkey));
  return (await polled(a, 1))[0].status;
}

/** soft-RoCE only checks the bounds of the region. */
const outOfWindow = (ground: Ground) => (ground.name === 'rxe' ? 'SUCCESS' : 'REM_ACCESS_ERR');

const windowAddr = (end: End) => end.mr.addr + WINDOW_AT;

for (const type of [V.IBV_MW_TYPE_1, V.IBV_MW_TYPE_2]) {
  const notes = {
    group: 'mr',
    others: 'devices with IBV_DEVICE_MEM_WINDOW or IBV_DEVICE_MEM_WINDOW_TYPE_2B',
  };
  feature(`memory windows of type ${type}`, notes, (it) => {
    it('are allocated with a key and deallocated', (ground) => {
      const end = openEnd(ground, 0);
      const { p } = end;
      const mw = p.allocMw(end.pd, type);
      expect(mw).toMatchObject({ type, rkey: expect.any(Number) });
      expect(p.queryMw(mw.handle)).toEqual(mw);
      expect(() => p.deallocPd(end.pd)).toThrow(expect.objectContaining({ code: 'ISO_ERR_BUSY' }));
      p.deallocMw(mw.handle);
      expect(() => p.queryMw(mw.handle)).toThrow(expect.objectContaining({ code: 'ISO_ERR_HANDLE' }));
      expect(() => p.deallocMw(mw.handle)).toThrow(expect.objectContaining({ code: 'ISO_ERR_HANDLE' }));
      expect(() => p.allocMw(end.pd, 3)).toThrow(expect.objectContaining({ code: 'ISO_ERR_ARGUMENT' }));
      p.destroyCq(end.cq);
      p.deregMr(end.mr.handle);
      p.deallocPd(end.pd);
      p.closeDevice(end.context);
    });

    it('give access to the bound range under their own key', async (ground) => {
      const pair = windowPair(ground, type);
      const { a, b, qpA, mw } = pair;
      const key = await bound(pair);
      expect(key).not.toBe(mw.rkey);
      a.bytes.fill(9, 0, 100);
      expect(await writeStatus(pair, windowAddr(b), key)).toBe('SUCCESS');
      expect(b.bytes.subarray(WINDOW_AT, WINDOW_AT + 100).every((byte) => byte === 9)).toBe(true);
      b.bytes.fill(5, WINDOW_AT + 4000, WINDOW_AT + WINDOW_BYTES);
      postSend(a, qpA.handle, (batch) =>
        batch.read(3, SIGNALED, a.mr.addr + 1000, 96, a.mr.lkey, windowAddr(b) + 4000, key),
      );
      expect(await polled(a, 1)).toMatchObject([{ wrId: 3, status: 'SUCCESS', opcode: 'RDMA_READ' }]);
      expect(a.bytes.subarray(1000, 1096).every((byte) => byte === 5)).toBe(true);
      closeWindowPair(pair);
    });

    it('give no access before and after their range (soft-RoCE: the whole region)', async (ground) => {
      for (const offset of [-1, WINDOW_BYTES - 99]) {
        const pair = windowPair(ground, type);
        const key = await bound(pair);
        expect(await writeStatus(pair, windowAddr(pair.b) + offset, key)).toBe(outOfWindow(ground));
        closeWindowPair(pair);
      }
    });

    it('allow no more than the access they were bound with', async (ground) => {
      const pair = windowPair(ground, type);
      const key = await bound(pair, { access: READ });
      expect(await writeStatus(pair, windowAddr(pair.b), key)).toBe('REM_ACCESS_ERR');
      closeWindowPair(pair);
    });

    it('give no access before they are bound', async (ground) => {
      const pair = windowPair(ground, type);
      expect(await writeStatus(pair, windowAddr(pair.b), pair.mw.rkey)).toBe('REM_ACCESS_ERR');
      closeWindowPair(pair);
    });

    it('a SEND behind the bind may carry the key to the peer', async (ground) => {
      const pair = windowPair(ground, type);
      const { a, b, qpA, qpB, mw } = pair;
      postRecv(a, qpA.handle, 7, 0, 64);
      const given = ((mw.rkey & ~0xff) | ((mw.rkey + 1) & 0xff)) >>> 0;
      postSend(b, qpB.handle, (batch) => {
        batch.bindMw(1, 0, mw.handle, b.mr.handle, windowAddr(b), WINDOW_BYTES, WRITE, given);
        batch.send(2, SIGNALED, b.mr.addr, 8, b.mr.lkey);
      });
      expect(await polled(a, 1)).toMatchObject([{ wrId: 7, status: 'SUCCESS' }]);
      expect(await polled(b, 1)).toMatchObject([{ wrId: 2, status: 'SUCCESS' }]);
      expect(await writeStatus(pair, windowAddr(b), b.p.queryMw(mw.handle).rkey)).toBe('SUCCESS');
      closeWindowPair(pair);
    });

    it('a region without IBV_ACCESS_MW_BIND: MW_BIND_ERR, and the queue pair fails', async (ground) => {
      const pair = windowPair(ground, type);
      const { b, qpB } = pair;
      const mr = b.p.allocMr(b.pd, 4096, ACCESS);
      postBind(pair, { mr: mr.handle, addr: mr.addr, lengthBytes: 4096 });
      expect(await polled(b, 1)).toMatchObject([{ wrId: 1, status: 'MW_BIND_ERR' }]);
      expect(b.p.queryQp(qpB.handle).attr.qpState).toBe(V.IBV_QPS_ERR);
      b.p.deregMr(mr.handle);
      closeWindowPair(pair);
    });

    it('a writable window requires a writable region', async (ground) => {
      const pair = windowPair(ground, type);
      const { b } = pair;
      const mr = b.p.allocMr(b.pd, 4096, V.IBV_ACCESS_MW_BIND | READ);
      postBind(pair, { mr: mr.handle, addr: mr.addr, lengthBytes: 4096, access: WRITE });
      expect(await polled(b, 1)).toMatchObject([{ wrId: 1, status: 'MW_BIND_ERR' }]);
      b.p.deregMr(mr.handle);
      closeWindowPair(pair);
    });

    it('a region with a bound window cannot be deregistered', async (ground) => {
      const pair = windowPair(ground, type);
      const { b, mw } = pair;
      const mr = b.p.allocMr(b.pd, 4096, ACCESS | V.IBV_ACCESS_MW_BIND);
      await bound(pair, { mr: mr.handle, addr: mr.addr, lengthBytes: 4096 });
      expect(() => b.p.deregMr(mr.handle)).toThrow(expect.objectContaining({ code: 'ISO_ERR_BUSY' }));
      b.p.deallocMw(mw.handle);
      b.p.deregMr(mr.handle);
      closePair(pair);
    });

    it('a window that is deallocated while bound no longer grants access', async (ground) => {
      const pair = windowPair(ground, type);
      const key = await bound(pair);
      pair.b.p.deallocMw(pair.mw.handle);
      expect(await writeStatus(pair, windowAddr(pair.b), key)).toBe('REM_ACCESS_ERR');
      closePair(pair);
    });

    it('a bind that names no window, no region, or a range outside is refused when it is posted', (ground) => {
      const pair = windowPair(ground, type);
      const { b, qpB, mw } = pair;
      const batch = new V.SendBatch(b.p, { capacity: 1 });
      const other = b.p.allocPd(b.context);
      const foreign = b.p.allocMr(other, 4096, ACCESS | V.IBV_ACCESS_MW_BIND);
      const wrong: [window: number, region: number, addr: number, lengthBytes: number][] = [
        [b.mr.handle, b.mr.handle, b.mr.addr, 64],
        [0, b.mr.handle, b.mr.addr, 64],
        [mw.handle, mw.handle, b.mr.addr, 64],
        [mw.handle, 0, b.mr.addr, 64],
        [mw.handle, foreign.handle, foreign.addr, 64],
        [mw.handle, b.mr.handle, b.mr.addr - 1, 64],
        [mw.handle, b.mr.handle, b.mr.addr + b.mr.lengthBytes - 63, 64],
      ];
      for (const [window, region, addr, lengthBytes] of wrong) {
        batch.clear().bindMw(1, 0, window, region, addr, lengthBytes, WRITE, 1);
        expect([b.p.postSend(qpB.handle, batch.ring, 0, 1), batch.reason]).toEqual([0, V.REASON_WINDOW]);
        expect(b.p.validateSend(qpB.handle, batch.ring, 0)).toBe(V.EINVAL);
      }
      expect(b.p.queryMw(mw.handle)).toEqual(mw);
      batch.close();
      b.p.deregMr(foreign.handle);
      b.p.deallocPd(other);
      closeWindowPair(pair);
    });
  });
}

feature('memory windows of type 1: rebinding', { group: 'mr', others: 'IBV_DEVICE_MEM_WINDOW' }, (it) => {
  it('each bind changes the key and invalidates the previous one', async (ground) => {
    const pair = windowPair(ground, V.IBV_MW_TYPE_1);
    const first = await bound(pair);
    const second = await bound(pair);
    expect(second).not.toBe(first);
    expect(await writeStatus(pair, windowAddr(pair.b), second)).toBe('SUCCESS');
    expect(await writeStatus(pair, windowAddr(pair.b), first)).toBe('REM_ACCESS_ERR');
    closeWindowPair(pair);
  });

  it('a bind of length 0 unbinds', async (ground) => {
    const pair = windowPair(ground, V.IBV_MW_TYPE_1);
    await bound(pair);
    const key = await bound(pair, { mr: 0, addr: 0, lengthBytes: 0, access: 0 });
    expect(await writeStatus(pair, windowAddr(pair.b), key)).toBe('REM_ACCESS_ERR');
    closeWindowPair(pair);
  });

  it('any queue pair of the protection domain may use the window', async (ground) => {
    const pair = windowPair(ground, V.IBV_MW_TYPE_1);
    const key = await bound(pair);
    const { a, b } = pair;
    const other = connectedAgain(pair);
    expect(await writeStatus({ ...pair, qpA: other.qpA }, windowAddr(b), key)).toBe('SUCCESS');
    a.p.destroyQp(other.qpA.handle);
    b.p.destroyQp(other.qpB.handle);
    closeWindowPair(pair);
  });
});

feature(
  'memory windows of type 2: invalidation',
  { group: 'mr', others: 'IBV_DEVICE_MEM_WINDOW_TYPE_2B' },
  (it) => {
    it('LOCAL_INV closes the window, which may then be bound again', async (ground) => {
      const pair = windowPair(ground, V.IBV_MW_TYPE_2);
      const { b, qpB } = pair;
      const first = await bound(pair);
      postSend(b, qpB.handle, (batch) => batch.localInv(4, SIGNALED, first));
      expect(await polled(b, 1)).toMatchObject([{ wrId: 4, status: 'SUCCESS', opcode: 'LOCAL_INV' }]);
      const second = await bound(pair);
      expect(await writeStatus(pair, windowAddr(b), second)).toBe('SUCCESS');
      expect(await writeStatus(pair, windowAddr(b), first)).toBe('REM_ACCESS_ERR');
      closeWindowPair(pair);
    });

    it("the peer's SEND_WITH_INV closes the window, and the receive reports the key", async (ground) => {
      const pair = windowPair(ground, V.IBV_MW_TYPE_2);
      const { a, b, qpA, qpB } = pair;
      const key = await bound(pair);
      postRecv(b, qpB.handle, 7, 0, 64);
      a.bytes.fill(3, 0, 64);
      postSend(a, qpA.handle, (batch) => batch.sendInv(5, SIGNALED, a.mr.addr, 64, a.mr.lkey, key));
      expect(await polled(a, 1)).toMatchObject([{ wrId: 5, status: 'SUCCESS', opcode: 'SEND' }]);
      const [wc] = await polled(b, 1);
      expect(wc).toMatchObject({ wrId: 7, status: 'SUCCESS', opcode: 'RECV', byteLen: 64 });
      // soft-RoCE sets IBV_WC_GRH on every receive.
      expect([wc.imm, wc.flags & ~V.IBV_WC_GRH]).toEqual([key, V.IBV_WC_WITH_INV]);
      expect(b.bytes[63]).toBe(3);
      expect(await writeStatus(pair, windowAddr(b), key)).toBe('REM_ACCESS_ERR');
      closeWindowPair(pair);
    });

    it('a bound window cannot be bound again: MW_BIND_ERR', async (ground) => {
      const pair = windowPair(ground, V.IBV_MW_TYPE_2);
      await bound(pair);
      postBind(pair);
      expect(await polled(pair.b, 1)).toMatchObject([{ status: 'MW_BIND_ERR' }]);
      closeWindowPair(pair);
    });

    it('a bind of length 0 is refused when it is posted: only an invalidation unbinds', (ground) => {
      const pair = windowPair(ground, V.IBV_MW_TYPE_2);
      expect(() => postBind(pair, { mr: 0, addr: 0, lengthBytes: 0, access: 0 })).toThrow(
        V.REASON_TEXT[V.REASON_WINDOW],
      );
      closeWindowPair(pair);
    });

    // This must not be the key of a window that was never bound, which crashes the kernel with soft-RoCE of Linux 6.1.
    it("the peer's SEND_WITH_INV of an unknown key fails both ends (soft-RoCE: the receiver)", async (ground) => {
      for (const keyOf of [(end: End) => end.mr.rkey, (end: End) => (end.mr.rkey ^ 0x7f00_0000) >>> 0]) {
        const pair = windowPair(ground, V.IBV_MW_TYPE_2);
        const { a, b, qpA, qpB } = pair;
        postRecv(b, qpB.handle, 6, 0, 64);
        postSend(a, qpA.handle, (batch) => batch.sendInv(5, SIGNALED, a.mr.addr, 8, a.mr.lkey, keyOf(b)));
        const status = ground.name === 'rxe' ? 'SUCCESS' : 'REM_ACCESS_ERR';
        expect(await polled(a, 1)).toMatchObject([{ wrId: 5, status }]);
        expect(await polled(b, 1)).toMatchObject([{ wrId: 6, status: 'REM_INV_REQ_ERR' }]);
        expect(b.p.queryQp(qpB.handle).attr.qpState).toBe(V.IBV_QPS_ERR);
        closeWindowPair(pair);
      }
    });

    it("a key other than a type 2 window's is not invalidated: LOC_QP_OP_ERR", async (ground) => {
      for (const keyOf of [(end: End) => end.mr.rkey, (end: End) => (end.mr.rkey ^ 0x7f00_0000) >>> 0]) {
        const pair = windowPair(ground, V.IBV_MW_TYPE_2);
        const { b, qpB } = pair;
        postSend(b, qpB.handle, (batch) => {
          batch.localInv(4, SIGNALED, keyOf(b));
          batch.localInv(5, 0, keyOf(b));
        });
        expect(await polled(b, 2)).toMatchObject([
          { wrId: 4, status: 'LOC_QP_OP_ERR' },
          { wrId: 5, status: 'WR_FLUSH_ERR' },
        ]);
        closeWindowPair(pair);
      }
    });

    it('a window gives no access to another queue pair', async (ground) => {
      const pair = windowPair(ground, V.IBV_MW_TYPE_2);
      const { a, b } = pair;
      const key = await bound(pair);
      const other = connectedAgain(pair);
      expect(await writeStatus({ ...pair, qpA: other.qpA }, windowAddr(b), key)).toBe('REM_ACCESS_ERR');
      expect(await writeStatus(pair, windowAddr(b), key)).toBe('SUCCESS');
      a.p.destroyQp(other.qpA.handle);
      b.p.destroyQp(other.qpB.handle);
      closeWindowPair(pair);
    });

    it('zero-based: remote addresses count from its first byte', async (ground) => {
      const pair = windowPair(ground, V.IBV_MW_TYPE_2);
      const { a, b } = pair;
      const key = await bound(pair, { access: WRITE | V.IBV_ACCESS_ZERO_BASED });
      a.bytes.fill(8, 0, 100);
      expect(await writeStatus(pair, 40, key)).toBe('SUCCESS');
      expect(b.bytes[WINDOW_AT + 39]).toBe(0);
      expect(b.bytes.subarray(WINDOW_AT + 40, WINDOW_AT + 140).every((byte) => byte === 8)).toBe(true);
      expect(await writeStatus(pair, WINDOW_BYTES - 99, key)).toBe(outOfWindow(ground));
      closeWindowPair(pair);
    });
  },
);
