// Our programs on a real device: against the C pingpong of rdma-core, and against each other.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { MAIN } from '../support/main.ts';
import { listening } from './peers/program.ts';
import { findDevice } from './rig.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const found = findDevice();
const device = typeof found === 'string' ? '' : found.name;
const other = process.env.RXE_DEV2;
const pingpong = spawnSync('ibv_rc_pingpong', ['--version']).error === undefined;
if (device !== '' && !pingpong)
  console.warn('no ibv_rc_pingpong (apt install ibverbs-utils): its tests are skipped');

const children = new Set<ChildProcess>();
afterEach(() => {
  for (const child of children) child.kill();
  children.clear();
});

interface Program {
  child: ChildProcess;
  done: Promise<{ code: number | null; out: string; err: string }>;
}

function start(command: string, args: string[], env: Record<string, string> = {}): Program {
  const child = spawn(command, args, { cwd: ROOT, env: { ...process.env, ...env } });
  children.add(child);
  let [out, err] = ['', ''];
  child.stdout.on('data', (chunk) => {
    out += chunk;
  });
  child.stderr.on('data', (chunk) => {
    err += chunk;
  });
  const done = once(child, 'close').then(([code]) => ({ code: code as number | null, out, err }));
  return { child, done };
}

const ours = (name: string, args: string[], policy?: string) => {
  const register = policy === undefined ? [] : ['--import', 'isoverbs/register'];
  const env: Record<string, string> = policy === undefined ? {} : { ISOVERBS_POLICY: policy };
  return start(process.execPath, [...register, `examples/${name}.mjs`, ...args], env);
};

let nextPort = 21_000 + (process.pid % 1000);

describe.skipIf(device === '' || !pingpong)('rc-pingpong and ibv_rc_pingpong', () => {
  const cases = [
    { role: 'server', mode: 'poll', tags: [] },
    { role: 'client', mode: 'events', tags: [] },
    { role: 'server', mode: 'events', tags: ['long'] },
    { role: 'client', mode: 'poll', tags: ['long'] },
  ];
  for (const { role, mode, tags } of cases)
    test(`we are the ${role}, ${mode}`, { tags, timeout: 120_000 }, async () => {
      const port = nextPort++;
      const args = [
        '-d',
        device,
        '-g',
        '1',
        '-n',
        '100',
        '-s',
        '8192',
        '-p',
        `${port}`,
        ...(mode === 'events' ? ['-e'] : []),
      ];
      const make = (isOurs: boolean, extra: string[]) =>
        isOurs ? ours('rc-pingpong', [...args, ...extra]) : start('ibv_rc_pingpong', [...args, ...extra]);
      const server = make(role === 'server', []);
      await listening(port);
      const client = make(role === 'client', ['127.0.0.1']);
      for (const { code, out } of await Promise.all([server.done, client.done])) {
        expect(out).toMatch(/^1638400 bytes in [\d.]+ seconds = [\d.]+ Mbit\/sec$/m);
        expect(out).toMatch(/^100 iters in [\d.]+ seconds = [\d.]+ usec\/iter$/m);
        expect(code).toBe(0);
      }
    });
});

/** Packets between the two devices get lost; a single device has no wire on which to lose them. */
function lose(percent: number): void {
  const { status, stderr } = spawnSync('tc', [
    ...['qdisc', 'replace', 'dev', 'veth0', 'root', 'netem', 'loss', `${percent}%`],
  ]);
  if (status !== 0) throw new Error(`tc could not set the loss: ${stderr}`);
}

describe.skipIf(device === '').each([0, 1])('examples between two processes, %i %% loss', (percent) => {
  beforeAll(() => {
    if (other !== undefined) lose(percent);
  });
  // Stop losing packets: later tests use datagrams, which are not retransmitted.
  afterAll(() => {
    if (other !== undefined) lose(0);
  });
  const runs = [undefined, 'perf:isolation=always'].flatMap((policy) => [
    { name: 'kv-store', args: ['--count', '50'], expected: /^50 GETs: p50/, policy },
    {
      name: 'file-transfer',
      args: ['--size', '4M'],
      expected: /^sent 4194304 bytes, .* sha256 ok$/m,
      policy,
    },
  ]);
  for (const { name, args, expected, policy } of runs) {
    // Whole READs and SENDs without loss, WRITEs in pieces with loss: the other combinations add little.
    const isShort = percent === 0 ? name === 'kv-store' : name === 'file-transfer';
    const tags = isShort && (policy === undefined) === (percent === 0) ? [] : ['long'];
    const options = { tags, timeout: 120_000 };
    test.skipIf(percent > 0 && other === undefined)(`${name}, policy ${policy}`, options, async () => {
      const port = nextPort++;
      ours(name, ['--device', device, '--listen', `${port}`], policy);
      await listening(port);
      const client = ours(
        name,
        ['--device', other ?? device, '--connect', `127.0.0.1:${port}`, ...args],
        policy,
      );
      const { code, out, err } = await client.done;
      expect({ code, err }).toEqual({ code: 0, err: '' });
      expect(out).toMatch(expected);
    });
  }
});

