/** `isoverbs bench` on simulated devices, and against peers that do not speak perftest's protocol. */
import { createServer, connect as dial, Server, type Socket } from 'node:net';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { type Context, type Interceptor, openDevice } from '../../src/index.ts';
import { connectTo, listenOn } from '../../src/perftest/channel.ts';
import { type Destination, decodeDestination, encodeDestination } from '../../src/perftest/handshake.ts';
import { runBothEnds, runTest, type TestEnvironment } from '../../src/perftest/run.ts';
import { type Settings, settingsOf, TESTS } from '../../src/perftest/settings.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { unusedPort } from '../support/unused-port.ts';

const kindOf = (name: string) => TESTS.find((test) => test.name === name) ?? TESTS[0];
const settings = (name: string, flags: Record<string, unknown> = {}, server: string | null = null) =>
  settingsOf(kindOf(name), server, flags);

interface Json {
  test_info: Record<string, unknown>;
  results: Record<string, number>;
}

const opened: { close(): void }[] = [];
afterEach(() => {
  for (const one of opened.splice(0)) one.close();
});

const SILENT = { print: () => {}, progress: () => {} };

function devices(policy: readonly Interceptor[] | null = null): {
  client: Context;
  server: Context;
  cm: TestEnvironment['cm'];
} {
  const { provider } = createFabric({ profile: 'cx6-100g', hosts: 2 });
  const [client, server] = ['sim0', 'sim1'].map((name) => openDevice(name, { provider, policy }));
  opened.push(client, server);
  const bare = (name: string) => openDevice(name, { provider, policy: null });
  return { client, server, cm: { provider, openDevice: bare } };
}

async function lines(given: Settings): Promise<string[]> {
  const printed: string[] = [];
  const contexts = devices();
  await runBothEnds(given, contexts, contexts.cm, {
    print: (line) => printed.push(line),
    progress: () => {},
  });
  return printed;
}

async function measured(name: string, flags: Record<string, unknown> = {}): Promise<Json> {
  return JSON.parse((await lines(settings(name, { json: true, iters: 200, ...flags }))).join('\n')) as Json;
}

describe('tests on simulated devices', () => {
  // 11,921 MiB/s are 100 Gbit/s; headers take the rest.
  test.each(['write_bw', 'send_bw', 'read_bw'])('%s fills the link', async (name) => {
    const { results } = await measured(name);
    expect(results).toMatchObject({ MsgSize: 65536, n_iterations: 200 });
    expect(results.BW_average).toBeGreaterThan(11_000);
    expect(results.BW_average).toBeLessThan(11_921);
    expect(results.BW_peak).toBeGreaterThanOrEqual(results.BW_average * 0.99);
  });

  test.each(['write_lat', 'send_lat', 'read_lat', 'atomic_lat'])(
    '%s takes about a microsecond',
    async (name) => {
      const { results } = await measured(name);
      expect(results.n_iterations).toBe(200);
      expect(results.t_min).toBeGreaterThan(0.3);
      expect(results.t_typical).toBeLessThan(3);
      expect(results.t_min).toBeLessThanOrEqual(results.t_typical);
      expect(results.t_typical).toBeLessThanOrEqual(results['percentile_99.9']);
    },
  );

  test('atomic_bw updates the memory of the other end', async () => {
    const { results } = await measured('atomic_bw');
    expect(results).toMatchObject({ MsgSize: 8, n_iterations: 200 });
    expect(results.MsgRate).toBeGreaterThan(1);
  });

  test.each([
    ['send_bw', { connection: 'UD' }],
    ['send_lat', { connection: 'UD' }],
    ['write_bw', { connection: 'UC', qp: 4 }],
    ['send_bw', { bidirectional: true, qp: 2 }],
    ['write_bw', { bidirectional: true }],
    ['write_bw', { post_list: 8, txDepth: 16 }],
    ['atomic_bw', { atomic_type: 'CMP_AND_SWAP', outs: 1 }],
    ['send_bw', { events: true, qp: 2 }],
    ['send_lat', { events: true }],
    ['read_bw', { events: true, cqMod: 10 }],
    ['atomic_lat', { events: true }],
    ['send_bw', { useSrq: true, qp: 4, bidirectional: true }],
    ['send_lat', { useSrq: true, connection: 'UD' }],
    ['write_bw', { write_with_imm: true, qp: 2, inline_size: 64, size: 64 }],
    ['write_bw', { write_with_imm: true, bidirectional: true, connection: 'UC' }],
    ['write_lat', { write_with_imm: true, events: true }],
    ['read_bw', { perform_warm_up: true, qp: 2 }],
    ['atomic_bw', { perform_warm_up: true }],
    ['write_bw', { com_rdma_cm: true, qp: 2 }],
    ['send_lat', { com_rdma_cm: true, connection: 'UD' }],
    ['write_bw', { rdma_cm: true, qp: 3 }],
    ['send_bw', { rdma_cm: true, bidirectional: true }],
    ['write_lat', { rdma_cm: true }],
    ['read_lat', { rdma_cm: true, events: true }],
    ['send_bw', { mcg: true }],
    ['send_lat', { mcg: true }],
    [
      'send_lat',
      { mcg: true, MGID: '0:0:0:0:0:0:0:0:0:0:255:255:239:1:2:3', com_rdma_cm: true, events: true },
    ],
    ['write_bw', { rxDepth: 4, txDepth: 7, cqMod: 3, noPeak: false, sl: 3, mtu: '1024' }],
    ['send_bw', { rxDepth: 4, txDepth: 7, inline_size: 64, size: 64 }],
  ])('%s %j', async (name, flags) => {
    const { results } = await measured(name, flags);
    expect(results.n_iterations).toBe(200 * ('qp' in flags ? Number(flags.qp) : 1));
    expect(Object.values(results).every((value) => value > 0)).toBe(true);
  });
});

