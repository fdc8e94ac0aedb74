// The policy `token-bucket` on simulated devices: tenants' rates follow from limits, weights and headers in
// closed form.
import { expect, test } from 'vitest';
import { avgUs, gbps, mmps, unevenness } from '../../src/mix/metrics.ts';
import { parseApp, parsePolicy } from '../../src/mix/parse.ts';
import { runMix } from '../../src/mix/run.ts';
import { DEFAULTS } from '../../src/mix/spec.ts';
import { createPolicy } from '../../src/policies/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose } from '../../src/shim/compose.ts';
import { ConfigError } from '../../src/verbs/errors.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, makeEnd, post, take } from './helpers.ts';

const LINK_GBPS = 100;
const HEADER_BYTES = 82;
const RETH_BYTES = 16;
/** Payload share of a wire rate, in packets of one MTU. */
const payload = (wireGbps: number) => (wireGbps * 4096) / (4096 + HEADER_BYTES);

const run = (policy: string, ...apps: string[]) =>
  runMix({
    ...DEFAULTS,
    ...parsePolicy(policy),
    durationNs: 5e6,
    warmupNs: 1e6,
    payload: false,
    apps: apps.map(parseApp),
  });

const near = (value: number, expected: number, tolerance = 0.02) => {
  expect(value).toBeGreaterThan(expected * (1 - tolerance));
  expect(value).toBeLessThan(expected * (1 + tolerance));
};

test('weights share the link, whatever the number of queue pairs', async () => {
  const result = await run('token-bucket:weights=a:3', 'B:name=a,size=1MiB', 'B:name=b,size=1MiB,qps=8');
  near(gbps(result, 'a'), payload(LINK_GBPS * 0.75));
  near(gbps(result, 'b'), payload(LINK_GBPS * 0.25));
  expect(result.invariants).toEqual([]);
});

test('in a mix, weights of applications are weights of their tenants', async () => {
  const result = await run('token-bucket', 'B:name=a,size=1MiB,weight=4', 'B:name=b,size=1MiB');
  near(gbps(result, 'a'), payload(LINK_GBPS * 0.8));
  near(gbps(result, 'b'), payload(LINK_GBPS * 0.2));
});

test('under perf: shares by weight, and small messages do not wait for large ones', async () => {
  const apps = ['B:name=a,size=1MiB,weight=3', 'B:name=b,size=1MiB', 'D:size=16,think=1us'];
  const bare = await run('none', ...apps);
  const result = await run('perf', ...apps);
  // D is the third tenant: of five parts, a has three and b one.
  near(gbps(result, 'a'), payload(60));
  near(gbps(result, 'b'), payload(20));
  expect(avgUs(result, 'D')).toBeLessThan(avgUs(bare, 'D') * 0.5);
});

test('a tenant gets its own rate, and the others share the rest', async () => {
  const result = await run(
    'token-bucket:ratesGbps=a:10',
    'B:name=a,size=1MiB,qps=2',
    'B:name=b,size=1MiB',
    'B:name=c,size=64KiB',
  );
  near(gbps(result, 'a'), payload(10));
  for (const name of ['b', 'c']) near(gbps(result, name), payload(45));
});

test('thirty tenants get a thirtieth each', async () => {
  const result = await run('token-bucket', 'B:name=b,size=256KiB,count=30');
  near(gbps(result, 'b'), payload(LINK_GBPS));
  expect(unevenness(result, 'b')).toBeLessThan(0.05);
});

test('small messages use tokens too', async () => {
  const result = await run('token-bucket:ratesGbps=m:0.5', 'M:name=m,size=16');
  near(mmps(result, 'm'), 0.5e3 / 8 / (16 + HEADER_BYTES + RETH_BYTES));
});

test('a rate in requests holds in addition to the share of the link', async () => {
  const result = await run(
    'token-bucket:ratesRequestsPerS=m:1e6/a:5e4',
    'M:name=m',
    'B:name=a,size=64KiB',
    'B:name=b',
  );
  near(mmps(result, 'm'), 1);
  near(mmps(result, 'a'), 0.05);
  near(gbps(result, 'b'), payload(LINK_GBPS / 3));
});

test.each([
  ['write', 64],
  ['write', 5000],
  ['send', 64],
  ['read', 64],
  ['read', 5000],
  ['write', 65_536],
  ['read', 65_536],
] as const)(
  'a rate holds on the link for each %s of %i bytes, in the direction that it loads more',
  async (op, bytes) => {
    const GBPS = 2;
    const result = await run(`token-bucket:ratesGbps=m:${GBPS}`, `M:name=m,size=${bytes},op=${op},qps=2`);
    const busiest = Math.max(...result.links.map(({ bytes }) => bytes));
    // A simulated response has no AETH, which is 3 % of 64 bytes with headers.
    near((busiest * 8) / (result.durationNs - result.warmupNs), GBPS, 0.03);
  },
);