test.skipIf(device === '')('isoverbs devices lists the device', async () => {
  const { code, out } = await start(process.execPath, [MAIN, 'devices', '--json']).done;
  expect(code).toBe(0);
  const { devices } = JSON.parse(out);
  expect(devices[0]).toMatchObject({ name: device, provider: 'rdma-core' });
  expect(devices.map(({ name }: { name: string }) => name)).toContain('sim0');
});

// kill.test.ts tests how the survivors continue.
describe.skipIf(device === '')('a peer that vanishes', { tags: ['long'] }, () => {
  test('the waiting receiver is flushed and notified', async () => {
    const port = nextPort++;
    const open = `import { connect, listen, openDevice } from 'isoverbs';
      const context = openDevice('${device}'), pd = context.allocPd(), cq = context.createCq(), mr = pd.allocate(64);
      const options = { port: ${port}, host: '127.0.0.1', pd, sendCq: cq };`;
    const script = (text: string) =>
      start(process.execPath, ['--input-type=module', '-e', `${open}\n${text}`]);
    const server = script(`
      const prepare = (qp) => qp.receive({ wrId: 5, sgList: [{ mr }] });
      const listener = await listen(context, { ...options, prepare }, async (connection) => {
        console.log('connected');
        connection.on('close', async (error) => {
          const { wrId, statusText } = await cq.next();
          console.log(error.code, String(wrId), statusText, connection.qp.state);
          listener.close();
          context.close();
        });
      });`);
    await listening(port);
    const client = script('await connect(context, options); setInterval(() => {}, 1000);');
    await once(server.child.stdout as NodeJS.ReadableStream, 'data');
    client.child.kill('SIGKILL');
    const { code, out, err } = await server.done;
    expect({ code, out, err }).toEqual({
      code: 0,
      out: 'connected\nISO_ERR_CONNECTION 5 WR_FLUSH_ERR ERR\n',
      err: '',
    });
  }, 120_000);

  test('the sender gets RETRY_EXC_ERR within a second', async () => {
    // This test does not use the connection helper, which flushes the queue pair when the peer's program ends.
    const open = `import { once } from 'node:events';
      import { openDevice } from 'isoverbs';
      const context = openDevice('${device}'), pd = context.allocPd(), cq = context.createCq();
      const mr = pd.allocate(64, { access: { remoteWrite: true } });
      const qp = pd.createQp({ sendCq: cq });
      const told = async () => JSON.parse((await once(process.stdin, 'data'))[0]);
      console.log(JSON.stringify({ endpoint: qp.endpoint(), addr: mr.addr, rkey: mr.rkey }));
      const peer = await told();
      qp.connectTo(peer.endpoint);`;
    const script = (text: string) =>
      start(process.execPath, ['--input-type=module', '-e', `${open}\n${text}`]);
    const victim = script("console.log('connected'); setInterval(() => {}, 1000);");
    const sender = script(`
      const write = (wrId) => qp.post({ wrId, opcode: 'RDMA_WRITE', sgList: [{ mr }], remote: peer });
      write(1);
      console.log((await cq.next()).statusText);
      await told();
      const began = performance.now();
      write(2);
      console.log((await cq.next()).statusText, performance.now() - began < 1000 ? 'in time' : 'late');
      process.exit();`);
    const said = async ({ child }: Program) =>
      `${(await once(child.stdout as NodeJS.ReadableStream, 'data'))[0]}`;
    const [first, second] = await Promise.all([said(victim), said(sender)]);
    victim.child.stdin?.write(second);
    expect(await said(victim)).toBe('connected\n');
    sender.child.stdin?.write(first);
    expect(await said(sender)).toBe('SUCCESS\n');
    victim.child.kill('SIGKILL');
    await victim.done;
    sender.child.stdin?.write('"go"');
    const { code, out } = await sender.done;
    expect({ code, out: out.slice(second.length) }).toEqual({
      code: 0,
      out: 'SUCCESS\nRETRY_EXC_ERR in time\n',
    });
  }, 120_000);
});