describe('sizes and times', () => {
  test('--all prints one row per size', async () => {
    const printed = await lines(settings('send_lat', { all: true, iters: 5, connection: 'UD' }));
    const sizes = printed.filter((line) => /^ \d+ +\d/.test(line)).map((line) => Number.parseInt(line, 10));
    // A datagram is one packet.
    expect(sizes).toEqual([2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096]);
  });

  test.each(['send_lat', 'read_lat'])(
    'at a given rate, %s counts late messages from when they were due',
    async (name) => {
      const slow = await measured(name, { exchange_rate: 100_000 });
      const fast = await measured(name, { exchange_rate: 10_000_000 });
      expect(slow.results.t_max).toBeLessThan(3);
      // Ten times the possible rate: the last of 200 messages is late by nearly the whole run.
      expect(fast.results.t_max).toBeGreaterThan(50);
    },
  );

  test('send_lat reports half of the time from post to post', async () => {
    const posts: number[] = [];
    const times: Interceptor = {
      name: 'times',
      wrap: (next) => ({
        postSend(qp, ring, start, count) {
          posts.push(contexts.client.nowNs());
          return next.postSend(qp, ring, start, count);
        },
      }),
    };
    const { cm, ...contexts } = devices([times]);
    const printed: string[] = [];
    const output = { ...SILENT, print: (line: string) => printed.push(line) };
    await runBothEnds(settings('send_lat', { json: true, iters: 500 }), contexts, cm, output);
    const { results } = JSON.parse(printed.join('\n')) as Json;
    expect(posts).toHaveLength(1000);
    // The ends post alternately.
    const halfNs = (posts[999] - posts[0]) / 999;
    expect(Math.abs(results.t_avg / (halfNs / 1000) - 1)).toBeLessThan(0.01);
  });

  test('lists fit into a queue that is shorter than --cq-mod', async () => {
    const { results } = await measured('write_bw', { post_list: 64, cqMod: 128, txDepth: 100, iters: 640 });
    expect(results.n_iterations).toBe(640);
  });

  test('the two ends of one process listen only locally', async () => {
    const listen = vi.spyOn(Server.prototype, 'listen');
    await measured('write_lat');
    expect(listen.mock.calls.map(([options]) => options)).toEqual([{ port: 0, host: '127.0.0.1' }]);
    listen.mockRestore();
  });
});

