// Faults of queue pairs under palos, and options that make no sense.
import { describe, expect, test } from 'vitest';
import { createPolicy } from '../../src/policies/index.ts';
import { createFabric, type Fabric } from '../../src/providers/sim/index.ts';
import { compose } from '../../src/shim/compose.ts';
import { ConfigError, InvalidArgumentError } from '../../src/verbs/errors.ts';
import * as V from '../../src/verbs/index.ts';
import type { Labels } from '../../src/verbs/labels.ts';
import { connect, type End, makeEnd, modify, post, postRecv, take } from './helpers.ts';

const BYTES = 65_536;
const DEPTH = 4;

/** A connection of one tenant that always has requests outstanding. */
class Flow {
  readonly a: End;
  readonly b: End;
  done = 0;
  open = 0;
  posted = 0;
  isStopped = false;
  readonly failed: string[] = [];
  private readonly isSend: boolean;

  constructor(a: End, b: End, isSend: boolean) {
    [this.a, this.b, this.isSend] = [a, b, isSend];
    connect(a, b);
  }

  step(): void {
    const { a, b } = this;
    for (const { wrId, status } of take(a)) {
      this.open--;
      if (status === 'SUCCESS') this.done++;
      else this.failed.push(`${wrId} ${status}`);
    }
    for (; this.open < DEPTH && !this.isStopped; this.open++) {
      const id = ++this.posted;
      if (this.isSend) a.send.send(id, V.IBV_SEND_SIGNALED, a.mr.addr, BYTES, a.mr.lkey);
      else a.send.write(id, V.IBV_SEND_SIGNALED, a.mr.addr, BYTES, a.mr.lkey, b.mr.addr, b.mr.rkey);
      expect(post(a)).toBe(1);
    }
  }
}

/** Hosts 0 and 1 of a fabric under palos. */
function ground(options: Record<string, unknown> = {}) {
  const fabric = createFabric({ hosts: 2, seed: 1, autoAdvance: false, payload: false, profile: 'cx6-100g' });
  const provider = compose(fabric.provider, [createPolicy('palos', options)]);
  const flow = (labels: Partial<Labels> = {}, isSend = false) => {
    const openDevice: typeof provider.openDevice = (name) =>
      provider.openDevice(name, { tenant: 't', labels });
    const under = { ...fabric, provider: { ...provider, openDevice } } as Fabric;
    // RNR timer 14 is 1.28 ms.
    const [a, b] = [0, 1].map((host) => makeEnd(under, host, { bytes: BYTES, minRnrTimer: 14, rnrRetry: 7 }));
    return new Flow(a, b, isSend);
  };
  const run = async (flows: readonly Flow[], ns: number, stepNs = 2000) => {
    for (const endNs = fabric.nowNs + ns; fabric.nowNs < endNs; ) {
      for (const one of flows) one.step();
      await fabric.advance(stepNs);
    }
  };
  /** The messages of each in this time. */
  const counts = async (flows: readonly Flow[], ns: number) => {
    const before = flows.map(({ done }) => done);
    await run(flows, ns);
    return flows.map(({ done }, i) => done - before[i]);
  };
  return { fabric, provider, flow, run, counts };
}

const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);

describe('a queue pair whose peer is not ready', () => {
  const MEASURED_NS = 4e6;

  test('takes less than 1 % from the others', async () => {
    const { flow, run, counts } = ground();
    const others = [flow(), flow()];
    await run(others, 200_000);
    const before = sum(await counts(others, MEASURED_NS));
    const blocked = flow({}, true);
    await run([...others, blocked], 200_000);
    const after = sum(await counts([...others, blocked], MEASURED_NS).then((all) => all.slice(0, 2)));
    expect(blocked.done).toBe(0);
    expect(after / before).toBeGreaterThan(0.99);
  });

  test('goes on when receives arrive', async () => {
    const { flow, run } = ground();
    const [other, blocked] = [flow(), flow({}, true)];
    await run([other, blocked], 1e6);
    expect(blocked.done).toBe(0);
    const { b } = blocked;
    for (let i = 0; i < 60; i++) b.recv.recv(i, b.mr.addr, BYTES, b.mr.lkey);
    postRecv(b);
    await run([other, blocked], 2e6);
    expect(blocked.done).toBe(60);
    expect(blocked.failed).toEqual([]);
  });
});

