// The daemon reports what a tenant's program did: over simulated devices, without a socket.
import { expect, test } from 'vitest';
import { setRemoteCoordinators } from '../../src/coordinator/registry.ts';
import { RemoteCoordinator } from '../../src/daemon/client/remote-coordinator.ts';
import { createPolicy } from '../../src/policies/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import { readByRemoteControl } from '../../src/shim/peer/remote-read.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, type End, makeEnd, post, take } from '../sim/helpers.ts';
import { hostOf, Process } from './host-rig.ts';

/** A program under policies whose coordinator is the daemon's, and a peer without policies. */
function programOf(chain: () => Interceptor[]) {
  const host = hostOf();
  const process = new Process(host, 'storage');
  setRemoteCoordinators((device) => new RemoteCoordinator(device, process));
  try {
    const fabric = createFabric({ hosts: 2, autoAdvance: false, profile: 'cx6-100g' });
    const v = compose(fabric.provider, chain());
    const ends = [0, 0].map(() => makeEnd({ ...fabric, provider: v }, 0, { bytes: 1 << 20 }));
    const peers = ends.map(() => makeEnd(fabric, 1, { bytes: 1 << 20 }));
    for (const [i, end] of ends.entries()) connect(end, peers[i]);
    const row = () => {
      process.beat();
      host.fullPass(process.nowNs);
      return host.tenants()[0];
    };
    const sent = () => host.sentTotals(process.nowNs).reduce((sum, { sentBytes }) => sum + sentBytes, 0);
    return { fabric, v, ends, peers, row, sent };
  } finally {
    setRemoteCoordinators(null);
  }
}

const CHAINS: [string, () => Interceptor[]][] = [
  ['perf', () => [createPolicy('perf')]],
  ['perf that holds', () => [createPolicy('perf', { isolation: 'always' })]],
  ['perf with weights', () => [createPolicy('perf', { weights: { storage: 2 } })]],
  ['token-bucket', () => [createPolicy('token-bucket')]],
  ['token-bucket around perf', () => [createPolicy('token-bucket'), createPolicy('perf')]],
  [
    'token-bucket around another shim',
    () => [createPolicy('token-bucket'), readByRemoteControl({ minBytes: 1 << 19 })],
  ],
];

function write(end: End, peer: End, sizes: readonly number[], flags: number = V.IBV_SEND_SIGNALED): void {
  end.send.clear();
  for (const bytes of sizes)
    end.send.write(1, flags, end.mr.addr, bytes, end.mr.lkey, peer.mr.addr, peer.mr.rkey);
  expect(post(end)).toBe(sizes.length);
}

test.each(CHAINS)('under %s requests, bytes and queue pairs are counted exactly', async (_name, chain) => {
  const { fabric, v, ends, peers, row } = programOf(chain);
  expect(row()).toMatchObject({ sentRequests: 0, sentBytes: 0, qps: 2, latencyNs: 0 });
  let requests = 0;
  let sum = 0;
  for (const sizes of [[16, 64, 300_000], [8], Array(32).fill(100), [1 << 20]]) {
    for (const [i, end] of ends.entries()) {
      write(end, peers[i], sizes);
      requests += sizes.length;
      sum += sizes.reduce((total, bytes) => total + bytes, 0);
    }
    await fabric.run();
    for (const end of ends) take(end);
    expect(row()).toMatchObject({ sentRequests: requests, sentBytes: sum, heldRequests: 0, qps: 2 });
  }
  v.destroyQp(ends[0].qp);
  expect(row()).toMatchObject({ sentRequests: requests, sentBytes: sum, qps: 1 });
});

test('what a context sent since the last beat is counted when it closes', async () => {
  const { fabric, v, ends, peers, sent } = programOf(() => [createPolicy('token-bucket')]);
  const [end] = ends;
  write(end, peers[0], [100, 200]);
  await fabric.run();
  take(end);
  v.destroyQp(end.qp);
  for (const cq of [end.sendCq, end.recvCq]) v.destroyCq(cq);
  v.deregMr(end.mr.handle);
  v.deallocPd(end.pd);
  v.closeDevice(end.context);
  expect(sent()).toBe(300);
});

test('requests that the device refuses do not count', () => {
  const { ends, peers, row } = programOf(() => [createPolicy('token-bucket')]);
  const [{ send, mr }] = ends;
  send.clear();
  send.write(1, 0, mr.addr, 100, mr.lkey, peers[0].mr.addr, peers[0].mr.rkey);
  send.write(1, 0, mr.addr, 200, mr.lkey, peers[0].mr.addr, peers[0].mr.rkey);
  send.write(1, 0, mr.addr, 400, mr.lkey, peers[0].mr.addr, peers[0].mr.rkey);
  // An opcode that does not exist.
  const { words } = send;
  words[V.slotAt(2) + V.WR_OP] = (words[V.slotAt(2) + V.WR_OP] & ~0xff) | 0x3f;
  expect(post(ends[0])).toBe(2);
  expect(row()).toMatchObject({ sentRequests: 2, sentBytes: 300 });
});

test('held requests are reported while they are held', async () => {
  const { fabric, ends, peers, row } = programOf(() => [
    createPolicy('token-bucket', { ratesGbps: { '': 1 }, burstBytes: 1 }),
  ]);
  write(ends[0], peers[0], Array(20).fill(60_000));
  expect(row().heldRequests).toBeGreaterThan(10);
  await fabric.run();
  expect(row().heldRequests).toBe(0);
});

test('one signaled request per beat is timed', async () => {
  const { fabric, ends, peers, row } = programOf(() => [createPolicy('perf')]);
  const timeNs = async (bytes: number, flags?: number) => {
    const fromNs = fabric.nowNs;
    write(ends[0], peers[0], [bytes], flags);
    await fabric.run();
    take(ends[0]);
    return fabric.nowNs - fromNs;
  };
  // No sample was requested yet.
  await timeNs(8);
  expect(row().latencyNs).toBe(0);
  await timeNs(8, 0);
  const shortNs = await timeNs(8);
  expect(row().latencyNs).toBeCloseTo(shortNs, -3);
  const longNs = await timeNs(1 << 20);
  expect(row().latencyNs).toBeCloseTo((7 * shortNs + longNs) / 8, -3);
  // Only the first request after each beat is timed.
  const { latencyNs } = row();
  await timeNs(8);
  for (let i = 0; i < 5; i++) await timeNs(1 << 20);
  expect(row().latencyNs).toBeLessThan(latencyNs);
});

test('a request that failed, or whose queue pair was reset or destroyed, is not timed', async () => {
  const { fabric, v, ends, peers, row } = programOf(() => [createPolicy('token-bucket')]);
  row();
  ends[0].send.clear();
  // A key that does not exist.
  ends[0].send.write(1, V.IBV_SEND_SIGNALED, ends[0].mr.addr, 8, ends[0].mr.lkey, peers[0].mr.addr, 12345);
  expect(post(ends[0])).toBe(1);
  await fabric.run();
  expect(take(ends[0])[0].status).not.toBe('SUCCESS');
  expect(row().latencyNs).toBe(0);
  write(ends[1], peers[1], [8]);
  v.modifyQp(ends[1].qp, { qpState: V.IBV_QPS_RESET }, V.IBV_QP_STATE);
  await fabric.run();
  take(ends[1]);
  expect(row().latencyNs).toBe(0);
  v.destroyQp(ends[1].qp);
  expect(row()).toMatchObject({ latencyNs: 0, qps: 1 });
});