describe('verbs that a test calls', () => {
  /** Runs a test; returns the calls of each verb, and for posts the number of requests. */
  async function counted(name: string, flags: Record<string, unknown>): Promise<Record<string, number>> {
    const calls: Record<string, number> = { postSend: 0, postRecv: 0, reqNotifyCq: 0 };
    const counter: Interceptor = {
      name: 'counter',
      wrap: (next) => ({
        postSend(qp, ring, start, count) {
          calls.postSend += count;
          return next.postSend(qp, ring, start, count);
        },
        postRecv(qp, ring, start, count) {
          calls.postRecv += count;
          return next.postRecv(qp, ring, start, count);
        },
        reqNotifyCq(cq, solicitedOnly) {
          calls.reqNotifyCq++;
          next.reqNotifyCq(cq, solicitedOnly);
        },
      }),
    };
    const { cm, ...contexts } = devices([counter]);
    await runBothEnds(settings(name, { iters: 20, ...flags }), contexts, cm, SILENT);
    return calls;
  }

  test('an end arms its queues only with --events', async () => {
    expect((await counted('send_lat', {})).reqNotifyCq).toBe(0);
    expect((await counted('send_lat', { events: true })).reqNotifyCq).toBeGreaterThan(20);
  });

  test('--perform_warm_up posts one extra queue of requests', async () => {
    expect((await counted('write_bw', { txDepth: 10 })).postSend).toBe(20);
    expect((await counted('write_bw', { txDepth: 10, perform_warm_up: true })).postSend).toBe(30);
  });

  test('WRITEs with immediate data consume receives of the other end', async () => {
    expect((await counted('write_bw', {})).postRecv).toBe(0);
    expect((await counted('write_bw', { write_with_imm: true })).postRecv).toBe(20);
  });

  test('--use-srq posts no receives to queue pairs', async () => {
    expect((await counted('send_bw', { qp: 2 })).postRecv).toBe(40);
    expect((await counted('send_bw', { qp: 2, useSrq: true })).postRecv).toBe(0);
  });
});

describe('output', () => {
  test('--output prints one number', async () => {
    expect(await lines(settings('write_bw', { output: 'message_rate', iters: 200 }))).toEqual([
      expect.stringMatching(/^0\.18\d{4}$/),
    ]);
  });

  test('a bandwidth below the limit fails', async () => {
    await expect(lines(settings('write_bw', { limit_bw: 1e6, iters: 100 }))).rejects.toThrow(
      'BW result is below bw limit',
    );
  });
});

