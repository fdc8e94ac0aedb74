// Extended completion queues: the same completions as plain ones, and timestamps (test_cqex.py of rdma-core).
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { completions, feature, type Ground } from './ground.ts';
import {
  addressHandle,
  closeEnd,
  closePair,
  connect,
  connectedPair,
  createQp,
  type End,
  openEnd,
  polled,
  postRecv,
  postSend,
  postShared,
  QKEY,
  replaceCq,
  type Wc,
} from './rig.ts';
import { closeXrc, xrcPair } from './xrc-rig.ts';

const SIGNALED = V.IBV_SEND_SIGNALED;
const code = (name: string) => expect.objectContaining({ code: `ISO_ERR_${name}` });

/** A queue pair connected to itself, on a completion queue with these options. */
function open(ground: Ground, options: V.CqOptions) {
  const end = openEnd(ground, 0);
  const cq = end.p.createCq(end.context, 64, 0, options).handle;
  const qp = createQp(end, {
    sendCq: cq,
    recvCq: cq,
    cap: { maxSendWr: 64, maxRecvWr: 64, maxSendSge: 4, maxRecvSge: 4, maxInlineData: 64 },
  });
  connect(end, qp.handle, end, qp.qpNum);
  const close = () => {
    end.p.destroyQp(qp.handle);
    end.p.destroyCq(cq);
    closeEnd(end);
  };
  return { end, cq, qp: qp.handle, close };
}

/** One completion of each kind, ending with a failed one and flushed ones. */
async function everyKind(end: End, qp: number, cq: number): Promise<Wc[]> {
  const { addr, lkey, rkey } = end.mr;
  for (let i = 0; i < 6; i++) postRecv(end, qp, 100 + i, 4096 * (i + 1), 4096);
  postSend(end, qp, (batch) => {
    batch.send(1, SIGNALED, addr, 1000, lkey);
    batch.sendImm(2, SIGNALED, addr, 3, lkey, 0x12345678);
    batch.write(3, SIGNALED, addr, 5, lkey, addr + 512, rkey);
    batch.writeImm(4, SIGNALED, addr, 5, lkey, addr + 512, rkey, 99);
    batch.read(5, SIGNALED, addr + 1024, 7, lkey, addr, rkey);
    batch.fetchAdd(6, SIGNALED, addr + 2048, lkey, addr + 64, rkey, 5n);
    batch.compareSwap(7, SIGNALED, addr + 2056, lkey, addr + 64, rkey, 5n, 9n);
    batch.inline(8, V.IBV_WR_SEND, SIGNALED, new Uint8Array([9, 8, 7]));
    batch.wrId(7, 0xdeadbeef, 0x12345);
  });
  const good = await polled(end, 12, cq);
  postSend(end, qp, (batch) => {
    batch.write(20, SIGNALED, addr, 5, lkey, addr, rkey ^ 0xff00);
    batch.write(21, SIGNALED, addr, 5, lkey, addr, rkey);
  });
  const bad = await polled(end, 4, cq);
  // The other fields of a failed completion differ between devices.
  const known = ({ wrId, status, qpNum }: Wc) =>
    ({ wrId, status, opcode: '', byteLen: 0, flags: 0, imm: 0, qpNum, srcQp: 0, srq: 0 }) satisfies Wc;
  return [...good, ...bad.map(known)];
}

const comparable = (wcs: Wc[]) =>
  wcs.map(({ qpNum: _, srcQp: __, ...rest }) => rest).sort((a, b) => a.wrId - b.wrId);

