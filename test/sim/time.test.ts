/** Time in programs that are unaware of virtual time: polling, events, timers, connections. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { createFabric, defaultFabric } from '../../src/providers/sim/index.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, makeEnd, modify, pair, post, SIGNALED, take } from './helpers.ts';

function write(a: ReturnType<typeof makeEnd>, b: ReturnType<typeof makeEnd>, bytes = 8): void {
  a.send.write(1, SIGNALED, a.mr.addr, bytes, a.mr.lkey, b.mr.addr, b.mr.rkey);
  post(a);
}

test('a polling loop makes progress: each empty poll takes 25 ns', () => {
  const [a, b, fabric] = pair();
  write(a, b);
  let polls = 1;
  while (take(a).length === 0) polls++;
  // 0.9 us, one step, and 86 bytes on the wire, rounded up to polls of 25 ns.
  expect(polls).toBe(Math.ceil((900 + 80.6 + 86 * 0.08) / 25));
  expect(fabric.nowNs).toBe(polls * 25);
});

test('a poll of an armed, idle queue skips to the next event', () => {
  const [a, b, fabric] = pair();
  write(a, b, 60000);
  a.v.reqNotifyCq(a.sendCq, false);
  let polls = 0;
  while (take(a).length === 0) polls++;
  expect(polls).toBeLessThan(60);
  expect(fabric.nowNs).toBeGreaterThan(5000);
});

test('polls of an armed queue do not skip to the next event while notifications are pending', async () => {
  const [a, , fabric] = pair();
  const woken = [100, 1e6].map((ns) => fabric.sleep(ns).then(() => fabric.nowNs));
  a.v.reqNotifyCq(a.sendCq, false);
  // One poll up to the end of the first sleep, three of 25 ns.
  for (let polls = 0; polls < 4; polls++) take(a);
  await fabric.run();
  expect(await Promise.all(woken)).toEqual([175, 1e6]);
});

test('events are delivered on a fresh stack, once per arming', async () => {
  const fabric = createFabric();
  const [a, b] = [makeEnd(fabric, 0), makeEnd(fabric, 1)];
  const channel = a.v.createCompChannel(a.context);
  const cq = a.v.createCq(a.context, 16, channel).handle;
  const cap = { maxSendWr: 8, maxRecvWr: 8, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
  const qp = a.v.createQp(a.pd, { qpType: V.IBV_QPT_RC, sendCq: cq, recvCq: cq, cap, sqSigAll: false });
  Object.assign(a, { qp: qp.handle, qpNum: qp.qpNum, sendCq: cq });
  connect(a, b);
  let inside = false;
  const heard: number[] = [];
  let wake = () => {};
  a.v.watchCompChannel(channel, (handle) => {
    expect(inside).toBe(false);
    heard.push(handle);
    wake();
  });
  for (let round = 1; round <= 2; round++) {
    const event = new Promise<void>((resolve) => {
      wake = resolve;
    });
    a.v.reqNotifyCq(cq, false);
    inside = true;
    write(a, b);
    write(a, b);
    take(a);
    inside = false;
    await event;
    await fabric.run();
    expect(heard).toEqual(Array(round).fill(cq));
    expect(take(a).length).toBeGreaterThan(0);
    while (take(a).length > 0);
  }
  a.v.watchCompChannel(channel, null);
});

test('time advances on its own only while events are pending', async () => {
  const fabric = createFabric();
  const before = fabric.nowNs;
  await new Promise((resolve) => setTimeout(resolve, 5));
  expect(fabric.nowNs).toBe(before);
  await fabric.provider.sleep(0, 1e9);
  expect(fabric.nowNs).toBe(before + 1e9);
});

test('without autoAdvance, only the test advances time', async () => {
  const fabric = createFabric({ autoAdvance: false });
  let done = false;
  fabric.sleep(1000).then(() => {
    done = true;
  });
  await new Promise((resolve) => setTimeout(resolve, 5));
  expect([fabric.nowNs, done]).toEqual([0, false]);
  await fabric.advance(999);
  expect([fabric.nowNs, done]).toEqual([999, false]);
  await fabric.advance(1);
  expect([fabric.nowNs, done]).toEqual([1000, true]);
});

test('run() lets programs continue and runs what they start', async () => {
  const [a, b, fabric] = pair();
  const program = async () => {
    for (let i = 0; i < 3; i++) {
      write(a, b, 30000);
      await fabric.sleep(10_000);
      expect(take(a)).toHaveLength(1);
    }
    return 'done';
  };
  const result = program();
  await fabric.run();
  expect(await result).toBe('done');
});

describe('rendezvous', () => {
  test.each(['sim1', '10.0.0.2', '::ffff:10.0.0.2', 'localhost', undefined])('by host %s', async (host) => {
    const fabric = createFabric();
    const v = fabric.provider;
    const [c0, c1] = [v.openDevice('sim0'), v.openDevice('sim1')];
    const log: string[] = [];
    const closed = new Promise<void>((resolve) => {
      v.rendezvous.listen(c1, { port: 7471 }, (wire) => {
        wire.onMessage = (message) => {
          log.push(`server got ${new TextDecoder().decode(message)} from ${wire.remoteAddress}`);
          wire.send(new TextEncoder().encode('pong'));
        };
        wire.onClose = (error) => {
          log.push(`server closed ${error}`);
          resolve();
        };
      });
    });
    const wire = await v.rendezvous.connect(c0, { port: 7471, host });
    const ping = new TextEncoder().encode('ping');
    wire.send(ping);
    ping.fill(0);
    await new Promise<void>((resolve) => {
      wire.onMessage = (message) => {
        log.push(`client got ${new TextDecoder().decode(message)}`);
        resolve();
      };
    });
    wire.close();
    await closed;
    expect(log).toEqual(['server got ping from 10.0.0.1', 'client got pong', 'server closed undefined']);
    // Connecting takes two messages; ping, pong and close take one each.
    expect(fabric.nowNs).toBe(5 * 5000);
  });

  test('no listener, unknown host, port in use, any port', async () => {
    const fabric = createFabric();
    const v = fabric.provider;
    const context = v.openDevice('sim0');
    await expect(v.rendezvous.connect(context, { port: 9 })).rejects.toThrow(/nothing listens on port 9/);
    await expect(v.rendezvous.connect(context, { port: 9, host: 'mars' })).rejects.toThrow(/no host 'mars'/);
    const server = await v.rendezvous.listen(context, { port: 0 }, () => {});
    expect(server.port).toBeGreaterThan(1024);
    await expect(v.rendezvous.listen(context, { port: server.port }, () => {})).rejects.toThrow(/in use/);
    server.close();
    await v.rendezvous.listen(context, { port: server.port }, () => {});
  });

  test('a killed host closes its peers’ wires with an error and disappears from the device list', async () => {
    const fabric = createFabric();
    const v = fabric.provider;
    const [c0, c1] = [v.openDevice('sim0'), v.openDevice('sim1')];
    await v.rendezvous.listen(c1, { port: 1 }, () => {});
    const wire = await v.rendezvous.connect(c0, { port: 1 });
    const closed = new Promise((resolve) => {
      wire.onClose = resolve;
    });
    fabric.fault({ kill: 'sim1' });
    expect(await closed).toMatchObject({ code: 'ISO_ERR_CONNECTION', message: 'sim1 has gone' });
    expect(v.getDeviceList().map((device) => device.name)).toEqual(['sim0']);
    expect(() => v.openDevice('sim1')).toThrow(V.NoDeviceError);
  });
});

test('tenants are the open contexts', () => {
  const fabric = createFabric();
  const context = fabric.provider.openDevice('sim1', { tenant: 'blue' });
  const other = fabric.provider.openDevice('sim0');
  expect(fabric.tenants()).toEqual([
    { device: 'sim1', tenant: 'blue', context },
    { device: 'sim0', tenant: 'context-2', context: other },
  ]);
  fabric.provider.closeDevice(other);
  expect(fabric.tenants()).toHaveLength(1);
});

test('the default fabric is one per process', () => {
  expect(defaultFabric()).toBe(defaultFabric());
  expect(defaultFabric().provider.getDeviceList()).toHaveLength(2);
});

test('a change of profile changes time', () => {
  const [a, b, fabric] = pair({ profile: { propagationNs: 1200 } });
  write(a, b);
  fabric.simulation.run();
  expect(fabric.nowNs).toBeCloseTo(1900 + 80.6 + 86 * 0.08, 6);
  modify(a, { qpState: V.IBV_QPS_ERR });
});

const built = existsSync(new URL('../../dist/providers/sim/index.js', import.meta.url));
test.skipIf(!built)(
  'a process with nothing pending ends; one that sleeps in virtual time does not hang',
  () => {
    const module = new URL('../../dist/providers/sim/index.js', import.meta.url).href;
    const code = `
    import { createFabric } from '${module}';
    const { provider, sleep } = createFabric();
    provider.openDevice('sim0');
    await sleep(3600e9);
    console.log('slept');`;
    const run = spawnSync(process.execPath, ['--input-type=module', '-e', code], {
      encoding: 'utf8',
      timeout: 20_000,
    });
    expect([run.stdout, run.status]).toEqual(['slept\n', 0]);
  },
);