describe('a queue pair that fails in the middle of a chunk', () => {
  const FAULTS: [string, (flow: Flow) => void, RegExp][] = [
    ['goes to ERR', ({ a }) => modify(a, { qpState: V.IBV_QPS_ERR }), /^\d+ WR_FLUSH_ERR$/],
    ['loses the memory of its peer', ({ b }) => b.v.deregMr(b.mr.handle), /^\d+ (REM_ACCESS|WR_FLUSH)_ERR$/],
  ];

  test.each(FAULTS)('and %s, completes each request once, and others go on', async (_, fail, status) => {
    for (let afterNs = 0; afterNs < 6000; afterNs += 1300) {
      const { flow, run, counts } = ground();
      const [x, other] = [flow({ qpWeight: 3 }), flow()];
      await run([x, other], 50_000);
      await run([x, other], afterNs, 200);
      x.isStopped = true;
      fail(x);
      await run([x, other], 500_000);
      expect(x.open, `after ${afterNs} ns`).toBe(0);
      expect(x.done + x.failed.length).toBe(x.posted);
      const ids = x.failed.map((line) => Number.parseInt(line, 10));
      expect(ids).toEqual(ids.map((_id, i) => x.done + 1 + i));
      for (const line of x.failed) expect(line).toMatch(status);
      const [alone] = await counts([other], 1e6);
      // All of the link: 190 messages in 1 ms.
      expect(alone).toBeGreaterThan(175);
      expect(other.failed).toEqual([]);
    }
  });

  test.each(FAULTS)('and %s, no longer counts among the active ones', async (_, fail) => {
    const { flow, run, counts } = ground({ sums: 'active' });
    const flows = [flow({ group: 'a' }), flow({ group: 'a' }), flow({ group: 'b' })];
    await run(flows, 100_000);
    flows[0].isStopped = true;
    fail(flows[0]);
    await run(flows, 500_000);
    const [, a, b] = await counts(flows, 2e6);
    expect(a / (a + b)).toBeGreaterThan(0.48);
    expect(a / (a + b)).toBeLessThan(0.52);
  });
});

test('a queue pair that was reset and connected again has its share', async () => {
  const { flow, run, counts } = ground();
  const [x, other] = [flow(), flow()];
  await run([x, other], 100_000);
  for (const end of [x.a, x.b]) modify(end, { qpState: V.IBV_QPS_RESET });
  x.step();
  x.open = 0;
  connect(x.a, x.b);
  await run([x, other], 200_000);
  const [again, more] = await counts([x, other], 2e6);
  expect(again / more).toBeGreaterThan(0.95);
  expect(again / more).toBeLessThan(1.05);
});

describe('bad options and labels give typed errors', () => {
  test.each([
    { sums: 'all' },
    { chunkMtus: 0 },
    { chunkMtus: 0.2 },
    { chunkMtus: Number.NaN },
    { pieceBytes: 0 },
    { pieceBytes: 1.5 },
    { windowBytes: -1 },
    { urgentShare: -0.1 },
    { urgentShare: 1.1 },
    { urgentShare: Number.NaN },
    { urgentBytes: -1 },
    { minChargeBytes: 0 },
    { chunks: 1 },
  ])('option %j', (options) => {
    expect(() => createPolicy('palos', options)).toThrow(ConfigError);
    const { provider } = ground();
    expect(() => provider.configurePolicy!('palos', options)).toThrow(ConfigError);
  });

  test.each([{ sums: 'active' }, { chunkMtus: 8 }])('option %j cannot change', (options) => {
    const { provider } = ground();
    expect(() => provider.configurePolicy!('palos', options)).toThrow(ConfigError);
  });

  test.each([0, -1, Number.NaN, 1e9, Number.POSITIVE_INFINITY])('weight %d', (weight) => {
    const { provider, flow } = ground();
    const { a } = flow();
    const { v, context } = a;
    expect(() => provider.openDevice('sim0', { labels: { weight } })).toThrow(InvalidArgumentError);
    expect(() => modify(a, { qpWeight: weight })).toThrow(InvalidArgumentError);
    expect(() => v.createGroup(context, 'g', weight)).toThrow(InvalidArgumentError);
    v.createGroup(context, 'g', 1);
    expect(() => v.setGroup(context, 'g', weight)).toThrow(InvalidArgumentError);
  });

  test('a group that is unknown', () => {
    const { v, context } = ground().flow().a;
    expect(() => v.setGroup(context, 'unknown', 2)).toThrow(InvalidArgumentError);
    expect(() => v.destroyGroup(context, 'unknown')).toThrow(InvalidArgumentError);
  });
});

test('options that may change take effect while requests are in flight', async () => {
  const { provider, flow, run, counts } = ground();
  const flows = [flow(), flow({ qpWeight: 3 })];
  await run(flows, 100_000);
  for (const options of [
    { pieceBytes: 256 },
    { windowBytes: 1 },
    { windowBytes: 2 ** 40, pieceBytes: 2 ** 30 },
    { windowBytes: 40_000, pieceBytes: 4096, minChargeBytes: 1, urgentShare: 0 },
  ]) {
    provider.configurePolicy!('palos', options);
    await run(flows, 300_000);
  }
  const [one, three] = await counts(flows, 2e6);
  expect(three / one).toBeGreaterThan(2.85);
  expect(three / one).toBeLessThan(3.15);
  expect(flows.flatMap(({ failed }) => failed)).toEqual([]);
});

test('options that change while no context is open count for the next one', async () => {
  const messages = async (change: boolean) => {
    const { provider, flow, run, counts } = ground();
    for (const device of ['sim0', 'sim1']) provider.closeDevice(provider.openDevice(device));
    if (change) provider.configurePolicy!('palos', { windowBytes: 1 });
    const flows = [flow(), flow()];
    await run(flows, 100_000);
    const [one, two] = await counts(flows, 500_000);
    return one + two;
  };
  // With one piece at a time, the link is idle for most of each round trip.
  expect(await messages(true)).toBeLessThan((await messages(false)) / 2);
});
