// Daemons of different hosts find each other over a NATS server, and carry the messages of their agents.
// @module-tag wide
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import { describe, expect, test } from 'vitest';
import { encodeAnnouncement, encodeFrame } from '../../src/daemon/fleet/wire.ts';
import { readAgents } from '../../src/policies/perf/read-agent.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import * as C from '../../src/verbs/constants.ts';
import { NoResourcesError } from '../../src/verbs/errors.ts';
import type { Provider } from '../../src/verbs/provider.ts';
import { command } from '../mix/command.ts';
import { folder, isoverbs } from './command-rig.ts';
import { afterTest, FleetMember, server, started, until } from './fleet-rig.ts';
import { natsReason } from './nats.ts';

/** Time after which a silent daemon is gone, and what a busy machine adds. */
const DOWN_MS = 2250;
const SLACK_MS = 3000;

const gidOf = (host: number) => `::ffff:10.0.0.${host + 1}`;

/** A daemon of a host, whose device is simulated. By default, its fabric is its own, so that no datagram arrives. */
function daemon(
  fleet: string,
  host: number,
  provider = createFabric({ hosts: 2 }).provider,
  name = 'noting',
) {
  return new FleetMember(fleet, `sim${host}`, gidOf(host), provider, name);
}

/** A simulated provider whose time passes as elsewhere. */
const inRealTime = (provider: Provider): Provider => ({
  ...provider,
  createAlarm: undefined,
  nowNs: () => performance.now() * 1e6,
  sleep: (_context, ns) => delay(ns / 1e6, undefined, { ref: false }),
});

