/** Misbehaving programs under perf do not affect their neighbours. */
import v8 from 'node:v8';
import vm from 'node:vm';
import { expect, test } from 'vitest';
import { createPolicy, shimCounters } from '../../src/policies/index.ts';
import { createFabric, type Fabric } from '../../src/providers/sim/index.ts';
import { compose } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';
import { eachShort } from '../support/variants.ts';
import { connect, type End, type EndOptions, makeEnd, post, take } from './helpers.ts';

const BIG = 65_536;
const CAP = { maxSendWr: 64, maxRecvWr: 64, maxSendSge: 4, maxRecvSge: 4, maxInlineData: 128 };

v8.setFlagsFromString('--expose-gc');
const collect: () => void = vm.runInNewContext('gc');

/** Heap and memory outside of it. Finalizers and external memory need a few iterations of the event loop. */
async function usedBytes(): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 5; i++) {
    collect();
    await new Promise((resolve) => setTimeout(resolve, 2));
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    least = Math.min(least, heapUsed + arrayBuffers);
  }
  return least;
}

interface Rig {
  fabric: Fabric;
  provider: V.Provider;
  /** The tenant's side under the policy, on host 0. */
  under: Fabric;
}

function rig(options: Record<string, unknown> | null): Rig {
  const fabric = createFabric({ hosts: 2, seed: 1, profile: 'cx6-100g', autoAdvance: false });
  const provider = compose(fabric.provider, options === null ? [] : [createPolicy('perf', options)]);
  return { fabric, provider, under: { ...fabric, provider } as Fabric };
}

/** One more queue pair in the end's context, with the same completion queues. */
function another(end: End): End {
  const { v, pd, sendCq, recvCq } = end;
  const attr = { qpType: V.IBV_QPT_RC, sendCq, recvCq, cap: CAP, sqSigAll: false };
  const { handle: qp, qpNum } = v.createQp(pd, attr);
  return { ...end, qp, qpNum };
}

function write(a: End, b: End, bytes: number, count: number): number {
  for (let i = 0; i < count; i++) {
    a.send.write(i, V.IBV_SEND_SIGNALED, a.mr.addr, bytes, a.mr.lkey, b.mr.addr, b.mr.rkey);
  }
  return post(a);
}

/** Completions within the given time, by queue pair; a failure fails the test. */
async function completed({ fabric }: Rig, end: End, ns: number): Promise<Map<number, number>> {
  const counts = new Map<number, number>();
  for (let i = 0; i < 10; i++) {
    await fabric.advance(ns / 10);
    for (let n = -1; n !== 0; ) {
      n = end.v.pollCq(end.sendCq, end.wc.ring, 0, 256);
      for (let k = 0; k < n; k++) {
        expect(end.wc.status(k)).toBe(V.IBV_WC_SUCCESS);
        counts.set(end.wc.qp(k), (counts.get(end.wc.qp(k)) ?? 0) + 1);
      }
    }
  }
  return counts;
}

function close({ v, qp, sendCq, recvCq, mr, pd, context, send, recv, wc }: End): void {
  v.destroyQp(qp);
  v.destroyCq(sendCq);
  v.destroyCq(recvCq);
  v.deregMr(mr.handle);
  v.deallocPd(pd);
  for (const batch of [send, recv, wc]) batch.close();
  v.closeDevice(context);
}

const MESSAGES = 4;
const TIMES = 60;

eachShort(1, [
  ['in turns', { qpIsolation: 'always', turnBytes: 16_384 }],
  ['in turns, and split', { qpIsolation: 'always', isolation: 'always' }],
  ['split', { isolation: 'always', subMsgSizeBytes: 4096 }],
  ['in slots', { rotation: 'on', isolation: 'always' }],
])('queue pairs destroyed while they send and while they wait, %s: others continue', async (_, options) => {
  const r = rig(options);
  const o: EndOptions = { cqe: 1024 };
  const a = makeEnd(r.under, 0, o);
  const b = makeEnd(r.fabric, 1, o);
  connect(a, b);
  let beforeBytes = 0;
  for (let time = 0; time < TIMES; time++) {
    if (time === TIMES / 2) beforeBytes = await usedBytes();
    const doomed = Array.from({ length: 4 }, () => [another(a), another(b)]);
    for (const [end, peer] of doomed) {
      connect(end, peer);
      expect(write(end, peer, BIG, MESSAGES)).toBe(MESSAGES);
    }
    expect(write(a, b, BIG, MESSAGES)).toBe(MESSAGES);
    // At a different moment each time: some wait for their turn, one is in the middle of a message.
    await r.fabric.advance(700 * (time % 20));
    for (const [end, peer] of doomed) {
      end.v.destroyQp(end.qp);
      peer.v.destroyQp(peer.qp);
    }
    const counts = await completed(r, a, 200_000);
    // The same queue pair continues, and the others report nothing new.
    expect(counts.get(a.qp)).toBe(MESSAGES);
  }
  expect(
    shimCounters(r.provider).internal.pieces + shimCounters(r.provider).internal.enables,
  ).toBeGreaterThan(0);
  // 120 queue pairs were created and destroyed; leaking them would take more than this.
  expect((await usedBytes()) - beforeBytes).toBeLessThan(120 * 8192);
  expect(r.fabric.brokenInvariants()).toEqual([]);
  // No reference to its parts remains.
  close(a);
});

