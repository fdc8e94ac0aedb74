// What happens to user-space RoCE when a process, a port or an address goes. Needs a build.
// @module-tag wide
import { type ChildProcess, fork, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { afterEach, describe, expect, test } from 'vitest';
import { createSoftNetwork } from '../../src/providers/soft/index.ts';
import { ConnectionError, IBV_PORT_ACTIVE, IBV_SEND_SIGNALED } from '../../src/verbs/index.ts';
import { absent, type End, openEnd } from './rig.ts';

const CHILD = resolve(import.meta.dirname, 'children/end.mjs');
const CHANGES = resolve(import.meta.dirname, 'children/address-changes.mjs');
const NO_ROUTE = resolve(import.meta.dirname, 'children/no-route.mjs');
const HERE = '127.75.0.1';
const THERE = '127.75.0.2';
const HAS_NAMESPACES = spawnSync('unshare', ['-rn', 'true']).status === 0;
const children: ChildProcess[] = [];
const ends: End[] = [];

afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  for (const { context } of ends.splice(0)) context.close();
});

function openHere(address = HERE): End {
  const end = openEnd(createSoftNetwork({ addresses: [address] }), 'soft0');
  ends.push(end);
  return end;
}

/** Posts a WRITE, and returns how it ended. */
async function write(end: End, to: { addr: number; rkey: number }, bytes = 5000): Promise<string> {
  const batch = end.context.sendBatch({ capacity: 1 });
  batch.write(1, IBV_SEND_SIGNALED, end.mr.addr, bytes, end.mr.lkey, to.addr, to.rkey);
  end.qp.postSend(batch);
  return (await end.cq.next()).statusText;
}

/** 67 ms until a packet is sent again, three times: longer than a busy machine keeps a process waiting. */
const PATH = { timeout: 14, retryCnt: 3 };

