/**
 * Congestion control as a source of rates under tassel: a program or an agent sets the rate of a queue pair 10^5 times a
 * second. Memory stays bounded, every rate counts for as long as it holds, and the last one holds within 10 us.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import type { Agent, AgentActions, AgentKind } from '../../src/coordinator/agent.ts';
import { createPolicy, tasselWithAgent } from '../../src/policies/index.ts';
import { createFabric, type FabricOptions } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import { override } from '../../src/sim/profile/overrides.ts';
import { PROFILES } from '../../src/sim/profile/profiles.ts';
import { gidFromWords } from '../../src/verbs/gid.ts';
import * as V from '../../src/verbs/index.ts';
import { tagsIf } from '../support/variants.ts';
import { connect, makeEnd, post } from './helpers.ts';

const BYTES = 4096;
const WIRE_BYTES = BYTES + 98;
const DEPTH = 64;
const STEP_NS = 10_000;
const CHANGES = 100_000;
/** In npm test. */
const SOME_CHANGES = 10_000;

setFlagsFromString('--expose_gc');
const collect: () => void = runInNewContext('gc');

function heapBytes(): number {
  collect();
  return process.memoryUsage().heapUsed;
}

/** An agent that only sets rates. */
class Setter implements Agent {
  out!: AgentActions;
  readonly told: (readonly [member: number, words: number[]])[] = [];
  onStart(out: AgentActions): void {
    this.out = out;
  }
  onTold(member: number, words: Float64Array): void {
    this.told.push([member, [...words]]);
  }
}

/**
 * A queue pair that always has WRITEs to send. `run` returns how many complete meanwhile, `reopen` destroys the queue pair,
 * does something, and creates another one in its application.
 */
