// Daemons of different hosts find each other over a NATS server, and carry the messages of their agents.
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import pino from 'pino';
import { afterEach, describe, expect, test, vi } from 'vitest';
import type { Agent, AgentActions } from '../../src/coordinator/agent.ts';
import { parseDaemonConfig } from '../../src/daemon/config.ts';
import { Daemon } from '../../src/daemon/daemon.ts';
import { encodeAnnouncement, encodeFrame } from '../../src/daemon/fleet/wire.ts';
import { readAgents } from '../../src/policies/perf/read-agent.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import * as C from '../../src/verbs/constants.ts';
import { NoResourcesError } from '../../src/verbs/errors.ts';
import type { Provider } from '../../src/verbs/provider.ts';
import { RULINGS } from '../support/columns.ts';
import { folder, isoverbs } from './command-rig.ts';
import { NatsServer, natsReason } from './nats.ts';

/** Time after which a silent daemon is gone, and what a busy machine adds. */
const DOWN_MS = 2250;
const SLACK_MS = 3000;

const cleanUp: (() => unknown)[] = [];
afterEach(async () => {
  for (const undo of cleanUp.splice(0).reverse()) await undo();
});

const until = (check: () => void, timeout = 10_000) => vi.waitFor(check, { timeout, interval: 2 });
const gidOf = (host: number) => `::ffff:10.0.0.${host + 1}`;

/** An agent that notes what happens to it. */
class Noting implements Agent {
  out!: AgentActions;
  readonly messages: number[][] = [];
  readonly peers: string[] = [];
  readonly probes: number[] = [];

  onStart(out: AgentActions): void {
    this.out = out;
  }

  onMessage(_peer: number, words: Float64Array): void {
    this.messages.push([...words]);
    if (words.length === 1 && words[0] === 13) throw new Error('unlucky');
  }

  onPeer(peer: number, change: string): void {
    this.peers.push(`${peer} ${change}`);
  }

  onProbe(_peer: number, latencyNs: number): void {
    this.probes.push(latencyNs);
  }
}

async function server(config?: string): Promise<NatsServer> {
  const nats = await NatsServer.make(config);
  cleanUp.push(() => nats.close());
  return nats;
}

async function started(config?: string): Promise<NatsServer> {
  const nats = await server(config);
  await nats.start();
  return nats;
}

