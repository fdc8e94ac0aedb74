/** Policy options that change at run time: all or none of them take effect, from that moment on. */
import { describe, expect, test } from 'vitest';
import { type WorkerDriverOptions, workerDriver } from '../../src/drivers/index.ts';
import { createPolicy, shimCounters } from '../../src/policies/index.ts';
import { createFabric, type Fabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, type End, makeEnd } from './helpers.ts';

const BYTES = 65_536;
const NEVER_SPIN: WorkerDriverOptions = { spinNs: 0 };

function rig(interceptors: Interceptor[], tenant?: string) {
  const fabric = createFabric({ hosts: 2, seed: 1, autoAdvance: false });
  const provider = compose(fabric.provider, interceptors);
  const named = {
    ...provider,
    openDevice: (device: string) => provider.openDevice(device, tenant === undefined ? {} : { tenant }),
  };
  const [a, b] = [0, 1].map((host) => makeEnd({ ...fabric, provider: named } as Fabric, host));
  connect(a, b);
  return { fabric, provider, a, b };
}

function write(a: End, b: End, bytes = BYTES, count = 1): number {
  a.send.clear();
  for (let i = 0; i < count; i++) {
    a.send.write(i, V.IBV_SEND_SIGNALED, a.mr.addr, bytes, a.mr.lkey, b.mr.addr, b.mr.rkey);
  }
  return a.v.postSend(a.qp, a.send.ring, 0, count);
}

async function complete({ fabric, a }: ReturnType<typeof rig>, count: number): Promise<void> {
  let done = 0;
  for (let i = 0; i < 400 && done < count; i++) {
    await fabric.advance(1000);
    const n = a.v.pollCq(a.sendCq, a.wc.ring, 0, 64);
    for (let k = 0; k < n; k++) expect(a.wc.status(k)).toBe(V.IBV_WC_SUCCESS);
    done += n;
  }
  expect(done).toBe(count);
}

const splits = { isolation: 'always', subMsgSizeBytes: 16_384 };

describe.each([
  ['inline', () => [createPolicy('perf', splits)]],
  ['in a worker', () => [workerDriver([{ name: 'perf', options: splits }], NEVER_SPIN)]],
])('perf, %s', (_, chain) => {
  test('new options apply to contexts of several devices and skip closed ones', () => {
    const { provider } = rig(chain());
    const [one, ...others] = ['sim1', 'sim0', 'sim1'].map((device) => provider.openDevice(device));
    provider.closeDevice(one);
    expect(() => provider.configurePolicy!('perf', { qNumAllow: 2 })).not.toThrow();
    for (const context of others) provider.closeDevice(context);
    expect(() => provider.configurePolicy!('perf', { qNumAllow: 1 })).not.toThrow();
  });

  test('the next message is split by the new size; rejected options change nothing', async () => {
    const r = rig(chain());
    const piecesOfOne = async () => {
      const before = shimCounters(r.provider).internal.pieces;
      expect(write(r.a, r.b)).toBe(1);
      await complete(r, 1);
      return shimCounters(r.provider).internal.pieces - before;
    };
    const configure = (changes: Record<string, unknown> | null | undefined) =>
      r.provider.configurePolicy!('perf', changes as Record<string, unknown>);
    expect(await piecesOfOne()).toBe(4);
    configure({ subMsgSizeBytes: '8192' });
    expect(await piecesOfOne()).toBe(8);
    for (const [changes, message] of [
      [{ subMsgSizeBytes: 4096, feedPieces: 99 }, /perf\.feedPieces: .*at most 32/],
      [{ subMsgSizeBytes: 0 }, /perf\.subMsgSizeBytes: .*at least 256/],
      [{ subMsgSizeBytes: 2 ** 31 }, /perf\.subMsgSizeBytes/],
      [{ subMsgSizeBytes: 512, zeroWaitUnitBytes: 1024 }, /zeroWaitUnitBytes: must not be larger/],
      [{ qNumAllow: 0 }, /perf\.qNumAllow/],
      [null, /perf: the options must be an object .* got null/],
      [undefined, /perf: the options must be an object .* got undefined/],
      [{ subMsgSize: 4096 }, /there is no option 'subMsgSize'/],
      [{ subMsgSizeBytes: 4096, emulation: false }, /perf\.emulation: cannot change while/],
    ] as const) {
      expect(() => configure(changes)).toThrow(V.ConfigError);
      expect(() => configure(changes)).toThrow(message);
    }
    expect(() => r.provider.configurePolicy!('drum', {})).toThrow(/policy 'drum' is not active/);
    expect(await piecesOfOne()).toBe(8);
    configure({ isolation: 'never' });
    expect(await piecesOfOne()).toBe(0);
  });
});