const REJECTED: readonly (readonly [test: string, flags: Record<string, unknown>, message: string])[] = [
  ['write_lat', { connection: 'UD' }, 'UD connection only possible in SEND verb'],
  ['read_bw', { connection: 'UC' }, 'UC connection not possible in READ/ATOMIC verbs'],
  ['atomic_bw', { size: 16 }, 'Message size cannot be changed for Atomic tests'],
  ['write_bw', { duration: 2, all: true }, "Duration mode currently doesn't support running on all sizes."],
  ['write_bw', { duration: 2, iters: 10 }, '--iters and --duration exclude each other'],
  ['write_bw', { duration: 2, margin: 1 }, 'DURATION > 2*MARGIN'],
  ['write_lat', { run_infinitely: true }, 'run_infinitely exists only in BW tests for now.'],
  ['write_bw', { post_list: 3, iters: 100 }, 'must be a multiple of post list size'],
  ['write_bw', { post_list: 8, cqMod: 12, iters: 96 }, 'must be a multiple or a divisor of --post_list'],
  ['write_lat', { qp: 2 }, 'one queue pair'],
  ['write_bw', { mcg: true }, '--mcg is for send_bw and send_lat'],
  ['send_bw', { mcg: true, qp: 2 }, 'Only 1 QP supported in multicast'],
  ['send_bw', { mcg: true, bidirectional: true }, 'Bidirectional mode not supported in multicast'],
  ['send_bw', { MGID: 'ff05::1' }, '--MGID names the group of --mcg'],
  ['send_bw', { mcg: true, MGID: 'fe80::1' }, '--MGID takes the GID of a multicast group, such as ff05::1, '],
  ['send_bw', { mcg: true, MGID: '255:1' }, "got '255:1'"],
  ['write_lat', { exchange_rate: 5 }, 'not for write_lat'],
  ['write_lat', { txDepth: 0 }, '--tx-depth'],
  ['write_bw', { size: 'big' }, "--size takes whole numbers from 1 to 2147483648, got 'big'"],
  ['write_bw', { size: 0 }, '--size'],
  ['write_bw', { txDepth: 1.5 }, '--tx-depth'],
  ['write_bw', { port: 0 }, '--port'],
  ['write_bw', { gidIndex: -1 }, '--gid-index'],
  ['write_bw', { rate_limit: 0 }, "--rate_limit takes numbers above 0, got '0'"],
  ['write_bw', { rate_limit: 1, all: true }, '--rate_limit is for messages of one size: leave out --all'],
  ['write_bw', { rate_units: 'k' }, "--rate_units takes M, g, p, got 'k'"],
  ['write_bw', { mtu: '1000' }, '--mtu takes 256, 512, 1024, 2048, 4096'],
  ['write_bw', { cpu: 'all' }, '--cpu takes a list of CPUs'],
  ['write_bw', { events: true }, 'Events feature not available on WRITE verb'],
  ['send_bw', { events: true, duration: 2 }, "Duration mode doesn't work with events."],
  ['send_bw', { events: true, run_infinitely: true }, 'run_infinitely does not support events feature yet.'],
  ['send_lat', { events: true, latency_gap: 5 }, '--events sleeps until something arrives'],
  ['write_bw', { useSrq: true }, 'Using SRQ only available in SEND tests.'],
  ['send_bw', { useSrq: true, qp: 9, rxDepth: 8 }, 'Using SRQ depth should be greater than number of QPs.'],
  ['send_bw', { write_with_imm: true }, 'Write_with_imm can only be used with write_lat and write_bw tests'],
  ['send_bw', { perform_warm_up: true }, '--perform_warm_up is for the bandwidth of WRITEs'],
  ['write_bw', { perform_warm_up: true, write_with_imm: true }, 'Warm up not supported for WRITE_IMM verb.'],
  ['write_bw', { rdma_cm: true, connection: 'UC' }, 'UC is not supported in librdmacm'],
  ['send_bw', { rdma_cm: true, connection: 'UD' }, '--rdma_cm connects only RC'],
  ['write_bw', { run_infinitely: true, json: true }, 'run_infinitely never ends'],
  ['write_bw', { provider: 'sim', source_ip: '10.0.0.1' }, 'leave out --source_ip'],
  ['write_bw', { iters: 0 }, '--iters'],
  ['write_bw', { port: 70000 }, '--port'],
  ['write_bw', { connection: 'TCP' }, '--connection'],
  ['write_bw', { output: 'latency' }, 'Output verbosity level for BW can be: bandwidth, message_rate'],
];

describe('flags', () => {
  test.each(REJECTED)('%s %j is rejected', (name, flags, message) => {
    expect(() => settings(name, flags)).toThrow(message);
    expect(() => settings(name, flags)).toThrow(expect.objectContaining({ code: 'ISO_ERR_CONFIG' }));
  });

  test('--post_list must divide the iterations, except with --duration', () => {
    expect(settings('write_bw', { post_list: 625, txDepth: 1250 })).toMatchObject({
      iters: 5000,
      cqMod: 625,
    });
    expect(settings('send_bw', { post_list: 64, duration: 2 }).post_list).toBe(64);
  });

  test('the peak is computed up to a total number of requests of all queue pairs', () => {
    expect(settings('write_bw', { iters: 2000, qp: 10 }).noPeak).toBe(false);
    expect(settings('write_bw', { iters: 2000, qp: 11 }).noPeak).toBe(true);
  });

  test('a requested datagram longer than a packet is rejected', async () => {
    await expect(lines(settings('send_bw', { connection: 'UD', size: 8192 }))).rejects.toThrow(
      'Max message size in UD cannot be greater than MTU',
    );
  });

  test('a size that the device does not support is rejected', async () => {
    await expect(lines(settings('write_bw', { size: 2 ** 31 }))).rejects.toThrow(
      /the largest message of sim. is/,
    );
  });
});