function worldOf(policy: Interceptor, profile: FabricOptions['profile'] = 'cx6-100g') {
  const fabric = createFabric({ hosts: 2, profile, inside: true, payload: false });
  const provider = compose(fabric.provider, [policy]);
  const end = makeEnd({ ...fabric, provider }, 0, { cap: { maxSendWr: DEPTH } });
  let peer = makeEnd(fabric, 1);
  connect(end, peer);
  const write = (count: number) => {
    for (let i = 0; i < count; i++)
      end.send.write(i, V.IBV_SEND_SIGNALED, end.mr.addr, BYTES, end.mr.lkey, peer.mr.addr, peer.mr.rkey);
    if (count > 0) expect(post(end)).toBe(count);
  };
  write(DEPTH);
  const run = async (ns: number, pollNs = STEP_NS / 20) => {
    let done = 0;
    for (const untilNs = fabric.nowNs + ns; fabric.nowNs < untilNs; ) {
      await fabric.advance(Math.min(pollNs, untilNs - fabric.nowNs));
      const n = end.v.pollCq(end.sendCq, end.wc.ring, 0, end.wc.capacity);
      done += n;
      write(n);
    }
    return done;
  };
  const reopen = (meanwhile: () => void) => {
    provider.destroyQp(end.qp);
    meanwhile();
    const { pd, sendCq, recvCq } = end;
    const cap = { maxSendWr: DEPTH, maxRecvWr: 1, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
    const attr = { qpType: V.IBV_QPT_RC, sendCq, recvCq, cap, sqSigAll: false };
    const { handle, qpNum } = provider.createQp(pd, attr);
    Object.assign(end, { qp: handle, qpNum });
    peer = makeEnd(fabric, 1);
    connect(end, peer);
    end.v.pollCq(end.sendCq, end.wc.ring, 0, end.wc.capacity);
    write(DEPTH);
  };
  return { provider, end, run, reopen };
}

type World = ReturnType<typeof worldOf>;

const byProgram = () => {
  const world = worldOf(createPolicy('tassel'));
  const { provider, end } = world;
  const set = (gbps: number) => provider.modifyQpRateLimit(end.qp, { rateLimitKbps: Math.round(1e6 * gbps) });
  return { world, set };
};

function agentOf(): { kind: AgentKind; agent: Setter } {
  const agent = new Setter();
  return { agent, kind: { name: 'setter', create: () => agent } };
}

const byAgent = () => {
  const { kind, agent } = agentOf();
  const world = worldOf(tasselWithAgent(kind));
  const [[member, [, handle]]] = agent.told;
  return { world, set: (gbps: number) => agent.out.tell(member, [handle, 1e6 * gbps]) };
};

/** The rate over 100 us, on the wire. */
async function gbpsOf(world: World): Promise<number> {
  await world.run(10_000);
  return ((await world.run(100_000)) * WIRE_BYTES * 8) / 100_000;
}

async function expectGbps(world: World, expected: number): Promise<void> {
  expect(Math.abs((await gbpsOf(world)) / expected - 1)).toBeLessThan(0.04);
}

const gaugeOf = ({ provider }: World, name: string) =>
  provider.policyGauges!().find((gauge) => gauge.name === name)!.value;

describe.each([
  ['a program', byProgram],
  ['an agent', byAgent],
])('%s sets a rate', (_, make) => {
  const manyTimes = async (changes: number) => {
    const { world, set } = make();
    let [before, most, bits, messages] = [0, 0, 0, 0];
    for (let i = 0; i < changes; i++) {
      const gbps = 0.1 + ((i * 7919) % 1000) / 1000;
      set(gbps);
      bits += gbps * STEP_NS;
      messages += await world.run(STEP_NS, STEP_NS / 4);
      most = Math.max(most, gaugeOf(world, 'timeline'));
      if (i === changes / 10) before = heapBytes();
    }
    // A word for each change would take more. In a shorter run, compiled code takes as much.
    if (changes === CHANGES) expect(heapBytes() - before).toBeLessThan(500_000);
    // What is not used after it was measured would not be measured.
    expect(gaugeOf(world, 'timeline')).toBeLessThanOrEqual(most);
    expect(most).toBe(1);
    expect(Math.abs((messages * WIRE_BYTES * 8) / bits - 1)).toBeLessThan(0.02);
  };
  for (const [changes, isShort] of [
    [SOME_CHANGES, make === byProgram],
    [CHANGES, false],
  ] as const)
    test(`${changes} times, 10 us apart`, { tags: tagsIf(isShort), timeout: 120_000 }, () =>
      manyTimes(changes),
    );

  test('the last one holds within 10 us, up and down', async () => {
    const { world, set } = make();
    for (const gbps of [1e-4, 40, 1e-4, 3, 60, 1e-4]) {
      for (let i = 0; i < 100; i++) set(50 - i / 4);
      set(gbps);
      await world.run(10_000);
      const spanNs = 200_000;
      const messages = await world.run(spanNs);
      const expected = (gbps * spanNs) / 8 / WIRE_BYTES;
      expect(Math.abs(messages - expected), `${gbps} Gbit/s`).toBeLessThan(1 + 0.03 * expected);
    }
  });
});

describe('the agent', () => {
  test('learns of each connection, and of its end', () => {
    const { kind, agent } = agentOf();
    const { end, provider } = worldOf(tasselWithAgent(kind));
    const [[member, words]] = agent.told;
    expect([words.slice(0, 2), gidFromWords(words, 2), gidFromWords(words, 6)]).toEqual([
      [1, end.qp],
      '::ffff:10.0.0.2',
      '::ffff:10.0.0.1',
    ]);
    provider.destroyQp(end.qp);
    expect(agent.told.slice(1)).toEqual([[member, [0, end.qp, 0, 0, 0, 0, 0, 0, 0, 0]]]);
    // For a queue pair that is gone.
    agent.out.tell(member, [end.qp, 1e6]);
  });

  test('removes a rate with 0; the lower of its rate and that of the program holds; the rest is ignored', async () => {
    const { kind, agent } = agentOf();
    const world = worldOf(tasselWithAgent(kind, { qpGbps: '20' }));
    const [[member, [, handle]]] = agent.told;
    await expectGbps(world, 20);
    agent.out.tell(member, [handle, 10e6]);
    await expectGbps(world, 10);
    for (const wrong of [Number.NaN, -1, Number.POSITIVE_INFINITY]) agent.out.tell(member, [handle, wrong]);
    agent.out.tell(member, [handle + 99, 1, handle]);
    agent.out.tell(member, []);
    await expectGbps(world, 10);
    agent.out.tell(member, [handle, 500e6]);
    await expectGbps(world, 20);
    agent.out.tell(member, [handle, 5e6]);
    world.provider.modifyQpRateLimit(world.end.qp, { rateLimitKbps: 7e6 });
    await expectGbps(world, 5);
    agent.out.tell(member, [handle, 0]);
    await expectGbps(world, 7);
  });

  test('a wrong option of the policy is an error', () => {
    const { kind } = agentOf();
    expect(() => tasselWithAgent(kind, { qpGbs: 1 })).toThrow(/tassel/);
  });
});

describe('options that change at run time', () => {
  test('the rate of applications counts for one without queue pairs at present', async () => {
    const world = worldOf(createPolicy('tassel', { applicationGbps: '20' }));
    await expectGbps(world, 20);
    world.reopen(() => world.provider.configurePolicy!('tassel', { applicationGbps: 5 }));
    await expectGbps(world, 5);
  });

  test('with enforce=device, the device has the new rate of queue pairs', async () => {
    // Limiters as stock NICs have them take 2 ms to change, and are up to 10 % off.
    const exact = override(PROFILES['cx6-100g'], { rateLimiter: 'tassel' });
    const world = worldOf(createPolicy('tassel', { enforce: 'device', qpGbps: '20' }), exact);
    await expectGbps(world, 20);
    for (const qpGbps of [5, 50]) {
      world.provider.configurePolicy!('tassel', { qpGbps });
      await expectGbps(world, qpGbps);
    }
  });
});
