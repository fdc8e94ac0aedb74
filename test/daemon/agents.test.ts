// Agents in the daemon: lines of clients over a real socket, and the daemon's own devices, which are simulated here.
// @module-tag wide
import { mkdtempSync, rmSync } from 'node:fs';
import { connect as connectNet } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import pino from 'pino';
import { afterEach, expect, test, vi } from 'vitest';
import type { Agent, AgentActions, AgentKind, AgentLine } from '../../src/coordinator/agent.ts';
import type { MemberPage } from '../../src/coordinator/member-table.ts';
import { DaemonAgents } from '../../src/daemon/agents.ts';
import { DaemonClient } from '../../src/daemon/client/client.ts';
import type { Ruling } from '../../src/daemon/devices.ts';
import { Host } from '../../src/daemon/host.ts';
import { encodeWords, frame, VERSION } from '../../src/daemon/protocol.ts';
import { identify } from '../../src/daemon/rules.ts';
import { Server } from '../../src/daemon/server.ts';
import { drumAgents } from '../../src/policies/drum/agent/drum-agent.ts';
import { readRates, writeUse } from '../../src/policies/drum/agent/messages.ts';
import { drumTerms, termRulesOf } from '../../src/policies/drum/agent/terms.ts';
import { drumOptions } from '../../src/policies/drum/options.ts';
import { LATENCY_WEIGHT } from '../../src/policies/justitia/columns.ts';
import { justitiaOptions } from '../../src/policies/justitia/options.ts';
import { rateRulesOf, rates } from '../../src/policies/justitia/rates.ts';
import { referenceFlows } from '../../src/policies/justitia/reference-flows.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { NoResourcesError } from '../../src/verbs/errors.ts';
import { gidToWords } from '../../src/verbs/gid.ts';
import type { Provider } from '../../src/verbs/provider.ts';
import { granted, RULINGS } from '../support/columns.ts';
import { reason } from './rig.ts';
import { PROGRAMS, World } from './world.ts';

const READER = join(PROGRAMS, 'reader.mjs');

const cleanUp: (() => void)[] = [];
afterEach(() => {
  for (const undo of cleanUp.splice(0).reverse()) undo();
});

/** An agent that answers each number with its double, passes it on to the agent of sim1, and throws at 13. */
class Doubling implements Agent {
  readonly told: string[] = [];
  readonly heard: number[] = [];

  onTold(member: number, [first]: Float64Array, out: AgentActions): void {
    this.told.push(`${member}: ${first}`);
    if (first === 13) throw new Error('unlucky');
    out.tell(member, [2 * first]);
    const peer = out.peerAt('::ffff:10.0.0.2', out.gids[0]);
    if (peer >= 0) out.send(peer, [first]);
  }

  onMessage(_peer: number, [first]: Float64Array): void {
    this.heard.push(first);
  }

  onLeft(member: number): void {
    this.told.push(`${member} left`);
  }
}

function daemon(
  change: (provider: Provider) => Provider = (provider) => provider,
  more: { readonly kinds?: readonly AgentKind[]; readonly rulings?: readonly Ruling[] } = {},
) {
  const path = mkdtempSync(join(tmpdir(), 'isoverbs-agents-'));
  const socket = join(path, 's');
  const lines: string[] = [];
  const log = pino({ level: 'debug' }, { write: (line: string) => void lines.push(line) });
  const nowNs = () => performance.now() * 1e6;
  const fabric = createFabric({ hosts: 2 });
  const provider = change(fabric.provider);
  const made: Doubling[] = [];
  const create = () => {
    made.push(new Doubling());
    return made[made.length - 1];
  };
  const host: Host = new Host({
    rulings: more.rulings ?? RULINGS,
    linkGbps: () => 100,
    left: (device, row) => agents.left(device, row),
    decided: (device) => agents.decided(device),
  });
  const agents: DaemonAgents = new DaemonAgents({
    ...{ kinds: more.kinds ?? [{ name: 'doubling', create }], host, log, nowNs },
    devices: ['sim0', 'sim1'],
    providerOf: () => provider,
    requestPass: () => server.requestPass(),
  });
  const server = new Server({
    ...{ socket, mode: 0o600, host, agents, policy: '', log, nowNs },
    identify: (peer, hello) => identify({ ...peer, ...hello, cgroup: '', command: '' }, [], true),
    maySet: () => true,
  });
  server.listen();
  cleanUp.push(
    () => rmSync(path, { recursive: true }),
    () => server.close(),
    () => agents.close(),
  );
  return { socket, server, host, fabric, lines, made };
}