describe('the destination of a queue pair', () => {
  const keys: Destination = {
    lid: 0x12,
    outReads: 16,
    qpNum: 0x11,
    psn: 0xabcdef,
    rkey: 0xdeadbeef,
    vaddr: 0x7f00_1234_5678_9000n,
    gid: '::ffff:10.77.0.1',
    srqNum: 0,
  };

  test('is encoded with and without a GID in the lengths of perftest', () => {
    const text = encodeDestination(keys);
    expect(text).toHaveLength(108);
    expect(text.toString('latin1')).toBe(
      '0012:0010:000011:abcdef:deadbeef:7f00123456789000:00:00:00:00:00:00:00:00:00:00:ff:ff:0a:4d:00:01:00000000:\0',
    );
    expect(decodeDestination(text, true)).toEqual(keys);
    const short = encodeDestination({ ...keys, gid: null });
    expect(short).toHaveLength(59);
    expect(decodeDestination(short, false)).toEqual({ ...keys, gid: null });
  });

  test.each(['', 'GET / HTTP/1.1', 'zz:0', '0:0:0:0:0:0:0:0'])('%j is rejected', (text) => {
    const bytes = Buffer.alloc(108);
    bytes.write(text);
    expect(() => decodeDestination(bytes, true)).toThrow(
      expect.objectContaining({ code: 'ISO_ERR_HANDSHAKE' }),
    );
  });
});

describe('a server that does not speak the protocol', () => {
  async function serve(answer: (socket: Socket) => void): Promise<number> {
    const server = createServer(answer);
    await new Promise<void>((resolve) => server.listen(0, resolve));
    opened.push(server);
    return (server.address() as { port: number }).port;
  }

  function talkTo(port: number): Promise<void> {
    const { client, cm } = devices();
    const environment = { open: () => client, cm };
    const silent = { print: () => {}, progress: () => {} };
    return runTest(settings('write_bw', { port }, '127.0.0.1'), environment, silent);
  }

  test.each([
    ['one that speaks HTTP', 'HTTP/1.1 400 Bad Request\r\n\r\n', "does not speak perftest's protocol"],
    ['one that is too old', `5.31${'\0'.repeat(12)}`, 'not compatible with versions older than 5.70'],
  ])('%s is rejected', async (_, answer, message) => {
    const port = await serve((socket) => socket.write(answer));
    await expect(talkTo(port)).rejects.toThrow(message);
  });

  test('a server that hangs up ends the client with a connection error', async () => {
    const port = await serve((socket) => socket.destroy());
    await expect(talkTo(port)).rejects.toThrow(expect.objectContaining({ code: 'ISO_ERR_CONNECTION' }));
  });

  test('a missing server ends the client with a message', async () => {
    const unused = await unusedPort();
    opened.push(unused);
    await expect(talkTo(unused.port)).rejects.toThrow(`Couldn't connect to 127.0.0.1:${unused.port}`);
  });

  test('bytes that arrive one by one are reassembled', async () => {
    let onListening: (port: number) => void = () => {};
    const port = new Promise<number>((resolve) => {
      onListening = resolve;
    });
    const serving = listenOn(0, onListening);
    const client = dial(await port, '127.0.0.1');
    const channel = await serving;
    const exchanged = channel.exchange(Buffer.from('pong'));
    for (const byte of 'ping') client.write(byte);
    expect((await exchanged).toString()).toBe('ping');
    client.destroy();
    channel.destroy();
  });

  test('listenOn() rejects a port that is in use', async () => {
    const port = await serve(() => {});
    await expect(listenOn(port)).rejects.toThrow(/Couldn't listen/);
    await expect(connectTo('127.0.0.1', port).then((channel) => channel.destroy())).resolves.toBeUndefined();
  });
});