describe.skipIf(natsReason !== '')('a fleet', () => {
  test('agents of two daemons find each other and exchange messages in both directions', async () => {
    const { url } = await started();
    const [a, b] = [daemon(url, 0), daemon(url, 1)];
    expect(await a.meet(b)).toBe(0);
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
    expect([a.warnings, b.warnings]).toEqual([[], []]);
    expect(a.counts).toEqual({ hosts: 1, isConnected: true, ignored: 0 });
  });

  test('agents probe each other on queue pairs, which they connect over the fleet', async () => {
    const { url } = await started();
    const { provider } = createFabric({ hosts: 2 });
    const [a, b] = [daemon(url, 0, provider), daemon(url, 1, provider)];
    await a.meet(b);
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
    await a.meet(b);
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
    await a.meet(b);
    a.agent.out.send(0, [7]);
    await until(() => expect(b.agent.messages).toEqual([[7]]));
    b.agent.out.probe(0, 10);
    await until(() => expect(b.agent.probes[0]).toBeGreaterThan(0));
  });

  test('a daemon that ends is gone at once, and its successor is found', async () => {
    const { url } = await started();
    const [a, b] = [daemon(url, 0), daemon(url, 1)];
    await a.meet(b);
    b.end();
    await until(() => expect(a.agent.peers).toEqual(['0 up', '0 down']), 1000);
    expect([a.agent.out.peerAt(gidOf(1), gidOf(0)), a.counts.hosts]).toEqual([-1, 0]);
    const next = daemon(url, 1);
    const peer = await a.peerAt(gidOf(1));
    await until(() => expect(a.agent.peers.at(-1)).toBe(`${peer} up`));
    a.agent.out.send(peer, [1]);
    await until(() => expect(next.agent.messages).toEqual([[1]]));
  });

  test('a daemon that is killed is gone within 2.25 s', { tags: ['long'] }, async () => {
    const { url } = await started();
    const a = daemon(url, 0, undefined, readAgents.name);
    const other = isoverbs([
      ...['daemon', '--socket', join(folder(), 's'), '--device', 'sim1', '--agent', 'sim1'],
      ...['--fleet', url],
    ]);
    await a.peerAt(gidOf(1));
    await until(() => expect(a.agent.peers).toEqual(['0 up']));
    other.child.kill('SIGKILL');
    const killedMs = performance.now();
    await until(() => expect(a.agent.peers).toEqual(['0 up', '0 down']));
    expect(performance.now() - killedMs).toBeLessThan(DOWN_MS + SLACK_MS);
    expect(a.counts.hosts).toBe(0);
  });

  test('a daemon that is killed or stopped is silent within 100 ms for agents that watch it', async () => {
    const { url } = await started();
    const provider = inRealTime(createFabric({ hosts: 3 }).provider);
    const [a, b] = [0, 2].map((host) => daemon(url, host, provider, readAgents.name));
    const other = isoverbs([
      ...['daemon', '--socket', join(folder(), 's'), '--device', 'sim1', '--agent', 'sim1'],
      ...['--fleet', url],
    ]);
    const peer = await a.peerAt(gidOf(1));
    await until(() => expect(a.agent.peers).toEqual(['0 up']));
    a.agent.out.watch(peer, true);
    // Others hear nothing of it.
    await b.peerAt(gidOf(1));
    await until(() => expect(b.agent.peers).toEqual(['0 up']));
    await delay(500);
    expect(a.agent.peers).toEqual(['0 up']);
    for (const signal of ['SIGSTOP', 'SIGKILL'] as const) {
      a.agent.peers.length = 0;
      other.child.kill(signal);
      const atMs = performance.now();
      await until(() => expect(a.agent.peers).toEqual(['0 silent']));
      // What a busy machine adds.
      expect(performance.now() - atMs).toBeLessThan(100 + 150);
      if (signal === 'SIGKILL') break;
      other.child.kill('SIGCONT');
      await until(() => expect(a.agent.peers).toEqual(['0 silent', '0 heard']));
    }
    const down = [
      ['0 silent', '0 down'],
      ['0 up', '0 down'],
    ];
    await until(() => expect([a.agent.peers, b.agent.peers]).toEqual(down));
  });

  test('a server that stops and starts again interrupts the agents, and is logged once', {
    tags: ['long'],
  }, async () => {
    const nats = await started();
    const [a, b] = [daemon(nats.url, 0), daemon(nats.url, 1)];
    await a.meet(b);
    await nats.stop();
    const down = ['0 up', '0 down'];
    await until(() => expect([a.agent.peers, b.agent.peers]).toEqual([down, down]), DOWN_MS + SLACK_MS);
    // This is lost.
    a.agent.out.send(0, [1]);
    await delay(1500);
    for (const { warnings, counts } of [a, b]) {
      expect(warnings).toHaveLength(1);
      expect(warnings[0]).toContain('lost the connection');
      expect(counts).toEqual({ hosts: 0, isConnected: false, ignored: 0 });
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
    await a.meet(b);
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
    await until(() => expect(a.warnings).toHaveLength(1));
    await delay(1500);
    expect(a.warnings).toEqual([expect.stringMatching(/the fleet's server: .*refused.*cannot be reached/)]);
    await nats.start();
    await a.meet(b);
  });
});

/** Another program that may publish, and two daemons. */
async function withIntruder() {
  const { url } = await started();
  const [a, b] = [daemon(url, 0), daemon(url, 1)];
  await a.meet(b);
  const intruder = await connect({ servers: url });
  afterTest(() => intruder.close());
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
async function settled(intruder: NatsConnection, a: FleetMember, b: FleetMember) {
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
    // The daemon that sends the message for `settled` may still be receiving.
    await until(() => expect(a.counts).toEqual({ hosts: 1, isConnected: true, ignored }));
    expect(b.counts).toEqual(a.counts);
    expect(a.warnings).toEqual([expect.stringMatching(/^the fleet: ignored a/)]);
    expect([a.agent.messages, a.agent.peers]).toEqual([[], ['0 up']]);
  });

  test('daemons that are made up neither replace others nor exceed the limits', {
    tags: ['long'],
  }, async () => {
    const { a, b, intruder } = await withIntruder();
    const device = { name: 'x', qpNum: 1, agents: ['noting'] };
    for (let i = 0; i < 1000; i++) {
      const devices = [{ ...device, gids: [gidOf(1), `::${(i + 1).toString(16)}`] }];
      const id = i.toString(16).padStart(32, '0');
      intruder.publish(`isoverbs.hosts.${id}`, encodeAnnouncement({ host: 'x', devices }));
    }
    await settled(intruder, a, b);
    expect(a.agent.out.peerAt(gidOf(1), gidOf(0))).toBe(0);
    expect(a.counts.hosts).toBeLessThanOrEqual(1 + 2 * 256);
    await until(() => expect(a.counts.hosts).toBe(1), DOWN_MS + SLACK_MS);
    expect(a.agent.peers).toEqual(['0 up']);
  });

  test('a flood of one sender is cut off, and an exception of an agent is logged once', async () => {
    const { a, b, intruder } = await withIntruder();
    b.agent.heard = ([first]) => {
      if (first === 13) throw new Error('unlucky');
    };
    for (let i = 0; i < 3; i++) a.agent.out.send(0, [13]);
    await settled(intruder, a, b);
    expect(b.lines.filter(({ msg }) => msg.includes("agent 'noting' of sim1: unlucky"))).toHaveLength(1);
    for (let i = 0; i < 20_000; i++) a.agent.out.send(0, [i]);
    await intruder.flush();
    await until(() => expect(b.counts.ignored).toBeGreaterThan(0));
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
      for (const { warnings } of [wrong, none]) expect(warnings[0]).toMatch(/authorization/i);
    });
    await delay(1500);
    for (const { warnings } of [wrong, none]) expect(warnings).toHaveLength(1);
    const key = `{ servers: [${url}], user: iso, pass: secret, name: lab.one }`;
    await daemon(key, 0).meet(daemon(key, 1));
  });

  test('permissions for the subjects of the fleet are enough', async () => {
    const subjects = '["isoverbs.hosts.*", "isoverbs.to.*"]';
    const permissions = `{ publish: ${subjects}, subscribe: ${subjects} }`;
    const { url } = await started(
      `authorization: { users: [{ user: iso, password: secret, permissions: ${permissions} }] }`,
    );
    const key = `{ servers: ${url}, user: iso, pass: secret }`;
    const [a, b] = [daemon(key, 0), daemon(key, 1)];
    await a.meet(b);
    expect([a.warnings, b.warnings]).toEqual([[], []]);
    const foreign = daemon(`{ servers: ${url}, user: iso, pass: secret, name: other }`, 0);
    await until(() => expect(foreign.warnings[0]).toMatch(/permissions violation/i));
  });

  test('a token works', async () => {
    const { url } = await started('authorization: { token: secret }');
    const key = `{ servers: ${url}, token: secret }`;
    await daemon(key, 0).meet(daemon(key, 1));
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
    await until(() => expect(unknown.warnings[0]).toMatch(/certificate/));
    const fleet = `{ servers: ${url}, tls: { caFile: ${cert} } }`;
    await daemon(fleet, 0).meet(daemon(fleet, 1));
  });
});

