// Completion queues: sizes, resizing, overflow (counterpart of rdma-core's test_cq.py).
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature, until } from './ground.ts';
import { closeEnd, closePair, connectedPair, openEnd, polled, postSend } from './rig.ts';

const { IBV_SEND_SIGNALED: SIGNALED } = V;
const code = (name: string) => expect.objectContaining({ code: `ISO_ERR_${name}` });

feature('completion queues', { group: 'cq', others: 'every device' }, (it) => {
  it('have at least what was asked for, on any completion vector that there is', (ground) => {
    const end = openEnd(ground, 0);
    for (const cqe of [1, 7, 100]) {
      const cq = end.p.createCq(end.context, cqe, 0, { compVector: 0 });
      expect(cq.cqe).toBeGreaterThanOrEqual(cqe);
      end.p.destroyCq(cq.handle);
    }
    closeEnd(end);
  });

  it('sizes and vectors that can not be are refused', (ground) => {
    const end = openEnd(ground, 0);
    for (const cqe of [0, -1, 1.5, 2 ** 32]) {
      expect(() => end.p.createCq(end.context, cqe, 0)).toThrow(code('ARGUMENT'));
    }
    const { maxCqe } = end.p.queryDevice(end.context);
    expect(() => end.p.createCq(end.context, maxCqe + 1, 0)).toThrow(/createCq/);
    for (const compVector of [-1, 100_000]) {
      expect(() => end.p.createCq(end.context, 16, 0, { compVector })).toThrow(code('ARGUMENT'));
    }
    closeEnd(end);
  });

  it('are not destroyed while a queue pair completes there', (ground) => {
    const pair = connectedPair(ground);
    expect(() => pair.a.p.destroyCq(pair.a.cq)).toThrow(code('BUSY'));
    closePair(pair);
  });
});

feature('resizing a completion queue', { group: 'cq', others: 'devices with ibv_resize_cq' }, (it) => {
  it('grows and shrinks around completions that wait, and loses none', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b, qpA } = pair;
    for (const cqe of [16, 300, 2000, 20]) {
      postSend(a, qpA.handle, (batch) => {
        for (let i = 0; i < 10; i++) {
          batch.write(i, SIGNALED, a.mr.addr, 64, a.mr.lkey, b.mr.addr, b.mr.rkey);
        }
      });
      const first = await polled(a, 1);
      expect(a.p.resizeCq(a.cq, cqe)).toBeGreaterThanOrEqual(cqe);
      const rest = await polled(a, 9);
      expect([...first, ...rest].map((wc) => wc.wrId)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    }
    closePair(pair);
  });

  it('not below the completions that wait', async (ground) => {
    const pair = connectedPair(ground);
    const { a, b, qpA } = pair;
    postSend(a, qpA.handle, (batch) => {
      for (let i = 0; i < 20; i++) {
        batch.write(i, SIGNALED, a.mr.addr, 64, a.mr.lkey, b.mr.addr, b.mr.rkey);
      }
    });
    await polled(a, 1);
    // The others are there, or on their way: nothing but time brings them.
    let turns = 0;
    await until(ground, 'the other completions', () => turns++ > 20);
    expect(() => a.p.resizeCq(a.cq, 3)).toThrow(code('BUSY'));
    expect((await polled(a, 19)).map((wc) => wc.wrId)).toEqual(Array.from({ length: 19 }, (_, i) => i + 1));
    closePair(pair);
  });

  it('to nothing, or to more than the device has, is refused', (ground) => {
    const end = openEnd(ground, 0);
    const { maxCqe } = end.p.queryDevice(end.context);
    expect(() => end.p.resizeCq(end.cq, 0)).toThrow(code('ARGUMENT'));
    expect(() => end.p.resizeCq(end.cq, maxCqe + 1)).toThrow(/resizeCq/);
    expect(() => end.p.resizeCq(end.pd, 16)).toThrow(code('HANDLE'));
    closeEnd(end);
  });
});