test('a tenant below its rate behaves as bare, and is not delayed by a hog with half of the link', async () => {
  const latency = async (policy: string, ...apps: string[]) =>
    (await run(policy, 'D:size=16,think=2us', ...apps)).apps[0].latencyUs?.avg ?? Number.NaN;
  const alone = await latency('none');
  // An interceptor costs about 10 ns in each direction.
  expect(await latency('token-bucket')).toBeLessThan(alone * 1.02);
  const B = 'B:size=1MiB';
  expect(await latency('none', B)).toBeGreaterThan(alone * 3);
  expect(await latency('token-bucket', B)).toBeLessThan(alone * 1.5);
});

test('a tenant that leaves returns its share to the others', async () => {
  const fabric = createFabric({ hosts: 2, autoAdvance: false, profile: 'cx6-100g' });
  const v = compose(fabric.provider, [createPolicy('token-bucket', { linkGbps: 8, burstBytes: 1 })]);
  const bytes = 1 << 20;
  const [a, c] = [0, 0].map((host) => makeEnd({ ...fabric, provider: v }, host, { bytes }));
  const b = makeEnd(fabric, 1, { bytes });
  connect(a, b);
  const timeNs = async () => {
    const startNs = fabric.nowNs;
    a.send.clear();
    a.send.write(1, V.IBV_SEND_SIGNALED, a.mr.addr, bytes, a.mr.lkey, b.mr.addr, b.mr.rkey);
    post(a);
    await fabric.run();
    expect(take(a)).toHaveLength(1);
    return fabric.nowNs - startNs;
  };
  near((await timeNs()) * 0.5, bytes / payload(1), 0.05);
  v.destroyQp(c.qp);
  near(await timeNs(), bytes / payload(1), 0.05);
});

test.each(['a', ''])('the debt of tenant %j survives a change of its queue pairs', async (tenant) => {
  const fabric = createFabric({ hosts: 2, seed: 1, autoAdvance: false });
  const v = compose(fabric.provider, [createPolicy('token-bucket', { linkGbps: 1 })]);
  const openDevice: typeof v.openDevice = (name) => v.openDevice(name, { tenant });
  const BYTES = 200_000;
  const a = makeEnd({ ...fabric, provider: { ...v, openDevice } }, 0, { bytes: BYTES });
  const b = makeEnd(fabric, 1, { bytes: BYTES });
  v.destroyQp(a.qp);
  let sent = 0;
  const UNTIL_NS = 4e7;
  while (fabric.nowNs < UNTIL_NS) {
    const cap = { maxSendWr: 4, maxRecvWr: 4, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
    const [own, peer] = [a, b].map((end) => {
      const { v, pd, sendCq, recvCq } = end;
      const { handle, qpNum } = v.createQp(pd, {
        qpType: V.IBV_QPT_RC,
        sendCq,
        recvCq,
        cap,
        sqSigAll: false,
      });
      return { ...end, qp: handle, qpNum };
    });
    connect(own, peer);
    peer.recv.recv(0, peer.mr.addr, BYTES, peer.mr.lkey);
    expect(peer.v.postRecv(peer.qp, peer.recv.ring, 0, 1)).toBe(1);
    peer.recv.clear();
    // Without a limit, the tenant takes more than its share.
    own.send.send(1, V.IBV_SEND_SIGNALED, own.mr.addr, BYTES, own.mr.lkey);
    expect(post(own)).toBe(1);
    while (fabric.nowNs < UNTIL_NS && take(own).length === 0) await fabric.advance(20_000);
    take(peer, peer.recvCq);
    sent += BYTES;
    own.v.destroyQp(own.qp);
    peer.v.destroyQp(peer.qp);
  }
  // The last message starts at the end, and the burst adds to the rate.
  expect((sent * 8) / UNTIL_NS).toBeLessThan(1 + (16 * BYTES) / UNTIL_NS);
});

test('invalid options and devices with an unknown rate are rejected', () => {
  for (const [options, sentence] of [
    [{ weights: 'a' }, /token-bucket\.weights.*TENANT:NUMBER/],
    [{ weights: 'a:0' }, /token-bucket\.weights\.a/],
    [{ ratesGbps: { a: -1 } }, /token-bucket\.ratesGbps/],
    [{ pieceBytes: 1 }, /token-bucket\.pieceBytes/],
    [{ rate: 1 }, /there is no option 'rate'/],
  ] as const) {
    expect(() => createPolicy('token-bucket', options)).toThrow(ConfigError);
    expect(() => createPolicy('token-bucket', options)).toThrow(sentence);
  }
  const fabric = createFabric({ hosts: 2, autoAdvance: false });
  const silent = { ...fabric.provider, describeNic: undefined };
  const openAndClose = (options: Record<string, unknown>) => {
    const verbs = compose(silent, [createPolicy('token-bucket', options)]);
    verbs.closeDevice(verbs.openDevice('sim0', { tenant: 'a' }));
  };
  expect(() => openAndClose({})).toThrow('does not report the rate of its link');
  // One after the other, because the contexts of a device must have the same rules.
  openAndClose({ linkGbps: 10 });
  openAndClose({ ratesGbps: 'a:10' });
});
