/** `isoverbs bench` against peers that send garbage, hang up, or stay silent. */
import { createServer, connect as dial, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { IsoverbsError, openDevice } from '../../src/index.ts';
import { ANSWER_TIMEOUT_MS } from '../../src/perftest/channel.ts';
import { runTest, type TestEnvironment } from '../../src/perftest/run.ts';
import { settingsOf, TESTS } from '../../src/perftest/settings.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { RandomStream } from '../../src/sim/kernel/random.ts';

const HERE = '127.0.0.1';
const SILENT = { print: () => {}, progress: () => {} };
/** Longer than any failure takes, shorter than the timeout of an end. */
const SOON_MS = 10_000;

const opened: { close(): void }[] = [];
const sockets: Socket[] = [];
afterEach(() => {
  for (const one of opened.splice(0)) one.close();
  for (const socket of sockets.splice(0)) socket.destroy();
  vi.useRealTimers();
});

/** Two environments whose devices reach each other. */
function environments(): [client: TestEnvironment, server: TestEnvironment] {
  const { provider } = createFabric({ profile: 'ideal', hosts: 2 });
  const openOn = (name: string) => openDevice(name, { provider, policy: null });
  const cm = { provider, openDevice: openOn };
  return [
    { open: () => openOn('sim0'), cm },
    { open: () => openOn('sim1'), cm },
  ];
}

const settings = (test: string, port: number, server: string | null) =>
  settingsOf(TESTS.find(({ name }) => name === test) ?? TESTS[0], server, { port, iters: 5, size: 64 });

/** How an end finished: `ok`, the code of its error, or `hangs`. */
async function ending(running: Promise<void>): Promise<string> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<string>((resolve) => {
    timer = setTimeout(() => resolve('hangs'), SOON_MS);
  });
  const ended = running.then(
    () => 'ok',
    (error) => (error instanceof IsoverbsError ? error.code : `untyped: ${error.stack}`),
  );
  const how = await Promise.race([ended, late]);
  clearTimeout(timer);
  return how;
}

async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, HERE, resolve));
  opened.push(server);
  return (server.address() as { port: number }).port;
}