/** A context of a client, with a line that notes what it hears. */
function context(socket: string, agent = 'doubling', device = 'sim0') {
  const reports: string[] = [];
  const report = (line: string) => void reports.push(line);
  const client = new DaemonClient({ socket, hello: { tenant: 'a' }, standalone: {}, report });
  cleanUp.push(() => client.close());
  const coordinator = client.coordinator(device);
  const page = coordinator.join('') as MemberPage;
  const told: number[][] = [];
  const ups: AgentLine[] = [];
  coordinator.line(page, agent, {
    onUp: (line) => void ups.push(line),
    onTold: (words) => void told.push([...words]),
  });
  return { client, coordinator, page, told, ups, reports };
}

const until = (check: () => void) => vi.waitFor(check, { timeout: 5000, interval: 2 });

test('a context tells the agent of its device, is told, and agents of two devices exchange messages', async () => {
  const { socket, lines, made } = daemon();
  const one = context(socket);
  await until(() => expect(one.ups).toHaveLength(1));
  expect(made).toEqual([]);
  const words = [1 / 3, -0, Number.MAX_VALUE, Number.POSITIVE_INFINITY, 5e-324];
  for (const word of words) one.ups[0].tell([word]);
  await until(() => expect(one.told).toEqual(words.map((word) => [2 * word])));
  await until(() => expect(made[1]?.heard).toEqual(words));
  one.ups[0].tell([Number.NaN]);
  await until(() => expect(one.told.at(-1)).toEqual([Number.NaN]));
  const opened = lines.filter((line) => line.includes('for agents'));
  expect(opened.map((line) => JSON.parse(line).device)).toEqual(['sim0', 'sim1']);
  one.coordinator.leave(one.page);
  await until(() => expect(made[0].told.at(-1)).toBe('0 left'));
  one.ups[0].tell([1]);
  expect(() => one.ups[0].tell(new Float64Array(101))).toThrow('at most 100 words');
});

test('lines come up again with the next daemon, and after the rules were loaded again', async () => {
  const first = daemon();
  const one = context(first.socket);
  await until(() => expect(one.ups).toHaveLength(1));
  first.server.reidentify();
  await until(() => expect(one.ups).toHaveLength(2));
  one.ups[0].tell([4]);
  await until(() => expect(one.told).toEqual([[8]]));
  first.server.close();
  await until(() => expect(one.client.isConnected).toBe(false));
  // No daemon receives this.
  one.ups[0].tell([5]);
  first.server.listen();
  await until(() => expect(one.ups).toHaveLength(3));
  one.ups[2].tell([6]);
  await until(() => expect(one.told.at(-1)).toEqual([12]));
  expect(first.made[0].told.filter((what) => what.endsWith(': 5'))).toEqual([]);
});

test('what a policy throws at an event of its line is not an error of the connection', async () => {
  const { socket, server } = daemon();
  const one = context(socket);
  await until(() => expect(one.ups).toHaveLength(1));
  const thrown: string[] = [];
  const note = ({ message }: Error) => void thrown.push(message);
  const others = process.listeners('uncaughtException');
  process.removeAllListeners('uncaughtException').on('uncaughtException', note);
  cleanUp.push(() => {
    process.removeAllListeners('uncaughtException');
    for (const other of others) process.on('uncaughtException', other);
  });
  one.coordinator.line(one.page, 'doubling', {
    onUp: (line) => line.tell(new Float64Array(101)),
  });
  await until(() => expect(thrown).toEqual([expect.stringContaining('at most 100 words, not 101')]));
  expect([one.client.isConnected, server.size]).toEqual([true, 1]);
});