describe('the flags and keys of a fleet', () => {
  test.each([
    ['fleet: nats://a:4222,b', ''],
    ['fleet: { servers: [a, b], name: lab.one, user: u, pass: p }', ''],
    ['fleet: { servers: a, name: "a b" }', 'fleet.name: must consist of letters'],
    ['fleet: nats://user:pass@a', 'put the user and the password in the keys'],
    ['fleet: { servers: [] }', 'fleet'],
    ['fleet: { servers: a, sever: b }', 'sever'],
    ['fleet: { servers: a, credentials: none.creds }', 'fleet.credentials: ENOENT'],
    ['fleet: { servers: a, tls: { caFile: none.pem } }', 'fleet.tls.caFile: ENOENT'],
  ])('%s', async (config, problem) => {
    const file = join(folder(), 'daemon.yaml');
    writeFileSync(file, config);
    const { code, out, err } = await command('daemon', '--check-config', '--config', file);
    expect(out + err).toContain(problem === '' ? '0 rules' : problem);
    expect(code).toBe(problem === '' ? 0 : 2);
  });

  test('--agent of a device that has no room for agents ends the daemon with the reason', () => {
    const { provider } = createFabric({ hosts: 2 });
    const full: Provider = {
      ...provider,
      createCq: () => {
        throw new NoResourcesError('full');
      },
    };
    expect(() => daemon('nats://127.0.0.1:1', 0, full)).toThrow(
      '--agent sim0: it cannot be opened for agents: full',
    );
  });

  test('--agent of a device that is missing, or that the daemon does not coordinate, ends the daemon with the reason', async () => {
    const args = ['daemon', '--socket', join(folder(), 's'), '--device', 'sim0', '--agent', 'sim1'];
    const missing = await isoverbs(args).ended;
    expect(missing.stderr).toContain('--agent sim1: the daemon coordinates sim0; name one of these');
    expect(missing.status).not.toBe(0);
  });
});
