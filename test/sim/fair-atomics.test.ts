// Atomics of several tenants to one peer under fair: equal rates, whatever a tenant's queue pairs do.
import { expect, test } from 'vitest';
import { createPolicy } from '../../src/policies/index.ts';
import { createFabric, type Fabric } from '../../src/providers/sim/index.ts';
import { compose } from '../../src/shim/compose.ts';
import { PROFILES } from '../../src/sim/profile/profiles.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, type End, type EndOptions, makeEnd, post, take } from './helpers.ts';

const PROFILE = PROFILES['cx6-100g'];
/** Atomics per millisecond that the device executes. */
const MOST = 1e6 / PROFILE.atomicGapNs;
const DEPTH = 64;

type FlowOptions = EndOptions & {
  /** Whether each atomic follows a WRITE of one packet. */
  mixes?: boolean;
};

/** A fabric on which each context is a tenant of its own. */
function world() {
  const fabric = createFabric({ profile: PROFILE, autoAdvance: false });
  const shimmed = { ...fabric, provider: compose(fabric.provider, [createPolicy('fair')]) } as Fabric;
  return { fabric, flow: (options?: FlowOptions) => new Flow(fabric, shimmed, options) };
}

/** A queue pair that always has atomics to send, until it is stopped. */
class Flow {
  readonly a: End;
  readonly b: End;
  done = 0;
  isPosting = true;
  private readonly mixes: boolean;

  constructor(fabric: Fabric, shimmed: Fabric, options: FlowOptions = {}) {
    this.mixes = options.mixes === true;
    this.a = makeEnd(shimmed, 0, options);
    this.b = makeEnd(fabric, 1);
    connect(this.a, this.b);
    for (let i = 0; i < DEPTH / 2; i++) this.post();
  }

  private post(): void {
    const { a, b, mixes } = this;
    if (mixes) a.send.write(0, 0, a.mr.addr + 64, 4096, a.mr.lkey, b.mr.addr + 64, b.mr.rkey);
    a.send.fetchAdd(1, V.IBV_SEND_SIGNALED, a.mr.addr, a.mr.lkey, b.mr.addr, b.mr.rkey, 1n);
    expect(post(a)).toBe(mixes ? 2 : 1);
  }

  step(): void {
    for (const { status } of take(this.a)) {
      expect(status).toBe('SUCCESS');
      this.done++;
      if (this.isPosting) this.post();
    }
  }

  /** What the counter at the peer says. */
  get counted(): number {
    return Number(new DataView(this.b.bytes.buffer, this.b.bytes.byteOffset).getBigUint64(0, true));
  }
}

/** Runs for a time, with a poll each so often; returns the atomics of each flow. */
async function run(fabric: Fabric, flows: Flow[], ns: number, pollNs = 500): Promise<number[]> {
  const before = flows.map(({ done }) => done);
  for (const endNs = fabric.nowNs + ns; fabric.nowNs < endNs; ) {
    for (const flow of flows) flow.step();
    await fabric.advance(pollNs);
  }
  return flows.map(({ done }, i) => done - before[i]);
}

test('a tenant that may have one atomic outstanding gets what it can use, and others get the rest', async () => {
  const { fabric, flow } = world();
  const flows = [flow({ maxRdAtomic: 1 }), flow(), flow()];
  await run(fabric, flows, 2e5);
  const [one, ...others] = await run(fabric, flows, 1e6);
  // A round trip takes about as long as eight atomics, and a poll a little more.
  expect(one / MOST).toBeGreaterThan(0.04);
  for (const other of others) expect(other / ((MOST - one) / 2)).toBeGreaterThan(0.9);
});

test('a queue pair whose atomics follow WRITEs leaves others their share', async () => {
  const { fabric, flow } = world();
  const flows = [flow({ mixes: true }), flow()];
  await run(fabric, flows, 2e5);
  const [, other] = await run(fabric, flows, 1e6);
  expect(other / (MOST / 2)).toBeGreaterThan(0.9);
});

test('a queue pair that is destroyed or stops sending leaves the rate to others, and no atomic is lost', async () => {
  const { fabric, flow } = world();
  const flows = [flow(), flow(), flow()];
  const [first, stops, destroyed] = flows;
  await run(fabric, flows, 2e5);
  const [third] = await run(fabric, flows, 5e5);
  expect(third / (MOST / 6)).toBeGreaterThan(0.9);
  expect(third / (MOST / 6)).toBeLessThan(1.1);
  destroyed.a.v.destroyQp(destroyed.a.qp);
  stops.isPosting = false;
  await run(fabric, [first, stops], 2e5);
  const [all] = await run(fabric, [first, stops], 5e5);
  expect(all / (MOST / 2)).toBeGreaterThan(0.9);
  first.isPosting = false;
  await run(fabric, [first, stops], 2e5);
  for (const { counted, done } of [first, stops]) expect(counted).toBe(done);
});

test.each(['fair', 'drum', 'tassel'])(
  '%s: atomics behind a WRITE are in order once another tenant sends some',
  async (name) => {
    const fabric = createFabric({ profile: PROFILE, autoAdvance: false });
    const provider = compose(fabric.provider, [createPolicy(name)]);
    const shimmed = { ...fabric, provider } as Fabric;
    const large = { bytes: 2 ** 21 };
    const [a, b] = [1, 2].map(() => makeEnd(shimmed, 0, large));
    const [atA, atB] = [a, b].map((end) => {
      const peer = makeEnd(fabric, 1, large);
      connect(end, peer);
      return peer;
    });
    const add = ({ send, mr }: End, peer: End) =>
      send.fetchAdd(1, V.IBV_SEND_SIGNALED, mr.addr, mr.lkey, peer.mr.addr, peer.mr.rkey, 1n);
    add(b, atB);
    post(b);
    await fabric.run();
    b.send.write(2, V.IBV_SEND_SIGNALED, b.mr.addr, 2 ** 20, b.mr.lkey, atB.mr.addr, atB.mr.rkey);
    for (let i = 0; i < 2; i++) add(b, atB);
    post(b);
    for (let i = 0; i < 2; i++) add(a, atA);
    post(a);
    await fabric.run();
    add(a, atA);
    post(a);
    await fabric.run();
    expect(take(a).map(({ status }) => status)).toEqual(Array(3).fill('SUCCESS'));
    expect(take(b).map(({ status }) => status)).toEqual(Array(4).fill('SUCCESS'));
  },
);

test('a tenant that polls late takes little from others', async () => {
  const { fabric, flow } = world();
  const [late, busy] = [flow(), flow()];
  await run(fabric, [late, busy], 2e5);
  let done = 0;
  for (let i = 0; i < 10; i++) {
    late.step();
    done += (await run(fabric, [busy], 1e5))[0];
  }
  expect(done / MOST).toBeGreaterThan(0.9);
});