test('a daemon that lacks the agent says nothing, and the program reports it once', async () => {
  const { socket } = daemon();
  const one = context(socket, 'another');
  await until(() => expect(one.reports.some((line) => line.includes("runs no agent 'another'"))).toBe(true));
  expect(one.ups).toEqual([]);
});

test('an exception of an agent is logged once and harms no client', async () => {
  const { socket, lines, server } = daemon();
  const one = context(socket);
  await until(() => expect(one.ups).toHaveLength(1));
  for (const word of [13, 13, 7]) one.ups[0].tell([word]);
  await until(() => expect(one.told).toEqual([[14]]));
  expect(lines.filter((line) => line.includes("agent 'doubling' of sim0: unlucky"))).toHaveLength(1);
  expect(server.size).toBe(1);
});

test('a device without room for agents is logged, and clients go on', async () => {
  const { socket, lines, server } = daemon((provider) => ({
    ...provider,
    createCq: () => {
      throw new NoResourcesError('full');
    },
  }));
  const one = context(socket);
  await until(() => expect(one.ups).toHaveLength(1));
  for (let i = 0; i < 3; i++) one.ups[0].tell([1]);
  await until(() => expect(lines.at(-1)).toContain('no agents on sim0: full'));
  one.coordinator.leave(one.page);
  const other = context(socket);
  await until(() => expect(other.ups).toHaveLength(1));
  expect([one.told, other.told, server.size]).toEqual([[], [], 2]);
  expect(lines.filter((line) => line.includes('no agents on'))).toHaveLength(1);
});

test('a client that tells without pause loses words, which it learns, but not its connection', async () => {
  const { socket, made } = daemon();
  const one = context(socket);
  await until(() => expect(one.ups).toHaveLength(1));
  let sent = 0;
  for (let i = 0; i < 20_000; i++) if (one.ups[0].tell([i])) sent++;
  expect(sent).toBeGreaterThan(500);
  expect(sent).toBeLessThan(2000);
  await until(() => expect(made[0]?.told).toHaveLength(sent));
  expect(one.client.isConnected).toBe(true);
});

test('hostile words end the connection of whoever sends them, and nothing else', async () => {
  const { socket, lines, made } = daemon();
  const honest = context(socket);
  await until(() => expect(honest.ups).toHaveLength(1));
  const hello = { type: 'hello', version: VERSION } as const;
  const shim = frame({ ...hello, role: 'shim' });
  const tell = (words: string, slot = 0, agent = 'doubling') => {
    const text = Buffer.from(JSON.stringify({ type: 'tell', slot, agent, words }));
    const length = Buffer.alloc(4);
    length.writeUInt32LE(text.length);
    return Buffer.concat([length, text]);
  };
  const good = encodeWords([1]);
  for (const [bytes, reason] of [
    [Buffer.concat([frame({ ...hello, role: 'tool' }), tell(good)]), /'tell' as a tool/],
    [Buffer.concat([shim, tell('AAAA')]), /words/],
    [Buffer.concat([shim, tell('no base64!')]), /words/],
    [Buffer.concat([shim, tell('A'.repeat(1068 + 4))]), /words/],
    [Buffer.concat([shim, tell(good, -1)]), /slot/],
    [Buffer.concat([shim, tell(good, 0, 'a'.repeat(200))]), /agent/],
  ] as const) {
    const before = lines.length;
    const evil = connectNet(socket).on('error', () => {});
    evil.resume().write(bytes);
    await new Promise((resolve) => evil.once('close', resolve));
    // On a busy machine, another line may follow.
    await until(() => expect(lines.slice(before).join('\n')).toMatch(reason));
  }
  // A seat that is not taken, an agent that does not exist, and nothing at all are ignored.
  const oddFrom = lines.length;
  const odd = connectNet(socket).on('error', () => {});
  odd.resume().write(Buffer.concat([shim, tell(good), tell(good, 9), tell(good, 0, 'no'), tell('')]));
  honest.ups[0].tell([21]);
  await until(() => expect(honest.told).toEqual([[42]]));
  // The daemon has nothing to say about it, but notices soon that it holds no descriptors.
  expect(lines.slice(oddFrom).filter((line) => !/opening sim[01] for agents/.test(line))).toEqual([]);
  odd.destroy();
  expect(made[0].told).toEqual(['0: 21']);
  expect(granted(honest.page, 'split')).toBe(0);
});

