// The object layer over all of verbs, on every provider.
import { expect } from 'vitest';
import { type Completion, expectSuccess } from '../../src/objects/index.ts';
import { GRH_BYTES, IBV_MTU_1024 } from '../../src/verbs/index.ts';
import { feature } from './ground.ts';
import { closeBoth, connected, openEnd, settled } from './objects-rig.ts';

const ids = (done: Completion[]) => done.map(({ wrId }) => Number(wrId));

feature('objects: execute and drain', { group: 'qp', others: 'every device' }, (it) => {
  it('execute() resolves with its own completion and leaves the others', async (ground) => {
    const ends = connected(ground);
    const { a, b, qpA } = ends;
    const remote = { addr: b.mr.addr, rkey: b.mr.rkey };
    const sgList = [{ mr: a.mr, length: 8 }];
    a.mr.bytes[0] = 42;
    qpA.post({ opcode: 'RDMA_WRITE', wrId: 5, sgList, remote });
    expect(
      await settled(ground, qpA.execute({ opcode: 'RDMA_WRITE', wrId: 9, sgList, remote })),
    ).toMatchObject({
      wrId: 9n,
      opcode: 'RDMA_WRITE',
      qpNum: qpA.qpNum,
    });
    expect(b.mr.bytes[0]).toBe(42);
    expect(ids(await settled(ground, a.cq.drain(1)))).toEqual([5]);
    closeBoth(ends);
  });

  for (const type of ['RC', 'UC', 'UD'] as const) {
    it(`drain() of ${type} returns all receives of the queue pair and leaves those of others`, async (ground) => {
      const ends = connected(ground, { type });
      const { a, qpA } = ends;
      const other = a.pd.createQp({ sendCq: a.cq, type });
      other.toInit();
      for (let i = 0; i < 3; i++) {
        qpA.receive({ wrId: i, sgList: [{ mr: a.mr, length: 64 }] });
        other.receive({ wrId: 10 + i, sgList: [{ mr: a.mr, length: 64 }] });
      }
      const done = await settled(ground, qpA.drain());
      expect(done.map(({ wrId, statusText, isRecv }) => [wrId, statusText, isRecv])).toEqual(
        [0n, 1n, 2n].map((wrId) => [wrId, 'WR_FLUSH_ERR', true]),
      );
      expect(qpA.state).toBe('ERR');
      expect(ids(await settled(ground, other.drain()))).toEqual([10, 11, 12]);
      closeBoth(ends);
    });
  }

  it('drain() empties full queues', async (ground) => {
    const cap = { maxSendWr: 8, maxRecvWr: 8 };
    const ends = connected(ground, { cap });
    const { a, qpA, qpB } = ends;
    qpB.toErr();
    const fill = (post: (wrId: number) => void) => {
      let posted = 0;
      try {
        for (; posted < 4096; posted++) post(posted);
      } catch (error) {
        expect(error).toMatchObject({ code: 'ISO_ERR_QUEUE_FULL' });
      }
      return posted;
    };
    const sgList = [{ mr: a.mr, length: 8 }];
    const received = fill((wrId) => qpA.receive({ wrId, sgList }));
    const sent = fill((wrId) =>
      qpA.post({ opcode: 'SEND', wrId, sgList, flags: { signaled: wrId % 2 === 0 } }),
    );
    const done = await settled(ground, qpA.drain());
    expect(ids(done.filter(({ isRecv }) => isRecv))).toEqual(Array.from({ length: received }, (_, i) => i));
    expect(ids(done.filter(({ isRecv }) => !isRecv))).toEqual(Array.from({ length: sent }, (_, i) => i));
    closeBoth(ends);
  });

  it('toSqd() waits for requests in progress, and resume() starts the others', async (ground) => {
    const ends = connected(ground);
    const { a, b, qpA } = ends;
    const write = {
      opcode: 'RDMA_WRITE' as const,
      sgList: [{ mr: a.mr, length: 8 }],
      remote: { addr: b.mr.addr, rkey: b.mr.rkey },
    };
    qpA.post({ ...write, wrId: 1 });
    await settled(ground, qpA.toSqd());
    expect(qpA.state).toBe('SQD');
    qpA.resume();
    qpA.post({ ...write, wrId: 2 });
    expect(ids(await settled(ground, a.cq.drain(2)))).toEqual([1, 2]);
    closeBoth(ends);
  });
});

feature('objects: datagrams', { group: 'addr', others: 'every device' }, (it) => {
  it('the completion and its GRH contain the address for a reply', async (ground) => {
    const ends = connected(ground, { type: 'UD' });
    const { a, b, qpA, qpB } = ends;
    const sgList = [{ mr: b.mr, length: GRH_BYTES + 64 }];
    qpB.receive({ sgList });
    qpA.receive({ sgList: [{ mr: a.mr, length: GRH_BYTES + 64 }] });
    const { qpNum, qkey, ...port } = qpB.endpoint();
    const to = { ah: a.pd.createAhTo(port), qpNum, qkey };
    a.mr.bytes.set([1, 2, 3], 1000);
    await settled(
      ground,
      qpA.execute({ opcode: 'SEND', sgList: [{ mr: a.mr, offset: 1000, length: 3 }], to }),
    );
    const question = expectSuccess(await settled(ground, b.cq.next()));
    expect(question).toMatchObject({ byteLen: GRH_BYTES + 3, srcQp: qpA.qpNum, srq: null });
    expect([...b.mr.bytes.subarray(GRH_BYTES, GRH_BYTES + 3)]).toEqual([1, 2, 3]);
    const ah = b.pd.createAhFrom(question, b.mr.bytes);
    expect(ah.attr.dgid).toBe(qpA.endpoint().gid);
    const answer = { opcode: 'SEND_WITH_IMM' as const, imm: 7, to: { ah, qpNum: question.srcQp } };
    await settled(ground, qpB.execute(answer));
    expect(await settled(ground, a.cq.next())).toMatchObject({
      imm: 7,
      srcQp: qpB.qpNum,
      byteLen: GRH_BYTES,
    });
    closeBoth(ends);
  });
});