/** A daemon of a host, whose device is simulated. By default, its fabric is its own, so that no datagram arrives. */
function daemon(
  fleet: string,
  host: number,
  provider: Provider = createFabric({ hosts: 2 }).provider,
  name = 'noting',
) {
  const lines: { level: number; msg: string }[] = [];
  const log = pino({ level: 'debug' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const agent = new Noting();
  const one = new Daemon({
    ...{ socket: join(folder(), 's'), rulings: RULINGS, log },
    config: parseDaemonConfig(`fleet: ${fleet}`, 'test'),
    agents: [{ name, create: () => agent }],
    devices: [`sim${host}`],
    providerOf: () => provider,
    linkGbps: () => 100,
  });
  one.listen();
  one.openAgents([`sim${host}`]);
  const end = () => one.close();
  cleanUp.push(end);
  const warnings = () => lines.filter(({ level }) => level >= 40).map(({ msg }) => msg);
  const counts = () => one.metricsSource.fleet!();
  /** The number of the peer at a host, once it is known. */
  const peerAt = async (to: number) => {
    let peer = -1;
    await until(() => {
      peer = agent.out.peerAt(gidOf(to), gidOf(host));
      expect(peer).toBeGreaterThanOrEqual(0);
    });
    return peer;
  };
  return { agent, end, lines, warnings, counts, peerAt };
}

async function meet(a: ReturnType<typeof daemon>, b: ReturnType<typeof daemon>) {
  const peer = await a.peerAt(1);
  await until(() => expect([a.agent.peers, b.agent.peers]).toEqual([['0 up'], ['0 up']]));
  return peer;
}

describe.skipIf(natsReason !== '')('a fleet', () => {
  test('agents of two daemons find each other and exchange messages in both directions', async () => {
    const { url } = await started();
    const [a, b] = [daemon(url, 0), daemon(url, 1)];
    expect(await meet(a, b)).toBe(0);
    const words = [1 / 3, -0, Number.NaN, Number.POSITIVE_INFINITY, 5e-324];
    a.agent.out.send(0, words);
    await until(() => expect(b.agent.messages).toEqual([words]));
    const most = Array.from({ length: 100 }, (_, i) => i);
    b.agent.out.send(0, most);
    await until(() => expect(a.agent.messages).toEqual([most]));
    expect(() => a.agent.out.send(0, new Float64Array(101))).toThrow('at most 100 words');
    const many = Array.from({ length: 1000 }, (_, i) => [i, 1]);
    for (const one of many) a.agent.out.send(0, one);
    await until(() => expect(b.agent.messages.slice(1)).toEqual(many));
    expect([a.warnings(), b.warnings()]).toEqual([[], []]);
    expect(a.counts()).toEqual({ hosts: 1, isConnected: true, ignored: 0 });
  });

  test('agents probe each other on queue pairs, which they connect over the fleet', async () => {
    const { url } = await started();
    const { provider } = createFabric({ hosts: 2 });
    const [a, b] = [daemon(url, 0, provider), daemon(url, 1, provider)];
    await meet(a, b);
    for (const { agent } of [a, b]) {
      agent.out.probe(0, 10);
      await until(() => expect(agent.probes).toHaveLength(1));
      expect(agent.probes[0]).toBeGreaterThan(100);
      expect(agent.probes[0]).toBeLessThan(1e5);
    }
  });

  test('a probe that no queue pair can reach is lost', async () => {
    const { url } = await started();
    const [a, b] = [daemon(url, 0), daemon(url, 1)];
    await meet(a, b);
    a.agent.out.probe(0, 10);
    await until(() => expect(a.agent.probes).toEqual([Number.NaN]));
  });

  test('a device without datagrams has agents nevertheless', async () => {
    const { url } = await started();
    const { provider } = createFabric({ hosts: 2 });
    const lacking: Provider = {
      ...provider,
      createQp: (pd, attr) => {
        if (attr.qpType === C.IBV_QPT_UD) throw new NoResourcesError('no datagrams');
        return provider.createQp(pd, attr);
      },
    };
    const [a, b] = [daemon(url, 0, lacking), daemon(url, 1, provider)];
    await meet(a, b);
    a.agent.out.send(0, [7]);
    await until(() => expect(b.agent.messages).toEqual([[7]]));
    b.agent.out.probe(0, 10);
    await until(() => expect(b.agent.probes[0]).toBeGreaterThan(0));
  });

  test('a daemon that ends is gone at once, and its successor is found', async () => {
    const { url } = await started();
    const [a, b] = [daemon(url, 0), daemon(url, 1)];
    await meet(a, b);
    b.end();
    await until(() => expect(a.agent.peers).toEqual(['0 up', '0 down']), 1000);
    expect([a.agent.out.peerAt(gidOf(1), gidOf(0)), a.counts().hosts]).toEqual([-1, 0]);
    const next = daemon(url, 1);
    const peer = await a.peerAt(1);
    await until(() => expect(a.agent.peers.at(-1)).toBe(`${peer} up`));
    a.agent.out.send(peer, [1]);
    await until(() => expect(next.agent.messages).toEqual([[1]]));
  });

  test('a daemon that is killed is gone within 2.25 s', async () => {
    const { url } = await started();
    const a = daemon(url, 0, undefined, readAgents.name);
    const other = isoverbs([
      ...['daemon', '--socket', join(folder(), 's'), '--device', 'sim1', '--agent', 'sim1'],
      ...['--fleet', url],
    ]);
    await a.peerAt(1);
    await until(() => expect(a.agent.peers).toEqual(['0 up']));
    other.child.kill('SIGKILL');
    const killedMs = performance.now();
    await until(() => expect(a.agent.peers).toEqual(['0 up', '0 down']));
    expect(performance.now() - killedMs).toBeLessThan(DOWN_MS + SLACK_MS);
    expect(a.counts().hosts).toBe(0);
  });

  test('a server that stops and starts again interrupts the agents, and is logged once', async () => {
    const nats = await started();
    const [a, b] = [daemon(nats.url, 0), daemon(nats.url, 1)];
    await meet(a, b);
    await nats.stop();
    const down = ['0 up', '0 down'];
    await until(() => expect([a.agent.peers, b.agent.peers]).toEqual([down, down]), DOWN_MS + SLACK_MS);
    // This is lost.
    a.agent.out.send(0, [1]);
    await delay(1500);
    for (const { warnings, counts } of [a, b]) {
      expect(warnings()).toHaveLength(1);
      expect(warnings()[0]).toContain('lost the connection');
      expect(counts()).toEqual({ hosts: 0, isConnected: false, ignored: 0 });
    }
    await nats.start();
    const up = [...down, '0 up'];
    await until(() => expect([a.agent.peers, b.agent.peers]).toEqual([up, up]));
    a.agent.out.send(0, [2]);
    await until(() => expect(b.agent.messages).toEqual([[2]]));
  });

  test('a server that hangs takes no messages, and delivers none late', async () => {
    const nats = await started();
    const [a, b] = [daemon(nats.url, 0), daemon(nats.url, 1)];
    await meet(a, b);
    nats.signal('SIGSTOP');
    await until(() => expect(a.agent.peers).toEqual(['0 up', '0 down']), DOWN_MS + SLACK_MS);
    for (let i = 0; i < 100; i++) a.agent.out.send(0, [1]);
    nats.signal('SIGCONT');
    await until(() => expect(a.agent.peers.at(-1)).toBe('0 up'));
    a.agent.out.send(0, [2]);
    await until(() => expect(b.agent.messages).toEqual([[2]]));
  });

  test('a daemon whose server is not there yet warns once, and joins later', async () => {
    const nats = await server();
    const [a, b] = [daemon(nats.url, 0), daemon(nats.url, 1)];
    await until(() => expect(a.warnings()).toHaveLength(1));
    await delay(1500);
    expect(a.warnings()).toEqual([expect.stringMatching(/the fleet's server: .*refused.*cannot be reached/)]);
    await nats.start();
    await meet(a, b);
  });
});

/** Another program that may publish, and two daemons. */
async function withIntruder() {
  const { url } = await started();
  const [a, b] = [daemon(url, 0), daemon(url, 1)];
  await meet(a, b);
  const intruder = await connect({ servers: url });
  cleanUp.push(() => intruder.close());
  const ids = new Set<string>();
  for await (const { subject } of intruder.subscribe('isoverbs.hosts.*')) {
    if (ids.add(subject.split('.').at(-1)!).size === 2) break;
  }
  const everyInbox = (data: Uint8Array | string) => {
    for (const id of ids) intruder.publish(`isoverbs.to.${id}`, data);
  };
  return { a, b, intruder, everyInbox };
}

/** Waits until the server has delivered what was published. */
async function settled(intruder: NatsConnection, a: ReturnType<typeof daemon>, b: ReturnType<typeof daemon>) {
  await intruder.flush();
  a.agent.out.send(0, [42]);
  await until(() => expect(b.agent.messages.at(-1)).toEqual([42]));
}

describe.skipIf(natsReason !== '')('a fleet with an intruder', () => {
  test('malformed messages are ignored and counted', async () => {
    const { a, b, intruder, everyInbox } = await withIntruder();
    const header = { from: gidOf(0), to: gidOf(1), qpNum: 1, kind: 0, agent: 1 };
    const good = encodeFrame(header, [1]);
    const frames: (Uint8Array | string)[] = [
      ...['', 'x', 'x'.repeat(96), 'x'.repeat(1e6)],
      ...[good.slice(0, 95), good.slice(8), new Uint8Array(1e5)],
      encodeFrame({ ...header, kind: 4 }, [1]),
      encodeFrame({ ...header, kind: 0.5 }, [1]),
      encodeFrame({ ...header, kind: Number.NaN }, [1]),
      // No such daemon, and no such queue pair.
      encodeFrame({ ...header, from: '::ffff:10.9.9.9' }, [1]),
      encodeFrame({ ...header, qpNum: 2 ** 23 }, [1]),
      encodeFrame(header, new Float64Array(101)),
    ];
    for (const frame of frames) everyInbox(frame);
    const announced = { name: 'x', qpNum: 1, gids: ['::1'], agents: ['noting'] };
    const announcements: (Uint8Array | string)[] = [
      ...['', '{', 'null', '[]', '{"version":2}', 'x'.repeat(1e5)],
      encodeAnnouncement({ host: 'x', devices: [{ ...announced, qpNum: -1 }] }),
      encodeAnnouncement({ host: 'x', devices: [{ ...announced, gids: ['0:0::1'] }] }),
      encodeAnnouncement({ host: 'x', devices: [{ ...announced, gids: ['no'] }] }),
      encodeAnnouncement({ host: 'x'.repeat(1000), devices: [announced] }),
    ];
    for (const data of announcements) intruder.publish(`isoverbs.hosts.${'0'.repeat(32)}`, data);
    intruder.publish('isoverbs.hosts.short', encodeAnnouncement({ host: 'x', devices: [announced] }));
    await settled(intruder, a, b);
    const ignored = frames.length + announcements.length + 1;
    for (const { counts } of [a, b]) expect(counts()).toEqual({ hosts: 1, isConnected: true, ignored });
    expect(a.warnings()).toEqual([expect.stringMatching(/^the fleet: ignored a/)]);
    expect([a.agent.messages, a.agent.peers]).toEqual([[], ['0 up']]);
  });

  test('daemons that are made up neither replace others nor exceed the limits', async () => {
    const { a, b, intruder } = await withIntruder();
    const device = { name: 'x', qpNum: 1, agents: ['noting'] };
    for (let i = 0; i < 1000; i++) {
      const devices = [{ ...device, gids: [gidOf(1), `::${(i + 1).toString(16)}`] }];
      const id = i.toString(16).padStart(32, '0');
      intruder.publish(`isoverbs.hosts.${id}`, encodeAnnouncement({ host: 'x', devices }));
    }
    await settled(intruder, a, b);
    expect(a.agent.out.peerAt(gidOf(1), gidOf(0))).toBe(0);
    expect(a.counts().hosts).toBeLessThanOrEqual(1 + 2 * 256);
    await until(() => expect(a.counts().hosts).toBe(1), DOWN_MS + SLACK_MS);
    expect(a.agent.peers).toEqual(['0 up']);
  });

  test('a flood of one sender is cut off, and an exception of an agent is logged once', async () => {
    const { a, b, intruder } = await withIntruder();
    for (let i = 0; i < 3; i++) a.agent.out.send(0, [13]);
    await settled(intruder, a, b);
    expect(b.lines.filter(({ msg }) => msg.includes("agent 'noting' of sim1: unlucky"))).toHaveLength(1);
    for (let i = 0; i < 20_000; i++) a.agent.out.send(0, [i]);
    await intruder.flush();
    await until(() => expect(b.counts().ignored).toBeGreaterThan(0));
    expect(b.agent.messages.length).toBeLessThan(20_000);
    expect(b.agent.peers).toEqual(['0 up']);
  });
});

describe.skipIf(natsReason !== '')('a fleet with credentials', () => {
  test('wrong ones are logged and tried again, right ones work', async () => {
    const { url } = await started('authorization: { user: iso, password: secret }');
    const wrong = daemon(`{ servers: ${url}, user: iso, pass: wrong }`, 0);
    const none = daemon(url, 0);
    await until(() => {
      for (const { warnings } of [wrong, none]) expect(warnings()[0]).toMatch(/authorization/i);
    });
    await delay(1500);
    for (const { warnings } of [wrong, none]) expect(warnings()).toHaveLength(1);
    const key = `{ servers: [${url}], user: iso, pass: secret, name: lab.one }`;
    await meet(daemon(key, 0), daemon(key, 1));
  });

  test('a token works', async () => {
    const { url } = await started('authorization: { token: secret }');
    const key = `{ servers: ${url}, token: secret }`;
    await meet(daemon(key, 0), daemon(key, 1));
  });

  const hasOpenssl = spawnSync('openssl', ['version']).status === 0;
  test.skipIf(!hasOpenssl)('TLS works with the authority of the server, and with no other', async () => {
    const path = folder();
    const [cert, key] = [join(path, 'cert.pem'), join(path, 'key.pem')];
    const args =
      '-x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1';
    spawnSync('openssl', ['req', ...args.split(' '), '-keyout', key, '-out', cert]);
    const { url } = await started(`tls: { cert_file: "${cert}", key_file: "${key}" }`);
    const unknown = daemon(url, 0);
    await until(() => expect(unknown.warnings()[0]).toMatch(/certificate/));
    const fleet = `{ servers: ${url}, tls: { caFile: ${cert} } }`;
    await meet(daemon(fleet, 0), daemon(fleet, 1));
  });
});

describe('the flags and keys of a fleet', () => {
  const check = async (args: readonly string[], config = '') => {
    const file = join(folder(), 'daemon.yaml');
    writeFileSync(file, config);
    const { status, stdout, stderr } = await isoverbs([
      ...['daemon', '--config', file, '--socket', join(folder(), 's')],
      ...args,
    ]).ended;
    return { status, text: `${stdout}${stderr}` };
  };

  test.each([
    ['fleet: nats://a:4222,b', ''],
    ['fleet: { servers: [a, b], name: lab.one, user: u, pass: p }', ''],
    ['fleet: { servers: a, name: "a b" }', 'fleet.name: must consist of letters'],
    ['fleet: nats://user:pass@a', 'put the user and the password into the keys'],
    ['fleet: { servers: [] }', 'fleet'],
    ['fleet: { servers: a, sever: b }', 'sever'],
    ['fleet: { servers: a, credentials: none.creds }', 'fleet.credentials: ENOENT'],
    ['fleet: { servers: a, tls: { caFile: none.pem } }', 'fleet.tls.caFile: ENOENT'],
  ])('%s', async (config, problem) => {
    const { status, text } = await check(['--check-config'], config);
    expect(text).toContain(problem === '' ? '0 rules' : problem);
    expect(status).toBe(problem === '' ? 0 : 2);
  });

  test('--agent of a device that is missing, or not the daemon’s, ends the daemon with the reason', async () => {
    const missing = await check(['--device', 'sim0', '--agent', 'sim1']);
    expect(missing.text).toContain('--agent sim1: the daemon coordinates sim0; name one of these');
    expect(missing.status).not.toBe(0);
  });
});
