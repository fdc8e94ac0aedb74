/** The exchange of connection data over TCP; runs without any device. */
import { connect as netConnect, type Socket } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { MAX_FRAME_BYTES, tcpRendezvous } from '../../src/providers/rdma-core/rendezvous.ts';
import {
  ConnectionError,
  HandshakeError,
  InvalidArgumentError,
  type Wire,
  type WireServer,
} from '../../src/verbs/index.ts';

describe('TCP rendezvous', () => {
  let server: WireServer;
  const sockets: Socket[] = [];
  afterEach(() => {
    server?.close();
    for (const socket of sockets.splice(0)) socket.destroy();
  });

  /** Listens; `first` is the first wire to connect. */
  async function accepted(): Promise<{ first: Promise<Wire> }> {
    let accept: (wire: Wire) => void = () => {};
    const first = new Promise<Wire>((resolve) => {
      accept = resolve;
    });
    server = await tcpRendezvous.listen(0, { port: 0, host: '127.0.0.1' }, (wire) => accept(wire));
    return { first };
  }

  function raw(): Promise<Socket> {
    return new Promise((resolve) => {
      const socket = netConnect({ port: server.port, host: '127.0.0.1' }, () => resolve(socket));
      socket.on('error', () => {});
      sockets.push(socket);
    });
  }

  const closeOf = (wire: Wire) =>
    new Promise<Error | undefined>((resolve) => {
      wire.onClose = resolve;
    });

  const messages = (wire: Wire, count: number) =>
    new Promise<Uint8Array[]>((resolve) => {
      const got: Uint8Array[] = [];
      wire.onMessage = (message) => {
        got.push(message);
        if (got.length === count) resolve(got);
      };
    });

  test('messages of all sizes arrive whole and in order, both ways', async () => {
    const { first } = await accepted();
    const client = await tcpRendezvous.connect(0, { port: server.port, host: '127.0.0.1' });
    const ours = await first;
    const sizes = [0, 1, 5, MAX_FRAME_BYTES, 3];
    for (const size of sizes) client.send(new Uint8Array(size).fill(size & 255));
    const got = await messages(ours, sizes.length);
    expect(got.map((message) => message.length)).toEqual(sizes);
    expect(got[2]).toEqual(new Uint8Array(5).fill(5));
    ours.send(new Uint8Array([1, 2]));
    expect(await messages(client, 1)).toEqual([new Uint8Array([1, 2])]);
    expect(() => client.send(new Uint8Array(MAX_FRAME_BYTES + 1))).toThrow(InvalidArgumentError);
    const closed = closeOf(ours);
    client.close();
    client.send(new Uint8Array(1));
    expect(await closed).toBeUndefined();
  });

  test('garbage is a HandshakeError', async () => {
    const { first } = await accepted();
    const socket = await raw();
    socket.write('GET / HTTP/1.1\r\n\r\n');
    expect(await closeOf(await first)).toBeInstanceOf(HandshakeError);
  });

  test('frames in pieces are reassembled', async () => {
    const { first } = await accepted();
    const socket = await raw();
    const wire = await first;
    const got = messages(wire, 2);
    for (const byte of [0, 0, 0, 2, 7, 8, 0, 0, 0, 1, 9]) {
      socket.write(Uint8Array.of(byte));
      await new Promise((resolve) => setTimeout(resolve, 2));
    }
    expect(await got).toEqual([Uint8Array.of(7, 8), Uint8Array.of(9)]);
  });

  test('a peer that disconnects', async () => {
    const { first } = await accepted();
    const socket = await raw();
    socket.write(Uint8Array.of(0, 0, 0, 9, 1));
    socket.end();
    expect(await closeOf(await first)).toBeInstanceOf(ConnectionError);

    const again = await accepted();
    const other = await raw();
    const closed = closeOf(await again.first);
    other.resetAndDestroy();
    expect(await closed).toBeInstanceOf(ConnectionError);
  });

  test('a closed port, an invalid port and a port in use are typed errors', async () => {
    await accepted();
    const { port } = server;
    await expect(tcpRendezvous.listen(0, { port, host: '127.0.0.1' }, () => {})).rejects.toThrow(
      ConnectionError,
    );
    server.close();
    await expect(tcpRendezvous.connect(0, { port, host: '127.0.0.1' })).rejects.toThrow(ConnectionError);
    await expect(tcpRendezvous.connect(0, { port: 70000 })).rejects.toThrow(InvalidArgumentError);
    await expect(tcpRendezvous.listen(0, { port: -1 }, () => {})).rejects.toThrow(InvalidArgumentError);
  });
});