test('under justitia, the tenants of the daemon name the receiver with the longest tail', async () => {
  const { socket, host, fabric } = daemon(undefined, {
    kinds: [referenceFlows],
    rulings: [{ ruler: rates, rules: rateRulesOf(justitiaOptions.parse({}), null), isNamed: true }],
  });
  const [one, other] = ['sim0', 'sim1'].map((device) => context(socket, 'justitia', device));
  await until(() => expect([...one.ups, ...other.ups]).toHaveLength(2));
  const [gid, peer] = ['::ffff:10.0.0.1', '::ffff:10.0.0.2'];
  // The agent of the other device starts with the first message on its line.
  other.ups[0].tell([]);
  one.page.columns(rates).reports[LATENCY_WEIGHT] = 1;
  one.ups[0].tell([...gidToWords(peer), ...gidToWords(gid), 0, 0, 1]);
  const soon = { timeout: 10_000, interval: 2 };
  await vi.waitFor(async () => {
    // In virtual time, nothing else goes on that would let the reference flow's timers fire.
    await fabric.advance(1e5);
    const row = host.tenants().find(({ device }) => device === 'sim0');
    expect(row).toMatchObject({
      worstPeer: peer,
      why: expect.stringContaining(`to ${peer}; reference flows take`),
    });
    expect(row!.referenceShare).toBeGreaterThan(0);
  }, soon);
});

test('under drum, agents give the contexts of one tenant on two devices the rates that its receiver can poll', async () => {
  const options = drumOptions.parse({ requestsPerS: 100e6, completionsPerS: 30e6 });
  const { socket, fabric } = daemon(undefined, {
    kinds: [drumAgents],
    rulings: [{ ruler: drumTerms, rules: termRulesOf(options), isNamed: true }],
  });
  const [one, other] = ['sim0', 'sim1'].map((device) => context(socket, 'drum', device));
  await until(() => expect([...one.ups, ...other.ups]).toHaveLength(2));
  const peers = [{ gid: '::ffff:10.0.0.2', fromGid: '::ffff:10.0.0.1', per: 1 }];
  const use = { isActive: true, requestsPerS: 0, requests: 1 };
  one.ups[0].tell(writeUse({ ...use, peers }));
  other.ups[0].tell(writeUse({ ...use, peers: [] }));
  const soon = { timeout: 10_000, interval: 2 };
  await vi.waitFor(async () => {
    await fabric.advance(1e5);
    const last = [one, other].map(({ told }) => readRates(Float64Array.from(told.at(-1) ?? [])));
    const mops = last.map((rates) => (rates?.requestsPerS ?? 0) / 1e6);
    expect(mops).toEqual([expect.closeTo(15, 1), expect.closeTo(15, 1)]);
    expect(last[0]).toMatchObject({ isHeldBack: true });
  }, soon);
});

test.skipIf(reason !== '')(
  'READs of one process are cut because of small messages of another, as agents in the daemon tell each other',
  async () => {
    await using world = new World('policy: perf');
    await world.startDaemon();
    const start = (name: string) => {
      const program = world.start(name, [READER, name], { ISOVERBS_POLICY: 'perf' });
      const states: string[] = [];
      createInterface({ input: program.child.stdout! }).on('line', (line) => {
        states.push(JSON.parse(line).state);
      });
      return { program, states };
    };
    const bulk = start('bulk');
    const gid = '::ffff:10.0.0.2';
    const soon = { timeout: 30_000, interval: 5 };
    const untilBulk = (state: string) => vi.waitFor(() => expect(bulk.states.at(-1)).toBe(state), soon);
    await untilBulk(`left alone: nothing to isolate on ${gid}`);
    const small = start('small');
    await untilBulk(`its messages are split: large messages beside small ones on ${gid}`);
    small.program.kill();
    await untilBulk(`left alone: nothing to isolate on ${gid}`);
    expect([bulk.program.stderr, small.program.stderr]).toEqual(['', '']);
  },
  90_000,
);