feature('objects: shared receive queues', { group: 'srq', others: 'devices with max_srq above 0' }, (it) => {
  it('several queue pairs share one queue: its limit event, and drain() of one of them', async (ground) => {
    const [a, b] = [openEnd(ground, 0), openEnd(ground, 1)];
    const srq = b.pd.createSrq({ maxWr: 16, maxSge: 1 });
    for (let i = 0; i < 8; i++) srq.receive({ wrId: i, sgList: [{ mr: b.mr, offset: 64 * i, length: 64 }] });
    const pairs = [0, 1].map(() => {
      const qp = a.pd.createQp({ sendCq: a.cq });
      const peer = b.pd.createQp({ sendCq: b.cq, srq });
      qp.connectTo(peer.endpoint());
      peer.connectTo(qp.endpoint());
      return { qp, peer };
    });
    srq.arm(7);
    expect(srq.query().srqLimit).toBe(7);
    const events = b.context.events();
    const low = events.next();
    for (const { qp, peer } of pairs) {
      await settled(ground, qp.execute({ opcode: 'SEND', sgList: [{ mr: a.mr, length: 8 }] }));
      const { opcode, ...wc } = await settled(ground, b.cq.next());
      expect([opcode, wc.qp === peer, wc.srq === srq]).toEqual(['RECV', true, true]);
    }
    // Other events may precede it (COMM_EST).
    let event = (await settled(ground, low)).value;
    while (event?.type !== 'SRQ_LIMIT_REACHED') event = (await settled(ground, events.next())).value;
    expect(event.srq).toBe(srq);
    expect(await settled(ground, pairs[0].peer.drain({ lastWqeMs: 50 }))).toEqual([]);
    await settled(ground, pairs[1].qp.execute({ opcode: 'SEND', sgList: [{ mr: a.mr, length: 8 }] }));
    expect((await settled(ground, b.cq.next())).qp).toBe(pairs[1].peer);
    closeBoth({ a, b });
  });
});

feature(
  'objects: memory windows',
  { group: 'mr', others: 'MEM_WINDOW_TYPE_2B in device_cap_flags' },
  (it) => {
    it('bind() gives access, unbind() revokes it', async (ground) => {
      const ends = connected(ground);
      const { a, b, qpA, qpB } = ends;
      const window = b.pd.allocMw({ type: 2 });
      const range = { mr: b.mr, offset: 512, length: 64, access: { remoteWrite: true } };
      const rkey = await settled(ground, window.bind(qpB, range));
      expect(rkey).toBe(window.rkey);
      const write = {
        opcode: 'RDMA_WRITE' as const,
        sgList: [{ mr: a.mr, length: 8 }],
        remote: { addr: b.mr.addr + 512, rkey },
      };
      await settled(ground, qpA.execute(write));
      await settled(ground, window.unbind(qpB));
      await expect(settled(ground, qpA.execute(write))).rejects.toMatchObject({ code: 'ISO_ERR_COMPLETION' });
      closeBoth(ends);
    });
  },
);

feature('objects: XRC', { group: 'xrcd', refusedBy: ['rxe'], others: 'XRC in device_cap_flags' }, (it) => {
  it('one connection serves several receive queues', async (ground) => {
    const [a, b] = [openEnd(ground, 0), openEnd(ground, 1)];
    try {
      const xrcd = b.context.openXrcd();
      const receiver = xrcd.createQp();
      expect(() => receiver.sendCq).toThrow(expect.objectContaining({ code: 'ISO_ERR_ARGUMENT' }));
      const srqs = [0, 1].map((i) => {
        const srq = b.pd.createSrq({ xrcd, cq: b.cq });
        srq.receive({ wrId: i, sgList: [{ mr: b.mr, length: 64 }] });
        return srq;
      });
      const sender = a.pd.createQp({ sendCq: a.cq, type: 'XRC_SEND' });
      sender.connectTo(receiver.endpoint(), { mtu: IBV_MTU_1024 });
      receiver.connectTo(sender.endpoint(), { mtu: IBV_MTU_1024 });
      for (const srq of [srqs[1], srqs[0]]) {
        const { srqNum } = srq;
        await settled(ground, sender.execute({ opcode: 'SEND', srqNum, sgList: [{ mr: a.mr, length: 8 }] }));
        const wc = await settled(ground, b.cq.next());
        expect([wc.srq === srq, Number(wc.wrId)]).toEqual([true, srqs.indexOf(srq)]);
      }
      expect(await settled(ground, sender.drain())).toEqual([]);
      expect(await settled(ground, receiver.drain())).toEqual([]);
    } finally {
      closeBoth({ a, b });
    }
  });
});
