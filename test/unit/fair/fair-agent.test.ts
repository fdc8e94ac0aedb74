/** What the agent of fair tells contexts and peers, and what it keeps of them. */
import { expect, test } from 'vitest';
import type { AgentActions } from '../../../src/coordinator/agent.ts';
import { FairAgent } from '../../../src/policies/fair/agent/fair-agent.ts';
import {
  isQuiet,
  readDemand,
  readLimits,
  writeFlows,
  writeLevels,
} from '../../../src/policies/fair/agent/messages.ts';

const SELF = '::ffff:10.0.0.1';
const PEERS = ['::ffff:10.0.0.2', '::ffff:10.0.0.3'];
const PERIOD_NS = 2.5e5;

/** The agent of a host with one context, whose peers have the numbers of their places in PEERS. */
function rig() {
  const known = new Set(PEERS);
  const forgotten = new Set<number>();
  const told: Float64Array[] = [];
  const sent: number[] = [];
  const periods: number[] = [];
  let nowNs = 0;
  const tenants = { group: () => {}, tenantOf: () => 0, firstOf: () => 0, memberAt: () => 0 };
  const members = { linkGbps: 100, isRemote: false, tenants, report: () => ({ of: () => 1 }) };
  const out = {
    get nowNs() {
      return nowNs;
    },
    gids: [SELF],
    members: () => members,
    tell: (_member: number, words: ArrayLike<number>) => told.push(Float64Array.from(words)),
    peerAt: (gid: string) => (known.has(gid) ? PEERS.indexOf(gid) : -1),
    send: (peer: number, words: ArrayLike<number>) => {
      if (forgotten.has(peer)) throw new Error(`there is no peer ${peer}`);
      const demand = readDemand(words);
      if (demand === null) return;
      sent.push(peer);
      periods.push(demand.periodNs);
    },
    timer: () => {},
  } as unknown as AgentActions;
  const agent = new FairAgent();
  agent.onStart(out);
  const flow = (gid: string) => {
    const [busy, idle] = [
      { perNs: 5, isHungry: true },
      { perNs: 0, isHungry: false },
    ];
    return { gid, fromGid: SELF, out: busy, in: idle, requestsPerNs: 0 };
  };
  return {
    ...{ agent, known, forgotten, told, sent, periods },
    report: (gids: readonly string[]) =>
      agent.onTold(0, Float64Array.from(writeFlows(PERIOD_NS, gids.map(flow))), out),
    levels: (peer: number, outPerNs: number) =>
      agent.onMessage(peer, Float64Array.from(writeLevels({ sentNs: nowNs, outPerNs, inPerNs: 0 })), out),
    decide: (afterNs = PERIOD_NS) => {
      nowNs += afterNs;
      agent.onTimer(0, out);
    },
  };
}

test('a peer is not forgotten while contexts send there', () => {
  const { agent, forgotten, sent, report, decide } = rig();
  report(PEERS);
  decide();
  expect(sent).toEqual([0, 1]);
  if (agent.forgetPeer(1)) forgotten.add(1);
  decide();
  for (let i = 0; i < 8; i++) decide();
  expect(agent.forgetPeer(1)).toBe(true);
});

test('a peer that begins to set a limit is asked more often at once', () => {
  const { periods, report, levels, decide } = rig();
  report(PEERS.slice(0, 1));
  decide();
  levels(0, 3);
  report(PEERS.slice(0, 1));
  decide(PERIOD_NS / 4);
  expect(periods).toEqual([4 * PERIOD_NS, PERIOD_NS]);
});

test('the limit at one peer is repeated although that at another one changes all the time', () => {
  const { told, report, levels, decide } = rig();
  let repeats = 0;
  for (let i = 0; i < 32; i++) {
    report(PEERS);
    levels(0, 2 + (i % 2));
    levels(1, 3);
    told.length = 0;
    decide();
    const limits = told.flatMap((words) => readLimits(words)?.peers ?? []);
    if (i > 0 && limits.some(({ gid }) => gid === PEERS[1])) repeats++;
  }
  expect(repeats).toBeGreaterThanOrEqual(6);
});

test('a context rests once none of its peers has an agent any more', () => {
  const { known, told, report, decide } = rig();
  for (let i = 0; i < 4; i++) {
    report(PEERS);
    decide();
  }
  known.clear();
  for (let i = 0; i < 8; i++) {
    report(['::ffff:10.0.0.9']);
    decide();
  }
  expect(told.some(isQuiet)).toBe(true);
});
