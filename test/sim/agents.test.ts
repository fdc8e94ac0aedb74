// Agents in virtual time: messages take what SENDs take and may be lost, and hosts know each other by messages only.
import { describe, expect, test } from 'vitest';
import { type Agent, type AgentActions, MAX_MESSAGE_WORDS } from '../../src/coordinator/agent.ts';
import { CoordinatorRegistry } from '../../src/coordinator/registry.ts';
import { tenantId } from '../../src/coordinator/tenants.ts';
import { createFabric, type Fabric, type FabricOptions } from '../../src/providers/sim/index.ts';
import type { ContextView } from '../../src/shim/policy.ts';
import { gidToWords } from '../../src/verbs/gid.ts';
import * as V from '../../src/verbs/index.ts';

/** An agent that notes what happens to it. */
class Noting implements Agent {
  out!: AgentActions;
  readonly messages: { peer: number; words: number[]; atNs: number }[] = [];
  readonly peers: string[] = [];
  readonly probes: number[] = [];
  readonly timers: { token: number; atNs: number }[] = [];

  onStart(out: AgentActions): void {
    this.out = out;
  }

  onMessage(peer: number, words: Float64Array, { nowNs }: AgentActions): void {
    this.messages.push({ peer, words: [...words], atNs: nowNs });
  }

  onPeer(peer: number, change: string): void {
    this.peers.push(`${peer} ${change}`);
  }

  /** Whether it has use for peers that have been down for a minute. */
  keeps = true;
  readonly asked: number[] = [];

  forgetPeer(peer: number): boolean {
    this.asked.push(peer);
    return !this.keeps;
  }

  onProbe(_peer: number, latencyNs: number): void {
    this.probes.push(latencyNs);
  }

  onTimer(token: number, { nowNs }: AgentActions): void {
    this.timers.push({ token, atNs: nowNs });
  }
}

const noting = { name: 'noting', create: () => new Noting() };
const gidOf = (host: number) => `::ffff:10.0.0.${host + 1}`;

/** A fabric whose hosts have an agent each. */
function hosts(count: number, options: FabricOptions = {}, change: (v: V.Provider) => V.Provider = (v) => v) {
  const fabric = createFabric({ hosts: count, autoAdvance: false, ...options });
  const registry = new CoordinatorRegistry(undefined, change(fabric.provider));
  for (let host = 0; host < count; host++) registry.registerGid(`sim${host}`, gidOf(host));
  const agents = Array.from({ length: count }, (_, host) => registry.agent(`sim${host}`, noting)!);
  const peerOf = (from: number, to: number) => agents[from].out.peerAt(gidOf(to), gidOf(from));
  return { fabric, registry, agents, peerOf };
}