feature('extended completion queues', { group: 'cqex', others: 'mlx4, mlx5, efa' }, (it) => {
  it('report the same completions as plain ones', async (ground) => {
    const plain = open(ground, {});
    const expected = await everyKind(plain.end, plain.qp, plain.cq);
    plain.close();
    const extended = open(ground, { wcFlags: V.IBV_WC_STANDARD_FLAGS });
    expect(comparable(await everyKind(extended.end, extended.qp, extended.cq))).toEqual(comparable(expected));
    extended.close();
  });

  it('can be polled in parts across the end of the ring', async (ground) => {
    const { end, cq, qp, close } = open(ground, { wcFlags: V.IBV_WC_STANDARD_FLAGS });
    const { addr, lkey, rkey } = end.mr;
    const seen: number[] = [];
    for (let round = 0; round < 20; round++) {
      postSend(end, qp, (batch) => {
        for (let i = 0; i < 9; i++) batch.write(round * 9 + i, SIGNALED, addr, 8, lkey, addr + 64, rkey);
      });
      for (const count of [2, 5, 2]) seen.push(...(await polled(end, count, cq)).map(({ wrId }) => wrId));
    }
    expect(seen).toEqual(Array.from({ length: 180 }, (_, i) => i));
    const wcs = new V.WcBatch(end.p, { capacity: 4 });
    expect(end.p.pollCq(cq, wcs.ring, 0, 4)).toBe(0);
    expect(end.p.pollCq(cq, wcs.ring, 0, 0)).toBe(0);
    wcs.close();
    close();
  });

  it('raise completion events as plain ones do', async (ground) => {
    const end = openEnd(ground, 0);
    const { p, context, mr } = end;
    const channel = p.createCompChannel(context);
    const cq = p.createCq(context, 16, channel, { wcFlags: V.IBV_WC_STANDARD_FLAGS }).handle;
    const qp = createQp(end, { sendCq: cq, recvCq: cq });
    connect(end, qp.handle, end, qp.qpNum);
    const events: number[] = [];
    p.watchCompChannel(channel, (handle) => events.push(handle));
    p.reqNotifyCq(cq, false);
    postSend(end, qp.handle, (batch) => batch.write(1, SIGNALED, mr.addr, 8, mr.lkey, mr.addr + 64, mr.rkey));
    await polled(end, 1, cq);
    for (let i = 0; i < 1000 && events.length === 0; i++) await ground.turn();
    expect(events).toEqual([cq]);
    p.destroyQp(qp.handle);
    p.destroyCq(cq);
    p.destroyCompChannel(channel);
    closeEnd(end);
  });

  it('reject flags that no device supports', (ground) => {
    const end = openEnd(ground, 0);
    const create = (wcFlags: number) => () => end.p.createCq(end.context, 16, 0, { wcFlags });
    expect(create(1 << 25)).toThrow(V.UnsupportedError);
    for (const wcFlags of [-1, 0.5, 2 ** 33]) expect(create(wcFlags)).toThrow(V.InvalidArgumentError);
    closeEnd(end);
  });
});

/** Fifty messages of a connection whose ends complete on extended queues. */
async function traffic(ground: Ground, qpType: number): Promise<void> {
  const ends = [openEnd(ground, 0), openEnd(ground, 1)];
  for (const end of ends) replaceCq(end, { wcFlags: V.IBV_WC_STANDARD_FLAGS });
  const [a, b] = ends;
  const [qpA, qpB] = [createQp(a, { qpType }), createQp(b, { qpType })];
  connect(a, qpA.handle, b, qpB.qpNum, { qpType });
  connect(b, qpB.handle, a, qpA.qpNum, { qpType });
  const [ah, header] = qpType === V.IBV_QPT_UD ? [addressHandle(a, b), 40] : [0, 0];
  for (let i = 1; i <= 50; i++) {
    a.bytes.fill(i, 0, 700);
    postRecv(b, qpB.handle, i, 4096, 1000);
    postSend(a, qpA.handle, (w) => {
      w.sendImm(i, SIGNALED, a.mr.addr, 700, a.mr.lkey, i * 3);
      if (ah !== 0) w.datagramTo(0, ah, qpB.qpNum, QKEY);
    });
    expect(await polled(a, 1)).toMatchObject([{ wrId: i, status: 'SUCCESS', opcode: 'SEND' }]);
    const [got] = await polled(b, 1);
    expect(got).toMatchObject({ wrId: i, status: 'SUCCESS', byteLen: 700 + header, imm: i * 3 });
    expect(got).toMatchObject({ qpNum: qpB.qpNum, ...(ah !== 0 && { srcQp: qpA.qpNum }) });
    expect(b.bytes.subarray(4096 + header, 4796 + header).every((byte) => byte === i)).toBe(true);
  }
  if (ah !== 0) a.p.destroyAh(ah);
  a.p.destroyQp(qpA.handle);
  b.p.destroyQp(qpB.handle);
  closeEnd(a);
  closeEnd(b);
}

feature('traffic on extended completion queues', { group: 'cqex', others: 'mlx4, mlx5, efa' }, (it) => {
  it('RC', (ground) => traffic(ground, V.IBV_QPT_RC));
  it('UC', (ground) => traffic(ground, V.IBV_QPT_UC));
  it('UD', (ground) => traffic(ground, V.IBV_QPT_UD));

  it('invalid sizes and vectors are rejected', (ground) => {
    const end = openEnd(ground, 0);
    const { maxCqe } = end.p.queryDevice(end.context);
    const wcFlags = V.IBV_WC_STANDARD_FLAGS;
    for (const cqe of [0, -1, 1.5]) {
      expect(() => end.p.createCq(end.context, cqe, 0, { wcFlags })).toThrow(code('ARGUMENT'));
    }
    expect(() => end.p.createCq(end.context, maxCqe + 1, 0, { wcFlags })).toThrow(V.IsoverbsError);
    for (const compVector of [-1, 100_000]) {
      expect(() => end.p.createCq(end.context, 16, 0, { wcFlags, compVector })).toThrow(code('ARGUMENT'));
    }
    closeEnd(end);
  });

  it('each standard flag alone', (ground) => {
    const end = openEnd(ground, 0);
    for (let bit = 0; bit < 7; bit++) {
      const cq = end.p.createCq(end.context, 16, 0, { wcFlags: 1 << bit });
      expect(cq.cqe).toBeGreaterThanOrEqual(16);
      end.p.destroyCq(cq.handle);
    }
    closeEnd(end);
  });

  it('are resized with unpolled completions', async (ground) => {
    const { end, cq, qp, close } = open(ground, { wcFlags: V.IBV_WC_STANDARD_FLAGS });
    const { addr, lkey, rkey } = end.mr;
    postSend(end, qp, (batch) => {
      for (let i = 0; i < 8; i++) batch.write(i, SIGNALED, addr, 8, lkey, addr + 64, rkey);
    });
    expect((await polled(end, 1, cq))[0].wrId).toBe(0);
    expect(end.p.resizeCq(cq, 200)).toBeGreaterThanOrEqual(200);
    expect((await polled(end, 7, cq)).map(({ wrId }) => wrId)).toEqual([1, 2, 3, 4, 5, 6, 7]);
    close();
  });
});

