/** Completion channels: delivery on the event loop, several CQs, and listeners that misbehave. */
import { afterEach, describe, expect, test } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { connect, errorOf, Rig, skipReason, toInit } from './rig.ts';

const SIGNALED = V.IBV_SEND_SIGNALED;
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe.skipIf(skipReason !== '')('completion channels', () => {
  let rig: Rig;
  const open = () => {
    rig = Rig.connected({ channel: true });
    return rig;
  };
  afterEach(() => rig.close());

  function write(id: number, flags = SIGNALED) {
    const { send, addr, mr } = rig;
    send.clear().write(id, flags, addr, 8, mr.lkey, addr + 64, mr.rkey);
    expect(rig.postSend()).toBe(1);
  }

  /** The next event, or undefined if none arrives in time. */
  function nextEvent(ms = 5000): Promise<number | undefined> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(undefined), ms);
      rig.p.watchCompChannel(rig.channel, (cq) => {
        clearTimeout(timer);
        resolve(cq);
      });
    });
  }

  test('an armed CQ raises one event, an unarmed CQ raises none', async () => {
    const { p, cq } = open();
    p.reqNotifyCq(cq, false);
    write(1);
    expect(await nextEvent()).toBe(cq);
    await rig.drain(1);
    write(2);
    expect(await nextEvent(100)).toBeUndefined();
    expect(await rig.drain(1)).toMatchObject([{ wrId: 2 }]);
  });

  test('events of two CQs on one channel name the right CQ', async () => {
    const { p, context, pd, cq, channel, send, addr, mr } = open();
    const other = p.createCq(context, 16, channel).handle;
    const cap = { maxSendWr: 8, maxRecvWr: 8, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
    const qp = p.createQp(pd, { qpType: 2, sendCq: other, recvCq: other, cap, sqSigAll: false });
    toInit(p, qp.handle);
    connect(p, context, qp.handle, qp.qpNum);
    const events: number[] = [];
    p.watchCompChannel(channel, (handle) => events.push(handle));
    p.reqNotifyCq(cq, false);
    p.reqNotifyCq(other, false);
    write(1);
    send.clear().write(2, SIGNALED, addr, 8, mr.lkey, addr + 64, mr.rkey);
    expect(p.postSend(qp.handle, send.ring, 0, 1)).toBe(1);
    for (let i = 0; i < 500 && events.length < 2; i++) await pause(10);
    expect(events.sort()).toEqual([cq, other].sort());
    p.destroyQp(qp.handle);
    p.destroyCq(other);
  });

  test('a listener that stops listening in its own call loses no event', async () => {
    const { p, context, cq, channel, send, addr, mr } = open();
    const other = p.createCq(context, 16, channel).handle;
    const cap = { maxSendWr: 8, maxRecvWr: 8, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
    const attr = { qpType: 2, sendCq: other, recvCq: other, cap, sqSigAll: false };
    const qp = p.createQp(rig.pd, attr);
    toInit(p, qp.handle);
    connect(p, context, qp.handle, qp.qpNum);
    for (const one of [cq, other]) p.reqNotifyCq(one, false);
    write(1);
    send.clear().write(2, SIGNALED, addr, 8, mr.lkey, addr + 64, mr.rkey);
    p.postSend(qp.handle, send.ring, 0, 1);
    await pause(50);
    const told: number[] = [];
    await new Promise<void>((resolve) => {
      p.watchCompChannel(channel, (one) => {
        told.push(one);
        p.watchCompChannel(channel, null);
        resolve();
      });
    });
    told.push((await nextEvent()) ?? 0);
    expect(told.sort()).toEqual([cq, other].sort());
    await rig.drain(1);
    p.destroyQp(qp.handle);
    p.destroyCq(other);
  });

  test('a CQ armed for solicited completions ignores the others', async () => {
    const { p, cq, recv, send, addr, mr } = open();
    recv.clear().recv(1, addr, 64, mr.lkey).recv(2, addr, 64, mr.lkey);
    rig.postRecv();
    p.reqNotifyCq(cq, true);
    send.clear().send(3, 0, addr, 8, mr.lkey);
    rig.postSend();
    expect(await nextEvent(150)).toBeUndefined();
    send.clear().send(4, V.IBV_SEND_SOLICITED, addr, 8, mr.lkey);
    rig.postSend();
    expect(await nextEvent()).toBe(cq);
    await rig.drain(2);
  });

  test('a listener may be replaced or removed, and is called across many turns of the loop', async () => {
    const { p, cq, channel } = open();
    let first = 0;
    p.watchCompChannel(channel, () => first++);
    p.watchCompChannel(channel, null);
    p.watchCompChannel(channel, null);
    p.reqNotifyCq(cq, false);
    write(1);
    await pause(50);
    expect(first).toBe(0);
    // The event was pending in the kernel.
    expect(await nextEvent()).toBe(cq);
    await rig.drain(1);
    for (let i = 0; i < 20; i++) {
      p.reqNotifyCq(cq, false);
      write(i);
      expect(await nextEvent()).toBe(cq);
      await rig.drain(1);
    }
  });

  test('a listener may close the object that it is called for', async () => {
    const { p, context } = open();
    const channel = p.createCompChannel(context);
    const cq = p.createCq(context, 16, channel).handle;
    const cap = { maxSendWr: 8, maxRecvWr: 8, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
    const qp = p.createQp(rig.pd, { qpType: 2, sendCq: cq, recvCq: cq, cap, sqSigAll: false });
    toInit(p, qp.handle);
    connect(p, context, qp.handle, qp.qpNum);
    p.reqNotifyCq(cq, false);
    const closed = new Promise<void>((resolve) => {
      p.watchCompChannel(channel, () => {
        p.destroyQp(qp.handle);
        p.destroyCq(cq);
        p.destroyCompChannel(channel);
        resolve();
      });
    });
    const { send, addr, mr } = rig;
    send.clear().write(1, SIGNALED, addr, 8, mr.lkey, addr + 64, mr.rkey);
    p.postSend(qp.handle, send.ring, 0, 1);
    await closed;
    await pause(20);
    expect(errorOf(() => p.destroyCompChannel(channel)).code).toBe('ISO_ERR_HANDLE');
  });

  test('wrong arguments', () => {
    const { p, channel, context } = open();
    expect(errorOf(() => p.watchCompChannel(channel, 7 as never)).code).toBe('ISO_ERR_ARGUMENT');
    expect(errorOf(() => p.refCompChannel(channel, 1 as never)).code).toBe('ISO_ERR_ARGUMENT');
    const silent = p.createCq(context, 4, 0).handle;
    expect(errorOf(() => p.reqNotifyCq(silent, false)).code).toBe('ISO_ERR_ARGUMENT');
    p.destroyCq(silent);
  });
});
