// Labels of contexts and queue pairs: attributes that no device sees, shown by queryQp.
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature } from './ground.ts';
import { closeEnd, closePair, connect, connectedPair, createQp, type End, modify, openEnd } from './rig.ts';

const LABELS = V.ISO_QP_WEIGHT | V.ISO_QP_GROUP | V.ISO_QP_TRAFFIC;

function labelsOf({ p }: End, qp: number) {
  const { qpWeight, group, traffic } = p.queryQp(qp).attr;
  return [qpWeight, group, traffic];
}

feature('labels of contexts and queue pairs', { group: 'labels', others: 'every device' }, (it) => {
  it('createQp takes labels, and queryQp shows them', (ground) => {
    const end = openEnd(ground, 0);
    const plain = createQp(end);
    const labelled = createQp(end, { qpWeight: 2.5, group: 'batch', traffic: V.ISO_TRAFFIC_BANDWIDTH });
    expect(labelsOf(end, plain.handle)).toEqual([1, '', V.ISO_TRAFFIC_UNDECLARED]);
    expect(labelsOf(end, labelled.handle)).toEqual([2.5, 'batch', V.ISO_TRAFFIC_BANDWIDTH]);
    for (const { handle } of [plain, labelled]) end.p.destroyQp(handle);
    closeEnd(end);
  });

  it('modifyQp changes labels in every state, alone or with other attributes', (ground) => {
    const pair = connectedPair(ground);
    const { a, b, qpA, qpB } = pair;
    const fresh = createQp(a);
    a.p.modifyQp(fresh.handle, { qpWeight: 3 }, V.ISO_QP_WEIGHT);
    expect(a.p.queryQp(fresh.handle).attr.qpState).toBe(V.IBV_QPS_RESET);
    connect(a, fresh.handle, b, qpB.qpNum);
    expect(labelsOf(a, fresh.handle)).toEqual([3, '', 0]);
    modify(a, qpA.handle, { group: 'g', traffic: V.ISO_TRAFFIC_THROUGHPUT });
    expect(a.p.queryQp(qpA.handle).attr.qpState).toBe(V.IBV_QPS_RTS);
    modify(a, qpA.handle, { qpState: V.IBV_QPS_ERR, qpWeight: 0.5 });
    expect(a.p.queryQp(qpA.handle).attr.qpState).toBe(V.IBV_QPS_ERR);
    modify(a, qpA.handle, { qpState: V.IBV_QPS_RESET });
    expect(labelsOf(a, qpA.handle)).toEqual([0.5, 'g', V.ISO_TRAFFIC_THROUGHPUT]);
    a.p.destroyQp(fresh.handle);
    closePair(pair);
  });

  it('a rejected modifyQp changes no label', (ground) => {
    const end = openEnd(ground, 0);
    const qp = createQp(end, { qpWeight: 2 }).handle;
    const bad = { qpState: V.IBV_QPS_RTS, qpWeight: 4 };
    expect(() => modify(end, qp, bad)).toThrow(expect.objectContaining({ code: 'ISO_ERR_STATE' }));
    expect(() => end.p.modifyQp(qp, { group: 'x' }, LABELS)).toThrow(
      'the mask names ISO_QP_WEIGHT (attr.qpWeight), ISO_QP_TRAFFIC (attr.traffic), but attr has no such field',
    );
    expect(labelsOf(end, qp)).toEqual([2, '', 0]);
    end.p.destroyQp(qp);
    closeEnd(end);
  });

  it('a queue pair has the labels of its context that it does not set itself', (ground) => {
    const { provider: p, devices } = ground;
    const context = p.openDevice(devices[0], {
      labels: { weight: 4, qpWeight: 2, group: 'store', traffic: V.ISO_TRAFFIC_LATENCY },
    });
    const pd = p.allocPd(context);
    const cq = p.createCq(context, 16, 0).handle;
    const end = { ...openEnd(ground, 1), context, pd, cq };
    const [own, none] = [createQp(end, { group: 'mine' }), createQp(end)];
    expect(labelsOf(end, own.handle)).toEqual([2, 'mine', V.ISO_TRAFFIC_LATENCY]);
    expect(labelsOf(end, none.handle)).toEqual([2, 'store', V.ISO_TRAFFIC_LATENCY]);
    expect(p.setLabels(context, { group: 'other', traffic: 0 })).toEqual({
      weight: 4,
      qpWeight: 2,
      group: 'other',
      traffic: 0,
    });
    expect(labelsOf(end, own.handle)).toEqual([2, 'mine', 0]);
    expect(labelsOf(end, none.handle)).toEqual([2, 'other', 0]);
    for (const { handle } of [own, none]) p.destroyQp(handle);
    p.destroyCq(cq);
    p.deallocPd(pd);
    p.closeDevice(context);
  });

  it('openDevice and setLabels refuse unknown labels', (ground) => {
    const { provider: p, devices } = ground;
    const unknown = { colour: 'red' } as unknown as V.Labels;
    const refusal = "no label 'colour'; there are: weight, group, qpWeight, traffic";
    expect(() => p.openDevice(devices[0], { labels: unknown })).toThrow(`openDevice: ${refusal}`);
    expect(() => p.openDevice(devices[0], { labels: { weight: 0 } })).toThrow(
      'openDevice: labels.weight must be a number from 0.000001 to 1000000, got 0',
    );
    const context = p.openDevice(devices[0]);
    expect(() => p.setLabels(context, unknown)).toThrow(`setLabels: ${refusal}`);
    p.closeDevice(context);
    expect(() => p.setLabels(context, {})).toThrow(expect.objectContaining({ code: 'ISO_ERR_HANDLE' }));
  });
});
