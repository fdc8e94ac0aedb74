// Connections over real TCP: input from other programs, and peers that vanish.
import { once } from 'node:events';
import { connect as tcp } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { type Connection, Context, connect, listen } from '../../src/objects/index.ts';
import { tcpRendezvous } from '../../src/providers/rdma-core/rendezvous.ts';
import { ConnectionError, HandshakeError } from '../../src/verbs/index.ts';
import { createFake } from './objects-fake.ts';

function end() {
  const fake = createFake();
  const context = new Context({ ...fake.provider, rendezvous: tcpRendezvous }, 'fake0');
  const pd = context.allocPd();
  const cq = context.createCq();
  return { context, options: { pd, sendCq: cq, host: '127.0.0.1' } };
}

async function setup(options: object = {}) {
  const a = end();
  const listener = await listen(a.context, { port: 0, ...a.options, ...options });
  return { a, listener };
}

/** A correct caller, to show that the listener still accepts. */
async function expectService(port: number, a: ReturnType<typeof end>) {
  const b = end();
  const connection = await connect(b.context, { port, ...b.options });
  expect(connection.qp.state).toBe('RTS');
  b.context.close();
  a.context.close();
}

test.each([
  ['an HTTP request', Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n'), 'announced a message of'],
  [
    'a frame of garbage',
    Buffer.concat([Buffer.from([0, 0, 0, 7]), Buffer.from('garbage')]),
    'does not speak isoverbs',
  ],
  ['zero bytes', Buffer.alloc(4), 'does not speak isoverbs'],
])('%s: clientError, and the listener keeps accepting', async (_name, bytes, expected) => {
  const { a, listener } = await setup();
  const failed = once(listener, 'clientError');
  const socket = tcp(listener.port, '127.0.0.1');
  socket.on('error', () => {});
  socket.write(bytes);
  const [error] = await failed;
  expect(error).toBeInstanceOf(HandshakeError);
  expect(error.message).toContain(expected);
  socket.destroy();
  await expectService(listener.port, a);
});

test('a caller that disconnects in the middle of its hello, or sends nothing', async () => {
  const { a, listener } = await setup({ timeoutMs: 50 });
  const errors: Error[] = [];
  listener.on('clientError', (error) => errors.push(error));
  const half = tcp(listener.port, '127.0.0.1');
  half.end(Buffer.from([0, 0, 1, 0, 1, 2, 3]));
  const silent = tcp(listener.port, '127.0.0.1');
  while (errors.length < 2) await delay(5);
  expect(errors[0]).toBeInstanceOf(ConnectionError);
  expect(errors[0].message).toContain('middle of a message');
  expect(errors[1].message).toContain('within 50 ms');
  half.destroy();
  silent.destroy();
  await expectService(listener.port, a);
});

test('a peer whose socket is cut off causes ERR and a ConnectionError', async () => {
  const { a, listener } = await setup();
  const b = end();
  const accepted = once(listener, 'connection') as Promise<[Connection]>;
  const connection = await connect(b.context, { port: listener.port, ...b.options });
  const [peer] = await accepted;
  const gone = once(peer, 'close');
  // The kernel does the same for a process that was killed: the socket ends without a message.
  (
    connection as unknown as { channel: { wire: { socket: { resetAndDestroy(): void } } } }
  ).channel.wire.socket.resetAndDestroy();
  expect((await gone)[0]).toBeInstanceOf(ConnectionError);
  expect(peer.qp.state).toBe('ERR');
  b.context.close();
  a.context.close();
});

test('connect() without a listener and listen() on a taken port throw ConnectionErrors', async () => {
  const { a, listener } = await setup();
  const { port } = listener;
  await expect(listen(a.context, { port, ...a.options })).rejects.toThrow(ConnectionError);
  listener.close();
  await delay(5);
  await expect(connect(a.context, { port, ...a.options })).rejects.toThrow('ECONNREFUSED');
  a.context.close();
});

function frame(message: object | string): Buffer {
  const body = Buffer.from(
    typeof message === 'string' ? message : JSON.stringify({ isoverbs: 1, ...message }),
  );
  const prefix = Buffer.alloc(4);
  prefix.writeUInt32BE(body.length);
  return Buffer.concat([prefix, body]);
}

/** The first frame of a caller that speaks our protocol. */
function hello(): Buffer {
  const { context, options } = end();
  const endpoint = options.pd.createQp({ sendCq: options.sendCq }).endpoint();
  context.close();
  return frame({ type: 'hello', qpType: 'RC', ...endpoint, initiatorDepth: 1, responderResources: 1 });
}

test('the listener disconnects a caller that never disconnects', async () => {
  const { a, listener } = await setup();
  const failed = once(listener, 'clientError');
  const socket = tcp({ port: listener.port, host: '127.0.0.1', allowHalfOpen: true });
  const over = new Promise((resolve) => socket.on('close', resolve));
  socket.on('error', () => {});
  socket.resume();
  socket.write(frame('garbage'));
  await failed;
  // The listener ignores whatever the caller sends after that.
  const talk = setInterval(() => socket.write(Buffer.alloc(1000)), 20);
  await over;
  clearInterval(talk);
  await expectService(listener.port, a);
});

test('the listener reports a connection and then its end if the caller sends all frames at once', async () => {
  const { a, listener } = await setup();
  const heard: string[] = [];
  const over = new Promise<void>((resolve) => {
    listener.on('connection', (connection) => {
      heard.push('connection');
      connection.on('close', () => {
        heard.push('close');
        connection.close();
        resolve();
      });
    });
  });
  const socket = tcp(listener.port, '127.0.0.1');
  socket.write(Buffer.concat([hello(), frame({ type: 'ready' }), frame({ type: 'bye' })]));
  await over;
  expect(heard).toEqual(['connection', 'close']);
  socket.destroy();
  await expectService(listener.port, a);
});

test('a caller that floods the handshake is disconnected', async () => {
  let release = () => {};
  const prepare = () => new Promise<void>((resolve) => (release = resolve));
  const { a, listener } = await setup({ prepare });
  const failed = once(listener, 'clientError');
  const socket = tcp(listener.port, '127.0.0.1');
  const over = new Promise((resolve) => socket.on('close', resolve));
  socket.on('error', () => {});
  socket.resume();
  socket.write(hello());
  for (let i = 0; i < 100; i++) socket.write(frame({ type: 'ready' }));
  await over;
  release();
  const [error] = await failed;
  expect(error.message).toContain('without waiting');
  a.context.close();
});