function freePort(): Promise<number> {
  const server = createServer();
  return new Promise((resolve) => {
    server.listen(0, HERE, () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}

const serve = (answer: (socket: Socket) => void) =>
  listening(
    createServer((socket) => {
      sockets.push(socket);
      socket.on('error', () => {});
      answer(socket);
    }),
  );

/** Transforms the bytes of one direction; null means to hang up. */
type Transform = (bytes: Buffer, at: number) => Buffer | null;
const faithful: Transform = (bytes) => bytes;

/** A proxy between two ends. */
function proxy(to: number, toServer: Transform, toClient: Transform): Promise<number> {
  return serve((client) => {
    const server = dial(to, HERE);
    sockets.push(server);
    const pass = (from: Socket, into: Socket, corrupt: Transform) => {
      let at = 0;
      from.on('error', () => {});
      from.on('data', (bytes: Buffer) => {
        const corrupted = corrupt(bytes, at);
        at += bytes.length;
        if (corrupted !== null) return into.write(corrupted);
        client.destroy();
        server.destroy();
      });
      from.on('close', () => into.destroy());
    };
    pass(client, server, toServer);
    pass(server, client, toClient);
  });
}

/** Runs both ends of a test through a proxy; returns how each finished. */
async function through(name: string, toServer: Transform, toClient: Transform): Promise<[string, string]> {
  const [client, server] = environments();
  const port = await freePort();
  const serving = ending(runTest(settings(name, port, null), server, SILENT));
  const between = await proxy(port, toServer, toClient);
  const calling = ending(runTest(settings(name, between, HERE), client, SILENT));
  return Promise.all([calling, serving]);
}

/** Hangs up before byte `last`. */
const until =
  (last: number): Transform =>
  (bytes, at) =>
    at + bytes.length > last ? null : bytes;

/** Offsets of version, page, cache line, MTU, queue pairs, and the messages at the end of a test. */
const STEPS = [0, 16, 20, 24, 26, 134, 242, 350, 458, 466, 474, 482, 490];
const FUZZED = Number(process.env.ISOVERBS_RUNS ?? 60);
const SEED = Number(process.env.ISOVERBS_SEED ?? 1);

describe('a peer that hangs up', () => {
  test('does not occur with a proxy that forwards everything', async () => {
    expect(await through('write_bw', faithful, faithful)).toEqual(['ok', 'ok']);
  });

  test.each(STEPS)('after byte %i ends both sides with a connection error', async (last) => {
    expect(await through('write_bw', faithful, until(last))).toEqual([
      'ISO_ERR_CONNECTION',
      'ISO_ERR_CONNECTION',
    ]);
    expect(await through('write_bw', until(last), faithful)).toEqual([
      'ISO_ERR_CONNECTION',
      'ISO_ERR_CONNECTION',
    ]);
  });
});

describe('a silent peer', () => {
  const useFakeTimeouts = () => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });

  /** Waits until an end gives up: its timeout expires once the connection is established. */
  async function errorAfterTimeout(running: Promise<void>, connected: Promise<unknown>): Promise<unknown> {
    const ended = running.catch((error: unknown) => error);
    await connected;
    // The end must first notice that it is connected.
    for (let i = 0; i < 50; i++) await new Promise((resolve) => setImmediate(resolve));
    vi.advanceTimersByTime(ANSWER_TIMEOUT_MS);
    return ended;
  }

  test('is rejected as a server after a minute', async () => {
    const [client] = environments();
    let accept: (value?: unknown) => void = () => {};
    const connected = new Promise((resolve) => {
      accept = resolve;
    });
    const port = await serve(accept);
    useFakeTimeouts();
    const error = await errorAfterTimeout(
      runTest(settings('write_bw', port, HERE), client, SILENT),
      connected,
    );
    expect(error).toMatchObject({
      code: 'ISO_ERR_HANDSHAKE',
      message: expect.stringContaining("does it speak perftest's protocol?"),
    });
  });

  test('is rejected as a client after a minute', async () => {
    const [, server] = environments();
    const port = await freePort();
    useFakeTimeouts();
    const running = runTest(settings('write_bw', port, null), server, SILENT);
    const socket = dial(port, HERE);
    sockets.push(socket);
    const error = await errorAfterTimeout(running, new Promise((resolve) => socket.once('connect', resolve)));
    expect(error).toMatchObject({
      code: 'ISO_ERR_HANDSHAKE',
      message: expect.stringContaining("does it speak perftest's protocol?"),
    });
  });
});

describe('a peer that sends garbage', () => {
  /** Changes a byte, randomises the rest of a chunk, inserts a byte, or hangs up. */
  function corrupter(seed: number): Transform {
    const random = new RandomStream(seed, 'spoilt');
    const below = (n: number) => Math.floor(random.next() * n);
    const where = below(600);
    const kind = below(4);
    return (bytes, at) => {
      if (where < at || where >= at + bytes.length) return bytes;
      const here = where - at;
      const corrupted = Buffer.from(bytes);
      if (kind === 0) corrupted[here] = below(256);
      else if (kind === 1) for (let i = here; i < corrupted.length; i++) corrupted[i] = below(256);
      else if (kind === 2)
        return Buffer.concat([bytes.subarray(0, here), Buffer.of(below(256)), bytes.subarray(here)]);
      else return null;
      return corrupted;
    };
  }

  test(`${FUZZED} corrupted handshakes, from seed ${SEED}, end on both sides`, async () => {
    for (let seed = SEED; seed < SEED + FUZZED; seed++) {
      const name = seed % 3 === 0 ? 'send_bw' : 'write_bw';
      const corrupt = corrupter(seed);
      const ends = await through(
        name,
        seed % 2 === 0 ? corrupt : faithful,
        seed % 2 === 0 ? faithful : corrupt,
      );
      for (const end of ends) {
        expect.soft(end, `${name}, seed ${seed}`).toMatch(/^(ok|ISO_ERR_(CONNECTION|HANDSHAKE|COMPLETION))$/);
      }
    }
  }, 300_000);
});
