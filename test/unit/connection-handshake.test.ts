// The handshake over wires that the test controls: garbage, silence, goodbye, and peers that vanish.
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import {
  type Connection,
  Context,
  connect,
  type JsonValue,
  type ListenOptions,
  listen,
} from '../../src/objects/index.ts';
import {
  ConnectionError,
  HandshakeError,
  InvalidArgumentError,
  InvalidStateError,
  type Wire,
} from '../../src/verbs/index.ts';
import { unusedPort } from '../support/unused-port.ts';
import { createFake } from './objects-fake.ts';

function end(fake = createFake()) {
  const context = new Context(fake.provider, 'fake0');
  const pd = context.allocPd();
  const cq = context.createCq();
  return { fake, context, pd, cq, options: { pd, sendCq: cq } };
}

async function pair(server: Partial<ListenOptions> = {}, client: object = {}) {
  const a = end();
  const b = end(a.fake);
  const accepted: Connection[] = [];
  const listener = await listen(a.context, { port: 0, ...a.options, ...server }, (c) => accepted.push(c));
  const connection = await connect(b.context, { port: listener.port, ...b.options, ...client });
  if (accepted.length === 0) await once(listener, 'connection');
  return { a, b, listener, accepted, connection, peer: accepted[0] };
}

/** Calls the listener by hand. */
async function dial(
  a: ReturnType<typeof end>,
  port: number,
): Promise<{ wire: Wire; heard: string[]; closed: Promise<void> }> {
  const wire = await a.fake.provider.rendezvous.connect(a.context.handle, { port });
  const heard: string[] = [];
  wire.onMessage = (bytes) => heard.push(Buffer.from(bytes).toString());
  const closed = new Promise<void>((resolve) => {
    wire.onClose = () => resolve();
  });
  return { wire, heard, closed };
}

const hello = {
  isoverbs: 1,
  type: 'hello',
  qpType: 'RC',
  qpNum: 7,
  psn: 1,
  gid: '::1',
  lid: 0,
  mtu: 3,
  initiatorDepth: 4,
  responderResources: 200,
};
const bytes = (value: unknown) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value));

test('both ends agree, and get private data', async () => {
  const { connection, peer } = await pair(
    { privateData: (remote) => ({ echo: (remote?.privateData ?? null) as JsonValue }) },
    { privateData: { size: 5 }, maxRdAtomic: 3, mtu: 1 },
  );
  expect(connection.remote.privateData).toEqual({ echo: { size: 5 } });
  expect(peer.remote.privateData).toEqual({ size: 5 });
  expect(connection.qp.state).toBe('RTS');
  expect(peer.qp.query().attr).toMatchObject({
    destQpNum: connection.qp.qpNum,
    rqPsn: connection.qp.psn,
    pathMtu: 1,
    maxDestRdAtomic: 3,
    maxRdAtomic: 16,
  });
  expect(connection.qp.query().attr).toMatchObject({ destQpNum: peer.qp.qpNum, pathMtu: 1, maxRdAtomic: 3 });
});

test('private data may be bytes or JSON values of up to 4 KiB; values that JSON cannot represent are refused', async () => {
  const data = Uint8Array.from({ length: 4096 }, (_, i) => i);
  const { peer } = await pair({}, { privateData: data });
  expect(peer.remote.privateData).toEqual(data);
  await expect(pair({}, { privateData: new Uint8Array(4097) })).rejects.toThrow(InvalidArgumentError);
  await expect(pair({}, { privateData: 'x'.repeat(4095) })).rejects.toThrow('4097 bytes');
  await expect(pair({}, { privateData: { big: 1n } as never })).rejects.toThrow(InvalidArgumentError);
  await expect(pair({}, { privateData: (() => {}) as never })).resolves.toBeDefined();
});

test('receives are posted before the peer may send: in INIT, on both sides', async () => {
  const states: string[] = [];
  const note = (qp: { state: string }) => void states.push(qp.state);
  await pair({ prepare: note }, { prepare: async (qp: { state: string }) => note(qp) });
  expect(states).toEqual(['INIT', 'INIT']);
});

