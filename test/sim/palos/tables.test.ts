/** The tables of a NIC under palos: labels that reach them, entries that a change writes, and very many queue pairs. */
import { expect, test } from 'vitest';
import { createFabric, type Fabric } from '../../../src/providers/sim/index.ts';
import * as V from '../../../src/verbs/index.ts';
import type { QpLabels } from '../../../src/verbs/labels.ts';
import { makeEnd } from '../helpers.ts';
import { MTU, Rig } from './rig.ts';

const PROFILE = { scheduler: 'palos' as const, mtuBytes: MTU };

/** Chunks of queue pairs, by handle. */
function chunksOf(fabric: Fabric, handles: readonly number[]): number[] {
  const { hooks, hosts } = fabric.simulation.world;
  return handles.map((handle) => {
    const qp = hooks.qpOf(handle)!;
    const weights = hosts[qp.host].weights!;
    weights.readChunk(weights.memberOf(qp));
    return weights.chunkBytes[0];
  });
}

test('labels of contexts, groups and queue pairs reach the tables, at creation and later', () => {
  const fabric = createFabric({ profile: PROFILE, autoAdvance: false });
  const { provider: v } = fabric;
  const context = v.openDevice('sim0', { tenant: 't', labels: { qpWeight: 2 } });
  const other = makeEnd(fabric, 0);
  const pd = v.allocPd(context);
  const { handle: cq } = v.createCq(context, 16, 0);
  const cap = { maxSendWr: 1, maxRecvWr: 1, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
  const create = (labels: QpLabels = {}) =>
    v.createQp(pd, { qpType: V.IBV_QPT_RC, sendCq: cq, recvCq: cq, cap, sqSigAll: false, ...labels }).handle;
  const qps = [create(), create({ qpWeight: 6 }), other.qp];
  const N = 3 * MTU;
  // The other context is a tenant of its own.
  expect(chunksOf(fabric, qps)).toEqual([N / 8, (3 * N) / 8, N / 2]);
  v.setLabels(context, { weight: 3 });
  expect(chunksOf(fabric, qps)).toEqual([(3 * N) / 16, (9 * N) / 16, N / 4]);
  v.setLabels(context, { weight: 1, qpWeight: 6 });
  expect(chunksOf(fabric, qps)).toEqual([N / 4, N / 4, N / 2]);
  v.modifyQp(qps[1], { group: 'g' }, V.ISO_QP_GROUP);
  v.createGroup(context, 'g', 3);
  expect(chunksOf(fabric, qps)).toEqual([N / 8, (3 * N) / 8, N / 2]);
  v.setGroup(context, 'g', 1);
  v.modifyQp(qps[1], { qpWeight: 1 }, V.ISO_QP_WEIGHT);
  expect(chunksOf(fabric, qps)).toEqual([N / 4, N / 4, N / 2]);
  v.destroyQp(qps[1]);
  // N counts two queue pairs now.
  expect(chunksOf(fabric, [qps[0], qps[2]])).toEqual([MTU, MTU]);
});

test('palosChunkBytes is the mean chunk', () => {
  const rig = new Rig({ palosChunkBytes: 6000 });
  const qps = [1, 3].map((qpWeight) => rig.add({ qpWeight }));
  const chunks = qps.map(({ member }) => {
    rig.weights.readChunk(member);
    return rig.weights.chunkBytes[0];
  });
  expect(chunks).toEqual([3000, 9000]);
});

test('chunks keep a fraction of a byte, in fixed point', () => {
  const rig = new Rig();
  const [light] = [1, 1000].map((qpWeight) => rig.add({ qpWeight }));
  rig.weights.readChunk(light.member);
  expect(rig.weights.chunkBytes[0]).toBeCloseTo(3000 / 1001, 4);
  expect((rig.weights.chunkBytes[0] * 65_536) % 1).toBe(0);
});

test('among 22,000 queue pairs, a change writes entries of one queue pair or of groups', {
  tags: ['long'],
}, () => {
  const GROUPS = 100;
  const rig = new Rig();
  const qps = Array.from({ length: 22_000 }, (_, i) => rig.add({ group: `g${i % GROUPS}` }));
  for (const qp of qps) rig.ready(qp);
  rig.sendMany(100);
  const writesOf = (change: () => void) => {
    const before = rig.weights.writes;
    change();
    // Granularities are computed when they are next used.
    rig.sendMany(2 * GROUPS);
    return rig.weights.writes - before;
  };
  // The weight, and the granularity that follows from it.
  expect(writesOf(() => rig.label(qps[7], { group: 'g7', qpWeight: 3 }))).toBeLessThanOrEqual(2);
  expect(writesOf(() => rig.weights.setGroupWeight('t', 'g7', 3))).toBeLessThanOrEqual(1 + GROUPS);
});