feature('XRC on extended completion queues', { group: 'cqex', refusedBy: ['rxe'], others: 'mlx5' }, (it) => {
  it('the receive names its shared receive queue', async (ground) => {
    const xrc = xrcPair(ground, { wcFlags: V.IBV_WC_STANDARD_FLAGS });
    const { a, b, sender, srqs } = xrc;
    for (let i = 1; i <= 50; i++) {
      postShared(b, srqs[0].handle, i, 4096, 1000);
      postSend(a, sender.handle, (w) =>
        w.send(i, SIGNALED, a.mr.addr, 700, a.mr.lkey).srqTo(0, srqs[0].srqNum),
      );
      expect(await polled(a, 1)).toMatchObject([{ wrId: i, status: 'SUCCESS' }]);
      expect(await polled(b, 1)).toMatchObject([{ wrId: i, byteLen: 700, srq: srqs[0].handle }]);
    }
    closeXrc(xrc);
  });
});

const others = 'devices that stamp completions (mlx5 ...)';

/** Two WRITEs that complete on a queue of the given flags. */
async function stamped(ground: Ground, wcFlags: number): Promise<{ wcs: V.WcBatch; close(): void }> {
  const probe = openEnd(ground, 0);
  const cq = probe.p.createCq(probe.context, 16, 0, { wcFlags }).handle;
  probe.p.destroyCq(cq);
  const pair = connectedPair(ground);
  const { a, b } = pair;
  const extended = a.p.createCq(a.context, 16, 0, { wcFlags }).handle;
  a.p.destroyQp(pair.qpA.handle);
  b.p.destroyQp(pair.qpB.handle);
  pair.qpA = createQp(a, { sendCq: extended });
  pair.qpB = createQp(b);
  connect(a, pair.qpA.handle, b, pair.qpB.qpNum);
  connect(b, pair.qpB.handle, a, pair.qpA.qpNum);
  const { handle } = pair.qpA;
  postSend(a, handle, (batch) => {
    for (const id of [1, 2]) {
      batch.write(id, V.IBV_SEND_SIGNALED, a.mr.addr, 4096, a.mr.lkey, b.mr.addr, b.mr.rkey);
    }
  });
  const wcs = await completions(ground, extended, 2);
  const close = () => {
    wcs.close();
    a.p.destroyQp(handle);
    a.p.destroyCq(extended);
    pair.qpA = createQp(a);
    closePair(pair);
  };
  return { wcs, close };
}

/** Packets that a user-space device reads from its socket together arrive at one time. */
const isLater = (ground: Ground, time: bigint, than: bigint) =>
  ground.name === 'soft' ? time >= than : time > than;

feature('completion timestamps', { group: 'cqex', refusedBy: ['rxe'], others }, (it) => {
  it('report when each request completed, on the clock of queryRtValues', async (ground) => {
    const { wcs, close } = await stamped(ground, V.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP);
    expect(wcs.ticks(0)).toBeGreaterThan(0n);
    expect(wcs.ticks(1)).toSatisfy((ticks: bigint) => isLater(ground, ticks, wcs.ticks(0)));
    const end = openEnd(ground, 0);
    expect(end.p.queryRtValues(end.context).ticks).toBeGreaterThanOrEqual(wcs.ticks(1));
    expect([wcs.wrId(0), wcs.wrId(1)]).toEqual([1, 2]);
    close();
  });

  it('wall clock', async (ground) => {
    const { wcs, close } = await stamped(ground, V.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
    expect(wcs.wallclockNs(0)).toBeGreaterThan(0n);
    expect(wcs.wallclockNs(1)).toSatisfy((ns: bigint) => isLater(ground, ns, wcs.wallclockNs(0)));
    close();
  });

  it('unknown completion flags are rejected', (ground) => {
    const end = openEnd(ground, 0);
    expect(() => end.p.createCq(end.context, 16, 0, { wcFlags: 1 << 30 })).toThrow(
      expect.objectContaining({ code: 'ISO_ERR_UNSUPPORTED' }),
    );
    end.p.createCq(end.context, 16, 0, { wcFlags: V.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP });
  });
});