/** A datagram queue pair of a program, with a buffer. */
function datagramEnd(fabric: Fabric, host: number, qkey: number) {
  const v = fabric.provider;
  const context = v.openDevice(`sim${host}`);
  const pd = v.allocPd(context);
  const cq = v.createCq(context, 64, 0).handle;
  const cap = { maxSendWr: 16, maxRecvWr: 16, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
  const attr = { qpType: V.IBV_QPT_UD, sendCq: cq, recvCq: cq, cap, sqSigAll: true };
  const { handle, qpNum } = v.createQp(pd, attr);
  const modify = (change: V.QpAttr) => v.modifyQp(handle, change, V.maskOf(change));
  modify({ qpState: V.IBV_QPS_INIT, pkeyIndex: 0, portNum: 1, qkey });
  modify({ qpState: V.IBV_QPS_RTR });
  modify({ qpState: V.IBV_QPS_RTS, sqPsn: 0 });
  const mr = v.allocMr(pd, 4096, V.IBV_ACCESS_LOCAL_WRITE);
  const send = (bytes: number, to: number, destQpNum: number) => {
    const ah = v.createAh(pd, { dgid: gidOf(to), sgidIndex: 0, portNum: 1, hopLimit: 64 });
    const batch = new V.SendBatch(v, { capacity: 1, sges: 1 });
    batch.send(0, V.IBV_SEND_SIGNALED, mr.addr, bytes, mr.lkey).datagramTo(0, ah, destQpNum, qkey);
    expect(v.postSend(handle, batch.ring, 0, 1)).toBe(1);
  };
  const receive = () => {
    const batch = new V.RecvBatch(v, { capacity: 1, sges: 1 });
    batch.recv(0, mr.addr, 4096, mr.lkey);
    v.postRecv(handle, batch.ring, 0, 1);
  };
  const wc = new V.WcBatch(v, { capacity: 16 });
  return { send, receive, qpNum, mr, poll: () => v.pollCq(cq, wc.ring, 0, 16) };
}

/** The time of a SEND of as many bytes as a message of one word has, from post to the receiver's completion. */
async function datagramNs(fabric: Fabric): Promise<number> {
  const [from, to] = [0, 1].map((host) => datagramEnd(fabric, host, 5));
  let tookNs = 0;
  // Receives that are posted ahead are fetched ahead, as those of agents.
  for (let i = 0; i < 8; i++) to.receive();
  // The first one loads the caches of both NICs.
  for (const _ of [0, 1]) {
    await fabric.advance(20_000);
    const startNs = fabric.nowNs;
    from.send(8 * 12, 1, to.qpNum);
    while (to.poll() === 0) await fabric.advance(1);
    tookNs = fabric.nowNs - startNs;
  }
  return tookNs;
}

describe('messages', () => {
  test('arrive whole, at the agent of the same name, and peers are up after the first', async () => {
    const { fabric, registry, agents, peerOf } = hosts(3);
    const other = registry.agent('sim1', { ...noting, name: 'other' })!;
    const peer = peerOf(0, 1);
    expect(peerOf(0, 1)).toBe(peer);
    const words = Array.from({ length: MAX_MESSAGE_WORDS }, (_, i) => i / 7);
    agents[0].out.send(peer, words);
    await fabric.advance(20_000);
    expect(agents[1].messages).toMatchObject([{ words }]);
    expect([agents[0].peers, agents[1].peers, agents[2].peers]).toEqual([['0 up'], ['0 up'], []]);
    agents[1].out.send(0, [1]);
    await fabric.advance(20_000);
    expect(agents[0].messages).toMatchObject([{ peer, words: [1] }]);
    expect([other.messages, agents[2].messages]).toEqual([[], []]);
  });

  test.each(['cx6-100g', 'cx3-56g'])(
    'on 34 hosts of %s, a message takes what a SEND takes',
    async (profile) => {
      const { fabric, agents, peerOf } = hosts(34, { profile });
      for (let to = 1; to < 34; to++) peerOf(0, to);
      await fabric.advance(1e6);
      const sendNs = await datagramNs(fabric);
      for (let to = 1; to < 34; to++) {
        const beganNs = fabric.nowNs;
        agents[0].out.send(peerOf(0, to), [to]);
        await fabric.advance(20_000);
        const [{ words, atNs }] = agents[to].messages;
        expect(words).toEqual([to]);
        expect(Math.abs(atNs - beganNs - sendNs) / sendNs).toBeLessThan(0.03);
      }
    },
  );

  test('with all messages lost, nothing of host 0 is seen on host 1, and the peer is not up', async () => {
    const { fabric, agents, peerOf } = hosts(2, { profile: { agentLoss: 1 } });
    const peer = peerOf(0, 1);
    for (let i = 0; i < 1000; i++) {
      agents[0].out.send(peer, [i]);
      agents[0].out.probe(peer, 8);
      await fabric.advance(100_000);
    }
    expect([agents[1].messages, agents[1].peers, agents[0].peers]).toEqual([[], [], []]);
    await fabric.advance(3e8);
    expect(agents[0].probes.length).toBeGreaterThan(0);
    expect(agents[0].probes.every(Number.isNaN)).toBe(true);
  });

  test('with every second message lost, about half arrive, each once and in order', async () => {
    const { fabric, agents, peerOf } = hosts(2, { profile: { agentLoss: 0.5 } });
    const peer = peerOf(0, 1);
    for (let i = 0; i < 1000; i++) {
      agents[0].out.send(peer, [i]);
      await fabric.advance(5000);
    }
    const numbers = agents[1].messages.map(({ words }) => words[0]);
    expect(numbers).toEqual([...new Set(numbers)].sort((x, y) => x - y));
    expect(numbers.length).toBeGreaterThan(400);
    expect(numbers.length).toBeLessThan(600);
  });

  test('wrong numbers are rejected with a sentence that says what to do', () => {
    const { agents, peerOf } = hosts(2);
    const { out } = agents[0];
    const peer = peerOf(0, 1);
    expect(out.peerAt('::ffff:10.0.0.99', gidOf(0))).toBe(-1);
    expect(out.gidOf(peer)).toBe(gidOf(1));
    expect(() => out.gidOf(7)).toThrow('there is no peer 7');
    expect(() => out.send(peer, new Float64Array(MAX_MESSAGE_WORDS + 1))).toThrow('at most 100 words');
    expect(() => out.send(7, [])).toThrow('there is no peer 7: use a number that peerAt() or onPeer() gave');
    expect(() => out.probe(-1, 8)).toThrow('there is no peer -1');
    for (const bytes of [0, 4097, 1.5, Number.NaN])
      expect(() => out.probe(peer, bytes)).toThrow('1 to 4096 bytes');
  });

  test('datagrams that are no messages of agents have no effect', async () => {
    const { fabric, agents, peerOf } = hosts(2);
    peerOf(0, 1);
    await fabric.advance(20_000);
    const agentQp = [...fabric.simulation.world.qps].find((qp) => qp?.isAgent && qp.host === 1)!;
    const end = datagramEnd(fabric, 0, agentQp.attr.qkey!);
    const words = new Float64Array(end.mr.memory);
    const magic = 0x49534f41;
    const peers = [...agents[1].peers];
    for (const [bytes, head] of [
      [0, []],
      [7, [magic]],
      [80, [magic, 0, 0]],
      [88, [magic, 0, 0, Number.NaN, 1, 2, 3]],
      [88, [magic, 0, 0, 2 ** 40, 1, 2, 3]],
      [888, [magic, 99, 0, 1, 2, 3, 4]],
      [888, [1, 0, 0]],
      [112, [magic, 2, 0, 1, 2, 3, 4, 1, 2, 3, 4, -1, Number.NaN, 1e300]],
      [112, [magic, 3, 0, 1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7]],
    ] as const) {
      words.fill(0);
      words.set(head);
      end.send(bytes, 1, agentQp.qpn);
      await fabric.advance(20_000);
    }
    expect([agents[1].messages, agents[1].peers]).toEqual([[], peers]);
    agents[0].out.send(0, [5]);
    await fabric.advance(20_000);
    expect(agents[1].messages).toMatchObject([{ words: [5] }]);
  });
});

describe('many peers', () => {
  test('more than there are slots for greetings stay up', async () => {
    const { fabric, agents, peerOf } = hosts(80);
    for (let to = 1; to < 80; to++) peerOf(0, to);
    await fabric.advance(300e6);
    expect(agents.slice(1).map(({ peers }) => peers)).toEqual(Array(79).fill(['0 up']));
    expect(agents[0].peers).toHaveLength(79);
  });

  test('a host whose agents are opened again and again does not crowd out the messages to others', async () => {
    const { fabric, registry, agents, peerOf } = hosts(3);
    const context = { handle: 1, index: 0, device: 'sim1', tenant: '', labels: { weight: 1 } };
    for (let i = 0; i < 70; i++) {
      const close = registry.subscribe(context as unknown as ContextView, () => {});
      registry.agent('sim1', noting);
      agents[0].out.send(peerOf(0, 1), [i]);
      await fabric.advance(1e6);
      close();
    }
    const peer = peerOf(0, 2);
    for (let i = 0; i < 300; i++) {
      agents[0].out.send(peer, [i]);
      await fabric.advance(1e6);
    }
    expect(agents[2].messages).toHaveLength(300);
    expect(agents[2].peers).toEqual(['0 up']);
  });

  test('an agent that throws hears the next message', async () => {
    const thrown: string[] = [];
    const { fabric, agents, peerOf } = hosts(2, {}, (v) => ({
      ...v,
      watchCompChannel: (channel, listener) => {
        const noting: typeof listener = (...given) => {
          try {
            listener?.(...given);
          } catch (error) {
            thrown.push((error as Error).message);
          }
        };
        v.watchCompChannel(channel, listener && noting);
      },
    }));
    let heard = 0;
    agents[1].onMessage = () => {
      heard++;
      throw new Error('thrown by the agent');
    };
    const peer = peerOf(0, 1);
    for (let i = 0; i < 300; i++) {
      agents[0].out.send(peer, [i]);
      await fabric.advance(20_000);
    }
    expect([heard, new Set(thrown)]).toEqual([300, new Set(['thrown by the agent'])]);
  });

  test('a frame that claims to come from another host is dropped', async () => {
    const { fabric, agents, peerOf } = hosts(3);
    peerOf(0, 1);
    await fabric.advance(20_000);
    const agentQp = [...fabric.simulation.world.qps].find((qp) => qp?.isAgent && qp.host === 1)!;
    const end = datagramEnd(fabric, 2, agentQp.attr.qkey!);
    const forge = async (from: string) => {
      const words = new Float64Array(end.mr.memory);
      words.set([0x49534f41, 0, tenantId('noting'), ...gidToWords(from), ...gidToWords(gidOf(1)), 7]);
      end.send(8 * 12, 1, agentQp.qpn);
      await fabric.advance(20_000);
    };
    await forge(gidOf(0));
    expect(agents[1].messages).toEqual([]);
    await forge(gidOf(2));
    expect(agents[1].messages).toMatchObject([{ words: [7] }]);
  });
});

test('a device without room for an agent keeps nothing of it', () => {
  const fabric = createFabric({ hosts: 1, autoAdvance: false });
  const full = (verb: 'createQp' | 'allocMr' | 'createCq'): V.Provider => ({
    ...fabric.provider,
    [verb]: () => {
      throw new V.NoResourcesError('full');
    },
  });
  for (const verb of ['createQp', 'allocMr', 'createCq'] as const) {
    expect(new CoordinatorRegistry(undefined, full(verb)).agent('sim0', noting)).toBeNull();
    expect(fabric.tenants()).toEqual([]);
  }
});

describe('probes', () => {
  test('to or from a device without room for their queue pairs are lost, and messages are not', async () => {
    const { fabric, agents, peerOf } = hosts(2, {}, (v) => ({
      ...v,
      createQp: (pd, attr) => {
        if (attr.qpType === V.IBV_QPT_RC) throw new V.NoResourcesError('full');
        return v.createQp(pd, attr);
      },
    }));
    const peer = peerOf(0, 1);
    await fabric.advance(20_000);
    agents[0].out.probe(peer, 8);
    agents[0].out.probe(peer, 8);
    expect(agents[0].probes).toEqual([Number.NaN, Number.NaN]);
    agents[0].out.send(peer, [1]);
    await fabric.advance(20_000);
    expect(agents[1].messages).toMatchObject([{ words: [1] }]);
  });

  test('measure one WRITE, in both directions, one at a time', async () => {
    const { fabric, agents, peerOf } = hosts(2, { profile: 'cx6-100g' });
    const peer = peerOf(0, 1);
    agents[0].out.probe(peer, 8);
    agents[0].out.probe(peer, 8);
    await fabric.advance(50_000);
    expect(agents[0].probes).toHaveLength(1);
    agents[0].out.probe(peer, 8);
    await fabric.advance(50_000);
    const [, second] = agents[0].probes;
    expect(second).toBeGreaterThan(900);
    expect(second).toBeLessThan(5000);
    agents[0].out.probe(peer, 4096);
    agents[1].out.probe(0, 8);
    await fabric.advance(50_000);
    expect(agents[0].probes[2]).toBeGreaterThan(second);
    // Both at once: one begins while the other is on its way.
    expect(Math.abs(agents[1].probes[0] - second)).toBeLessThan(0.5 * second);
  });
});

describe('peers and timers', () => {
  test('a peer that is down for a minute is forgotten, unless an agent needs it, and its number is used again', async () => {
    const { fabric, registry, agents, peerOf } = hosts(4);
    const [a] = agents;
    const numbers = [1, 2, 3].map((host) => peerOf(0, host));
    await fabric.advance(1e6);
    for (const host of [1, 2]) registry.setAgentsDown(`sim${host}`, true);
    await fabric.advance(59e9);
    expect(a.asked).toEqual([]);
    await fabric.advance(2e9);
    expect(a.asked).toEqual(numbers.slice(0, 2));
    // They are kept, for another minute at least.
    a.out.send(numbers[0], [1]);
    a.keeps = false;
    await fabric.advance(61e9);
    expect(a.asked.slice(2)).toEqual(numbers.slice(0, 2));
    for (const number of numbers.slice(0, 2))
      expect(() => a.out.send(number, [1])).toThrow(`there is no peer ${number}`);
    a.out.send(numbers[2], [1]);
    for (const host of [1, 2]) registry.setAgentsDown(`sim${host}`, false);
    const again = [2, 1].map((host) => peerOf(0, host));
    expect(new Set(again)).toEqual(new Set(numbers.slice(0, 2)));
    await fabric.advance(20e6);
    for (const [i, host] of [2, 1].entries()) {
      a.out.send(again[i], [host]);
      await fabric.advance(20_000);
      expect(agents[host].messages.at(-1)?.words).toEqual([host]);
    }
  }, 60_000);

  test('a host whose agents are out of order is down until they continue', async () => {
    const { fabric, registry, agents, peerOf } = hosts(2);
    const peer = peerOf(0, 1);
    await fabric.advance(2e7);
    registry.setAgentsDown('sim1', true);
    agents[0].out.send(peer, [1]);
    agents[1].out.timer(fabric.nowNs + 1000, 3);
    await fabric.advance(1e8);
    expect(agents[0].peers).toEqual(['0 up', '0 down']);
    expect([agents[1].messages, agents[1].timers]).toEqual([[], []]);
    registry.setAgentsDown('sim1', false);
    expect(agents[1].timers).toMatchObject([{ token: 3 }]);
    await fabric.advance(3e7);
    agents[0].out.send(peer, [2]);
    await fabric.advance(20_000);
    expect(agents[0].peers.at(-1)).toBe('0 up');
    expect(agents[1].messages).toMatchObject([{ words: [2] }]);
  });

  test('timers fire at their times, a token has one, and Infinity removes it', async () => {
    const { fabric, agents } = hosts(2);
    const { out } = agents[0];
    out.timer(5000, 1);
    out.timer(9000, 2);
    out.timer(3000, 1);
    out.timer(4000, 4);
    out.timer(Number.POSITIVE_INFINITY, 4);
    await fabric.advance(20_000);
    expect(agents[0].timers).toEqual([
      { token: 1, atNs: 3000 },
      { token: 2, atNs: 9000 },
    ]);
  });
});