test('createQp() may create the queue pair; options without a queue pair or createQp() are refused', async () => {
  const { peer, a } = await pair();
  expect(peer.qp.context).toBe(a.context);
  const b = end(a.fake);
  const own = b.pd.createQp({ sendCq: b.cq, cap: { maxSendWr: 3 } });
  const listener = await listen(a.context, { port: 0, ...a.options });
  const connection = await connect(b.context, { port: listener.port, createQp: () => own });
  expect(connection.qp).toBe(own);
  await expect(connect(b.context, { port: listener.port })).rejects.toThrow('pd and sendCq, or createQp');
});

test('close() notifies the peer, moves its queue pair to ERR, and closes our own', async () => {
  const { connection, peer } = await pair();
  const [[error], [own]] = await Promise.all([
    once(peer, 'close'),
    once(connection, 'close'),
    connection.close(),
  ]);
  expect([error, own]).toEqual([undefined, undefined]);
  expect(peer.qp.state).toBe('ERR');
  expect(connection.qp.closed).toBe(true);
  expect([connection.closed, peer.closed]).toEqual([true, true]);
  connection.close();
  peer.close();
  expect(peer.qp.closed).toBe(true);
});

test('a peer that vanishes causes a ConnectionError and moves the queue pair to ERR', async () => {
  const { a, connection } = await pair();
  const gone = once(connection, 'close');
  a.fake.peers[0].close();
  const [error] = await gone;
  expect(error).toBeInstanceOf(ConnectionError);
  expect(error.message).toContain('closed the connection');
  expect(connection.qp.state).toBe('ERR');
});

test('garbage on an established connection breaks it too', async () => {
  const { a, connection } = await pair();
  a.fake.peers[0].send(bytes('what?'));
  const [error] = await once(connection, 'close');
  expect(error.cause).toBeInstanceOf(HandshakeError);
  const second = await pair();
  second.a.fake.peers[0].send(bytes({ isoverbs: 1, type: 'ready' }));
  expect((await once(second.connection, 'close'))[0].message).toContain("sent 'ready'");
});

test.each([
  ['text', 'GET / HTTP/1.1', 'does not speak isoverbs'],
  ['other JSON', { hello: 1 }, 'does not speak isoverbs'],
  ['null', 'null', 'does not speak isoverbs'],
  ['binary', '\xff\xfe\x00', 'does not speak isoverbs'],
  ['another version', { ...hello, isoverbs: 2 }, 'uses version 2'],
  ['an unknown type', { ...hello, type: 'hi' }, 'type'],
  ['a huge queue-pair number', { ...hello, qpNum: 2 ** 24 }, "'qpNum'"],
  ['no GID', { ...hello, gid: 'nonsense' }, "'gid'"],
  ['an MTU that is none', { ...hello, mtu: 9 }, "'mtu'"],
  ['private data of both kinds', { ...hello, privateData: { json: 1, bytes: '' } }, 'privateData'],
  ['too much private data', { ...hello, privateData: { json: 'x'.repeat(5000) } }, '5002 bytes'],
  ['a frame that is too long', `"${'x'.repeat(20_000)}"`, 'frame of 20002 bytes'],
  ['ready instead of hello', { isoverbs: 1, type: 'ready' }, "'ready' instead of 'hello'"],
  ['another type of queue pair', { ...hello, qpType: 'UC' }, 'UC, this one is RC'],
])('a handshake with %s: clientError, and the listener keeps accepting', async (_name, message, expected) => {
  const a = end();
  const listener = await listen(a.context, { port: 0, ...a.options });
  const failed = once(listener, 'clientError');
  const { wire, closed } = await dial(a, listener.port);
  wire.send(typeof message === 'string' ? Buffer.from(message, 'latin1') : bytes(message));
  const [error, from] = await failed;
  expect(error).toBeInstanceOf(HandshakeError);
  expect(error.message).toContain(expected);
  expect(from).toEqual({ remoteAddress: 'fake' });
  await closed;
  const b = end(a.fake);
  const connection = await connect(b.context, { port: listener.port, ...b.options });
  expect(connection.qp.state).toBe('RTS');
  connection.close();
  b.context.close();
  listener.close();
  a.context.close();
});