/** Tenant 0 floods; returns its accepted requests, the first rejection, and the rate of the others meanwhile. */
async function flood(options: Record<string, unknown> | null) {
  const r = rig(options);
  const [flooder, other] = [0, 0].map((host) => makeEnd(r.under, host));
  const peers = [0, 1].map(() => makeEnd(r.fabric, 1));
  connect(flooder, peers[0]);
  connect(other, peers[1]);
  for (let i = 0; i < 256; i++) {
    flooder.send.write(
      i,
      V.IBV_SEND_SIGNALED,
      flooder.mr.addr,
      4096,
      flooder.mr.lkey,
      peers[0].mr.addr,
      peers[0].mr.rkey,
    );
  }
  const { v, qp, send } = flooder;
  const first = v.postSend(qp, send.ring, 0, 256);
  const refusal = [send.words[V.HDR_ERRNO], send.words[V.HDR_REASON]];
  const before = await usedBytes();
  let taken = 0;
  for (let i = 0; i < 4096; i++) taken += v.postSend(qp, send.ring, 0, 256);
  expect((await usedBytes()) - before).toBeLessThan(1e6);
  let served = 0;
  let flooded = 0;
  for (let i = 0; i < 20; i++) {
    v.postSend(qp, send.ring, 0, 256);
    expect(write(other, peers[1], 16, 1)).toBe(1);
    await r.fabric.advance(20_000);
    served += take(other).length;
    const wcs = take(flooder);
    expect(wcs.every(({ status }) => status === 'SUCCESS')).toBe(true);
    flooded += wcs.length;
  }
  expect(r.fabric.brokenInvariants()).toEqual([]);
  return { first, refusal, taken, served, flooded };
}

test('a flood of 10^6 requests is rejected as on the bare device, and others are served', {
  tags: ['long'],
}, async () => {
  const bare = await flood(null);
  expect(bare).toMatchObject({ first: 64, taken: 0, served: 20 });
  expect(bare.refusal[0]).toBe(V.ENOMEM);
  for (const options of [{}, { isolation: 'always' }, { qpIsolation: 'always' }]) {
    const { flooded, ...rest } = await flood(options);
    expect(rest).toEqual({ first: bare.first, refusal: bare.refusal, taken: 0, served: 20 });
    // The flood proceeds at the rate that isolation leaves.
    expect(flooded / bare.flooded).toBeGreaterThanOrEqual(0.9);
  }
});

test('a request limit set after short posts applies to the next one', async () => {
  const r = rig({});
  const a = makeEnd(r.under, 0);
  const b = makeEnd(r.fabric, 1);
  connect(a, b);
  // The tenant is classified by now, so its small requests go straight to the device.
  for (let i = 0; i < 3; i++) {
    expect(write(a, b, 16, 8)).toBe(8);
    expect((await completed(r, a, 10_000)).get(a.qp)).toBe(8);
  }
  r.provider.configurePolicy!('perf', { maxRequestsPerS: 1e5, burstRequests: 4 });
  let taken = 0;
  for (let i = 0; i < 10; i++) taken += write(a, b, 16, 2);
  // Four at once, then one per 10 us; polling takes negligible time.
  expect(taken).toBeGreaterThan(0);
  expect(taken).toBeLessThanOrEqual(4);
  expect([a.send.words[V.HDR_ERRNO], a.send.words[V.HDR_REASON]]).toEqual([V.ENOMEM, V.REASON_LIMIT]);
  await completed(r, a, 20_000);
  expect(write(a, b, 16, 8)).toBe(2);
  r.provider.configurePolicy!('perf', { maxRequestsPerS: 0 });
  expect(write(a, b, 16, 32)).toBe(32);
});

test('long SENDs to a peer without a shim go whole, 0_WAITs charged for their bytes', async () => {
  const r = rig({ isolation: 'always', waits: 'fixed', subMsgSizeBytes: 4096, zeroWaitUnitBytes: 1024 });
  const a = makeEnd(r.under, 0);
  const b = makeEnd(r.fabric, 1);
  connect(a, b);
  a.bytes.fill(7);
  for (let i = 0; i < 4; i++) {
    b.recv.recv(i, b.mr.addr, BIG, b.mr.lkey);
    a.send.send(i, V.IBV_SEND_SIGNALED, a.mr.addr, 20_000 + 512 * i, a.mr.lkey);
  }
  expect(b.v.postRecv(b.qp, b.recv.ring, 0, 4)).toBe(4);
  expect(post(a)).toBe(4);
  expect((await completed(r, a, 100_000)).get(a.qp)).toBe(4);
  expect(take(b, b.recvCq).map(({ byteLen }) => byteLen)).toEqual([20_000, 20_512, 21_024, 21_536]);
  expect(b.bytes.subarray(0, 21_536).every((byte) => byte === 7)).toBe(true);
  const { pieces, waits } = shimCounters(r.provider).internal;
  expect([pieces, waits]).toEqual([0, Math.floor((4 * 20_000 + 6 * 512) / 1024)]);
});

test('requests held while victims are unknown are released when another queue pair joins', async () => {
  const r = rig({ rotation: 'on' });
  const [d, a] = [0, 0].map((host) => makeEnd(r.under, host));
  const [e, b] = [0, 1].map(() => makeEnd(r.fabric, 1));
  connect(d, e);
  connect(a, b);
  const sendCq = a.v.createCq(a.context, 64, 0).handle;
  const [small, peer] = [another({ ...a, sendCq }), another(b)];
  connect(small, peer);
  expect(write(d, e, 16, 1)).toBe(1);
  // This time is after the tenant's first sample, and well before the next one.
  await r.fabric.advance(12_000);
  expect(write(d, e, 16, 1)).toBe(1);
  expect(write(a, b, BIG, 1)).toBe(1);
  await r.fabric.advance(5000);
  expect(write(small, peer, 16, 1)).toBe(1);
  // Runs the simulation while any request is awaited.
  await r.fabric.run();
  expect(take(a).map(({ status }) => status)).toEqual(['SUCCESS']);
});