test('a half-sent message arrives whatever options change', async () => {
  const r = rig([createPolicy('perf', { ...splits, feedPieces: 1, subMsgSizeBytes: 1024 })]);
  expect(write(r.a, r.b, BYTES, 4)).toBe(4);
  for (const changes of [
    { subMsgSizeBytes: 4096 },
    { qpIsolation: 'always', turnBytes: 5000 },
    { turnBytes: 1, turnRequests: 1, qNumAllow: 2 },
    { qpIsolation: 'never', waits: 'fixed' },
    { rotation: 'on', slotNs: 1000 },
    { rotation: 'auto', paper: true },
    { isolation: 'never', paper: false, windowNs: 8000, samplePeriodNs: 1000 },
  ]) {
    await r.fabric.advance(1500);
    r.provider.configurePolicy!('perf', changes);
  }
  await complete(r, 4);
});

test('0_WAITs that a former rate required no longer hold up requests', async () => {
  const r = rig([createPolicy('perf', splits)]);
  // A message that is followed by no other leaves its 0_WAITs to the next one.
  r.provider.configurePolicy!('perf', { linkGbps: 0.001, waitStepNs: 10 });
  expect(write(r.a, r.b, 4096)).toBe(1);
  await complete(r, 1);
  r.provider.configurePolicy!('perf', { linkGbps: undefined, waitStepNs: undefined });
  expect(write(r.a, r.b, 4096, 4)).toBe(4);
  await complete(r, 4);
});

test('limits of a tenant can be set and removed', () => {
  const r = rig([createPolicy('perf', {})]);
  expect(write(r.a, r.b, 16, 20)).toBe(20);
  r.provider.configurePolicy!('perf', { maxRequestsPerS: 1, maxQps: 1 });
  // Its initial burst is the one allowed when it joined.
  r.provider.configurePolicy!('perf', { burstRequests: 5 });
  expect(write(r.a, r.b, 16, 20)).toBe(5);
  expect(r.a.send.words[V.HDR_REASON]).toBe(V.REASON_LIMIT);
  r.provider.configurePolicy!('perf', { maxRequestsPerS: 0 });
  expect(write(r.a, r.b, 16, 20)).toBe(20);
});

test('a worker rejects limits that only the application’s own posts can report', () => {
  const r = rig([workerDriver([{ name: 'perf', options: {} }], NEVER_SPIN)]);
  expect(() => r.provider.configurePolicy!('perf', { maxRequestsPerS: 5 })).toThrow(V.UnsupportedError);
});

test('the class of an application stays, and changes according to the new window', async () => {
  const r = rig([createPolicy('perf', { samplePeriodNs: 10_000, windowNs: 8e6 })]);
  const kind = () => r.provider.policyStates!()[0]?.kind;
  const goOn = async (bytes: number, ns: number) => {
    for (const endNs = r.fabric.nowNs + ns; r.fabric.nowNs < endNs; ) {
      while (r.a.v.pollCq(r.a.sendCq, r.a.wc.ring, 0, 64) > 0);
      write(r.a, r.b, bytes);
      await r.fabric.advance(8000);
    }
  };
  await goOn(16, 200_000);
  await goOn(BYTES, 200_000);
  expect(kind()).toBe('D_single');
  r.provider.configurePolicy!('perf', { windowNs: 160_000 });
  expect(kind()).toBe('D_single');
  await goOn(BYTES, 200_000);
  expect(kind()).toBe('B_single');
  r.provider.configurePolicy!('perf', { windowNs: 8e6 });
  await goOn(16, 200_000);
  expect(kind()).toBe('B_single');
});

test('token-bucket: rates, weights and pieces change; an unknown link rate is rejected', async () => {
  const r = rig([createPolicy('token-bucket', { ratesGbps: { a: 1 }, burstBytes: 1024 })], 'a');
  const takesNs = async () => {
    const startNs = r.fabric.nowNs;
    expect(write(r.a, r.b, 16_384, 3)).toBe(3);
    for (let done = 0; done < 3; ) {
      await r.fabric.advance(500);
      done += r.a.v.pollCq(r.a.sendCq, r.a.wc.ring, 0, 64);
    }
    return r.fabric.nowNs - startNs;
  };
  // At 1 Gbit/s, two messages of 16 KiB take about 131 us each, and the earlier debt is paid as well.
  expect(await takesNs()).toBeGreaterThan(250_000);
  r.provider.configurePolicy!('token-bucket', { ratesGbps: { a: 10 } });
  expect(await takesNs()).toBeLessThan(50_000);
  expect(() => r.provider.configurePolicy!('token-bucket', { ratesGbps: 'a:0' })).toThrow(V.ConfigError);
  const before = shimCounters(r.provider).internal.pieces;
  r.provider.configurePolicy!('token-bucket', { pieceBytes: 4096 });
  await takesNs();
  expect(shimCounters(r.provider).internal.pieces - before).toBe(12);
});

test('configurePolicy() of a policy that is not active throws', () => {
  const r = rig([createPolicy('perf', {})]);
  expect(() => r.provider.configurePolicy!('emulate-wait', {})).toThrow(
    /policy 'emulate-wait' is not active/,
  );
});
