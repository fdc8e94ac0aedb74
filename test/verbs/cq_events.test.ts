// Completion events: channels, solicited-only, moderation (counterpart of rdma-core's test_cq_events.py).
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature, type Ground, until } from './ground.ts';
import { connect, createQp, type End, openEnd, polled, postRecv, postSend } from './rig.ts';

const { IBV_SEND_SIGNALED: SIGNALED } = V;

/** Two connected ends; receives of `b` complete on `count` queues of one channel, one queue pair each. */
function watched(ground: Ground, count = 1) {
  const [a, b] = [openEnd(ground, 0), openEnd(ground, 1)];
  const channel = b.p.createCompChannel(b.context);
  const cqs = Array.from({ length: count }, () => b.p.createCq(b.context, 64, channel).handle);
  const qps = cqs.map((recvCq) => {
    const [qpA, qpB] = [createQp(a), createQp(b, { recvCq })];
    connect(a, qpA.handle, b, qpB.qpNum);
    connect(b, qpB.handle, a, qpA.qpNum);
    return { a: qpA.handle, b: qpB.handle };
  });
  const events: number[] = [];
  b.p.watchCompChannel(channel, (cq) => events.push(cq));
  const close = () => {
    b.p.watchCompChannel(channel, null);
    for (const qp of qps) {
      a.p.destroyQp(qp.a);
      b.p.destroyQp(qp.b);
    }
    for (const cq of cqs) b.p.destroyCq(cq);
    b.p.destroyCompChannel(channel);
    for (const end of [a, b]) {
      end.p.destroyCq(end.cq);
      end.p.deregMr(end.mr.handle);
      end.p.deallocPd(end.pd);
      end.p.closeDevice(end.context);
    }
  };
  return { a, b, cqs, qps, events, close };
}

function send(a: End, qp: number, flags = 0): void {
  postSend(a, qp, (batch) => batch.send(1, SIGNALED | flags, a.mr.addr, 8, a.mr.lkey));
}

/** Lets completions that are under way arrive. */
async function settle(ground: Ground): Promise<void> {
  let turns = 0;
  await until(ground, 'quiet', () => turns++ > 20);
}

feature('completion events', { group: 'cq_events', others: 'every device' }, (it) => {
  it('an armed queue raises one event, and no further one until it is armed again', async (ground) => {
    const { a, b, cqs, qps, events, close } = watched(ground);
    for (let i = 0; i < 3; i++) postRecv(b, qps[0].b, i, 0, 64);
    b.p.reqNotifyCq(cqs[0], false);
    send(a, qps[0].a);
    await until(ground, 'the event', () => events.length === 1);
    send(a, qps[0].a);
    await polled(b, 2, cqs[0]);
    await settle(ground);
    expect(events).toEqual([cqs[0]]);
    b.p.reqNotifyCq(cqs[0], false);
    send(a, qps[0].a);
    await until(ground, 'the second event', () => events.length === 2);
    expect(await polled(b, 1, cqs[0])).toMatchObject([{ wrId: 2, status: 'SUCCESS' }]);
    close();
  });

  it('many queues on one channel: each event names its own queue', async (ground) => {
    const { a, b, cqs, qps, events, close } = watched(ground, 5);
    for (const [i, qp] of qps.entries()) {
      postRecv(b, qp.b, i, 0, 64);
      b.p.reqNotifyCq(cqs[i], false);
    }
    for (const i of [3, 0, 4]) {
      const before = events.length;
      send(a, qps[i].a);
      await until(ground, 'the event', () => events.length > before);
    }
    expect(events).toEqual([cqs[3], cqs[0], cqs[4]]);
    close();
  });

  it('solicited only: a plain message raises no event, a solicited one does', async (ground) => {
    const { a, b, cqs, qps, events, close } = watched(ground);
    for (let i = 0; i < 2; i++) postRecv(b, qps[0].b, i, 0, 64);
    b.p.reqNotifyCq(cqs[0], true);
    send(a, qps[0].a);
    expect(await polled(b, 1, cqs[0])).toMatchObject([{ wrId: 0 }]);
    await settle(ground);
    expect(events).toEqual([]);
    send(a, qps[0].a, V.IBV_SEND_SOLICITED);
    await until(ground, 'the event', () => events.length === 1);
    close();
  });

  it('solicited only: a failed receive raises an event, too', async (ground) => {
    const { b, cqs, qps, events, close } = watched(ground);
    postRecv(b, qps[0].b, 0, 0, 64);
    b.p.reqNotifyCq(cqs[0], true);
    b.p.modifyQp(qps[0].b, { qpState: V.IBV_QPS_ERR }, V.IBV_QP_STATE);
    await until(ground, 'the event', () => events.length === 1);
    expect(await polled(b, 1, cqs[0])).toMatchObject([{ status: 'WR_FLUSH_ERR' }]);
    close();
  });
});

const moderation = {
  group: 'cq_events',
  refusedBy: ['rxe'] as const,
  others: 'devices with ibv_modify_cq (mlx5 ...)',
};
feature('event moderation', moderation, (it) => {
  it('one event for several completions', async (ground) => {
    const { a, b, cqs, qps, events, close } = watched(ground);
    b.p.modifyCq(cqs[0], 3, 0);
    for (let i = 0; i < 6; i++) postRecv(b, qps[0].b, i, 0, 64);
    b.p.reqNotifyCq(cqs[0], false);
    for (let i = 0; i < 2; i++) send(a, qps[0].a);
    await settle(ground);
    expect(events).toEqual([]);
    send(a, qps[0].a);
    await until(ground, 'the event', () => events.length === 1);
    expect(await polled(b, 3, cqs[0])).toHaveLength(3);
    close();
  });

  it('one event when the period is over', async (ground) => {
    const { a, b, cqs, qps, events, close } = watched(ground);
    b.p.modifyCq(cqs[0], 100, 500);
    postRecv(b, qps[0].b, 0, 0, 64);
    b.p.reqNotifyCq(cqs[0], false);
    send(a, qps[0].a);
    await until(ground, 'the event', () => events.length === 1);
    expect(await polled(b, 1, cqs[0])).toMatchObject([{ wrId: 0 }]);
    close();
  });

  it('invalid numbers are rejected', (ground) => {
    const { b, cqs, close } = watched(ground);
    b.p.modifyCq(cqs[0], 0, 0);
    for (const [count, periodUs] of [
      [-1, 0],
      [0, -1],
      [1 << 16, 0],
      [0, 1 << 16],
      [1.5, 0],
    ]) {
      expect(() => b.p.modifyCq(cqs[0], count, periodUs)).toThrow(
        expect.objectContaining({ code: 'ISO_ERR_ARGUMENT', verb: 'modifyCq' }),
      );
    }
    close();
  });
});