describe.skipIf(absent !== null)('faults of user-space RoCE', () => {
  test('after kill -9 of the peer, requests end with RETRY_EXC_ERR in their time, and its port is free', async () => {
    const end = openHere();
    const child = fork(CHILD, [THERE]);
    children.push(child);
    const [hello] = await once(child, 'message');
    child.send({ peer: end.qp.endpoint() });
    end.qp.connectTo(hello.endpoint, PATH);
    await once(child, 'message');
    expect(await write(end, hello)).toBe('SUCCESS');
    child.kill('SIGKILL');
    await once(child, 'close');
    const beganMs = performance.now();
    expect(await write(end, hello)).toBe('RETRY_EXC_ERR');
    const tookMs = performance.now() - beganMs;
    // Four times 4.096 us * 2^14; the upper bound leaves room for a busy machine.
    expect(tookMs).toBeGreaterThan(268);
    expect(tookMs).toBeLessThan(2000);
    expect(openHere(THERE).context.gids()[0].gid).toContain(THERE);
  });

  test('a worker that is terminated in mid-transfer leaves no socket', async () => {
    const end = openHere();
    const worker = new Worker(CHILD, { argv: [THERE] });
    const [hello] = await once(worker, 'message');
    worker.postMessage({ peer: end.qp.endpoint(), writesTo: { addr: end.mr.addr, rkey: end.mr.rkey } });
    end.qp.connectTo(hello.endpoint, PATH);
    await once(worker, 'message');
    await delay(50);
    await worker.terminate();
    expect(end.mr.bytes[0]).toBe(7);
    expect(await write(end, hello)).toBe('RETRY_EXC_ERR');
    expect(openHere(THERE).context.gids()[0].gid).toContain(THERE);
  });

  test('a port that is taken, and an address of another host, are named', () => {
    openHere();
    const refusal = (address: string) => {
      try {
        openEnd(createSoftNetwork({ addresses: [address] }), 'soft0');
      } catch (error) {
        return error;
      }
      return undefined;
    };
    for (const [address, why] of [
      [HERE, /UDP port 4791 of 127\.75\.0\.1.*in use.*ISOVERBS_SOFT_ADDRESSES/],
      ['192.0.2.99', /UDP port 4791 of 192\.0\.2\.99.*no interface.*ISOVERBS_SOFT_ADDRESSES/],
    ] as const) {
      expect(refusal(address)).toBeInstanceOf(ConnectionError);
      expect((refusal(address) as Error).message).toMatch(why);
    }
  });

  test.skipIf(!HAS_NAMESPACES)('a port that requires a permission is named', () => {
    const script = `ip link set lo up && echo 5000 > /proc/sys/net/ipv4/ip_unprivileged_port_start &&
      exec setpriv --bounding-set=-all "$0" "$@"`;
    const words = ['-rn', 'bash', '-c', script, process.execPath, CHILD, '127.0.0.1'];
    const { stderr } = spawnSync('unshare', words, { encoding: 'utf8' });
    expect(stderr).toMatch(/ConnectionError: .*4791 of 127\.0\.0\.1.*EACCES.*ip_unprivileged_port_start/);
  });

  test('a program that was started meanwhile does not hold the port', async () => {
    const end = openHere();
    const sleeper = spawn('sleep', ['60'], { stdio: 'ignore' });
    children.push(sleeper);
    await once(sleeper, 'spawn');
    end.context.close();
    ends.length = 0;
    openHere();
  });

  test.skipIf(!HAS_NAMESPACES)('requests to a host without a route fail, and others continue', () => {
    const words = ['-rn', process.execPath, NO_ROUTE];
    const { stdout, stderr } = spawnSync('unshare', words, { encoding: 'utf8', timeout: 30_000 });
    expect(stderr).toBe('');
    expect(stdout).toBe('RETRY_EXC_ERR\nSUCCESS\n');
  });

  test('addresses that no device can have are refused with the reason', () => {
    for (const [address, why] of [
      ['localhost', 'is not an IPv4 or IPv6 address'],
      ['0.0.0.0', 'is not the address of one interface'],
      ['::', 'is not the address of one interface'],
      ['224.0.0.1', 'is a multicast or broadcast address'],
      ['255.255.255.255', 'is a multicast or broadcast address'],
      ['ff02::1', 'is a multicast or broadcast address'],
      ['fe80::1', 'is a link-local address'],
    ] as const) {
      expect(() => createSoftNetwork({ addresses: [address] })).toThrow(`'${address}' ${why}`);
    }
  });

  test('a peer that a device cannot reach is refused with the reason', () => {
    const { qp, pd } = openHere();
    for (const [gid, why] of [
      ['fd00::99', 'fd00::99: one is an IPv4 address, the other an IPv6 address'],
      ['::ffff:192.0.2.99', '192.0.2.99: the loopback interface reaches only this host'],
    ] as const) {
      const text = `soft0 (${HERE}) cannot reach ${why}`;
      expect(() => qp.connectTo({ ...qp.endpoint(), gid })).toThrow(`modifyQp: ${text}`);
      expect(() => pd.createAh({ dgid: gid, sgidIndex: 0, portNum: 1 })).toThrow(`createAh: ${text}`);
    }
  });

  test.skipIf(!HAS_NAMESPACES)(
    'an address that goes and comes back is an event of the port, and its MTU may change',
    () => {
      // The mount shows the interfaces of the new namespace.
      const script = 'mount -t sysfs none /sys && exec "$0" "$@"';
      const words = ['-rnm', 'bash', '-c', script, process.execPath, CHANGES];
      const { stdout, stderr } = spawnSync('unshare', words, { encoding: 'utf8', timeout: 30_000 });
      expect(stderr).toBe('');
      expect(stdout.split('\n')).toEqual([
        'ACTIVE',
        'PORT_ERR, DOWN, WRITE RETRY_EXC_ERR',
        'PORT_ACTIVE, ACTIVE, WRITE SUCCESS',
        'MTU 1024, WRITE SUCCESS',
        '',
      ]);
    },
  );

  test.skipIf(!HAS_NAMESPACES)('an address of several interfaces is that of the first', () => {
    const ends = ['va', 'vb'].map((end) => `ip addr add 10.99.0.1/32 dev ${end} && ip link set ${end} up`);
    const script = `ip link add va type veth peer name vb && ${ends.join(' && ')} && exec "$0" "$@"`;
    const devices = new URL('../../dist/providers/soft/devices.js', import.meta.url);
    const program = `import { interfaceOf, interfacesByAddress } from '${devices}';
      import { networkInterfaces } from 'node:os';
      const all = Object.keys(networkInterfaces());
      console.log(all.length, all.indexOf(interfaceOf('10.99.0.1', interfacesByAddress())));`;
    const words = ['-rn', 'bash', '-c', script, process.execPath, '--input-type=module', '-e', program];
    const { stdout, stderr } = spawnSync('unshare', words, { encoding: 'utf8', timeout: 30_000 });
    expect({ stdout, stderr }).toEqual({ stdout: '2 0\n', stderr: '' });
  });

  test('a process without free descriptors keeps its devices', () => {
    const dist = (file: string) => new URL(`../../dist/${file}`, import.meta.url);
    const program = `import { openSync } from 'node:fs';
      import { setTimeout as delay } from 'node:timers/promises';
      import { Context } from '${dist('objects/index.js')}';
      import { createSoftNetwork } from '${dist('providers/soft/index.js')}';
      const { provider } = createSoftNetwork({ addresses: ['127.75.0.3'] });
      const context = new Context(provider, 'soft0', {});
      const { activeMtu } = context.queryPort(1);
      try { for (;;) openSync('/dev/null'); } catch {}
      await delay(1500);
      const port = context.queryPort(1);
      try { createSoftNetwork({ addresses: ['127.75.0.4'] }); } catch ({ code }) { process.stdout.write(code + ' '); }
      process.stdout.write(port.state + ' ' + (port.activeMtu === activeMtu));`;
    const words = [
      '-c',
      'ulimit -n 1024; exec "$0" "$@"',
      process.execPath,
      '--input-type=module',
      '-e',
      program,
    ];
    const { stdout, stderr } = spawnSync('bash', words, { encoding: 'utf8', timeout: 30_000 });
    expect({ stdout, stderr }).toEqual({
      stdout: `ISO_ERR_NO_RESOURCES ${IBV_PORT_ACTIVE} true`,
      stderr: '',
    });
  });

  test('a capture that the disk has no room for ends, and the packets go on', async () => {
    const warnings: string[] = [];
    const note = ({ message }: Error) => warnings.push(message);
    process.on('warning', note);
    const network = createSoftNetwork({ addresses: [HERE], pcap: '/dev/full' });
    for (let opened = 0; opened < 2; opened++) {
      const end = openEnd(network, 'soft0', 4 << 20);
      const peer = end.pd.createQp({ sendCq: end.cq });
      end.qp.connectTo(peer.endpoint());
      peer.connectTo(end.qp.endpoint());
      expect(await write(end, end.mr, 2 << 20)).toBe('SUCCESS');
      end.context.close();
    }
    process.off('warning', note);
    expect(warnings).toHaveLength(2);
    expect(warnings[0]).toMatch(/^pcap: the capture ends, cannot write \/dev\/full: ENOSPC/);
  });
});