test('garbage without a clientError listener is harmless, and leaks no queue pair', async () => {
  const a = end();
  const listener = await listen(a.context, { port: 0, ...a.options });
  const { wire, closed } = await dial(a, listener.port);
  wire.send(bytes(hello));
  wire.send(bytes('garbage'));
  await closed;
  await delay(5);
  expect(a.fake.calls.filter((call) => call === 'createQp')).toHaveLength(1);
  expect(a.fake.calls.filter((call) => call === 'destroyQp')).toHaveLength(1);
  listener.close();
});

test('a silent caller times out, and so does a silent listener', async () => {
  const a = end();
  const listener = await listen(a.context, { port: 0, ...a.options, timeoutMs: 20 });
  const failed = once(listener, 'clientError');
  const { closed } = await dial(a, listener.port);
  expect((await failed)[0].message).toContain('within 20 ms');
  await closed;
  const server = await a.fake.provider.rendezvous.listen(a.context.handle, { port: 0 }, () => {});
  const late = connect(a.context, { port: server.port, ...a.options, timeoutMs: 20 });
  await expect(late).rejects.toThrow(HandshakeError);
});

test('connect() throws a ConnectionError without a listener, and when the peer leaves or rejects', async () => {
  const a = end();
  const { port, close } = await unusedPort();
  await expect(connect(a.context, { port, host: '127.0.0.1', ...a.options })).rejects.toThrow(
    `cannot connect to 127.0.0.1:${port}`,
  );
  close();
  const server = await a.fake.provider.rendezvous.listen(a.context.handle, { port: 0 }, (wire) =>
    wire.close(),
  );
  await expect(connect(a.context, { port: server.port, ...a.options })).rejects.toThrow(
    'closed the connection',
  );
  const strict = await listen(a.context, {
    port: 0,
    createQp: () => {
      throw new RangeError('not today');
    },
  });
  const failed = once(strict, 'clientError');
  const refused = connect(a.context, { port: strict.port, ...a.options });
  await expect(refused).rejects.toThrow(ConnectionError);
  await expect(refused).rejects.toThrow('rejected the connection: not today');
  expect((await failed)[0]).toBeInstanceOf(RangeError);
});

test('closing the listener aborts handshakes and keeps connections', async () => {
  const { a, listener, connection, peer } = await pair();
  const { closed } = await dial(a, listener.port);
  listener.close();
  listener.close();
  await Promise.all([closed, once(listener, 'close')]);
  expect(peer.closed).toBe(false);
  expect(connection.closed).toBe(false);
});

test('callers beyond maxPending are rejected', async () => {
  const a = end();
  const listener = await listen(a.context, { port: 0, ...a.options, maxPending: 1 });
  await dial(a, listener.port);
  await (await dial(a, listener.port)).closed;
  listener.close();
});

test('closing the queue pair or the context ends the connection', async () => {
  const { connection, peer } = await pair();
  const gone = once(peer, 'close');
  connection.qp.close();
  expect((await gone)[0]).toBeUndefined();
  const second = await pair();
  const over = once(second.connection, 'close');
  second.a.context.close();
  expect((await over)[0]).toBeUndefined();
  expect(second.peer.closed).toBe(true);
});

test('a failing move to RTS closes the queue pair and notifies the peer', async () => {
  const fake = createFake();
  const modifyQp = fake.provider.modifyQp;
  const provider = {
    ...fake.provider,
    modifyQp(...args: Parameters<typeof modifyQp>) {
      if (args[1].qpState === 2) throw new InvalidStateError('no');
      modifyQp(...args);
    },
  };
  const a = end({ ...fake, provider });
  const b = end(fake);
  const listener = await listen(a.context, { port: 0, ...a.options });
  await expect(connect(b.context, { port: listener.port, ...b.options })).rejects.toThrow(
    'the peer rejected the connection: no',
  );
  expect(fake.calls.filter((call) => call === 'destroyQp')).toHaveLength(2);
});
