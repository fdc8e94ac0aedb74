// The API of `isoverbs/rdma-cm`, on simulated and on real devices.
import { once } from 'node:events';
import { expect } from 'vitest';
import { expectSuccess } from '../../src/objects/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import {
  type CmAcceptOptions,
  type CmConnection,
  type CmConnectionOptions,
  CmError,
  type ConnectRequest,
  connect,
  createDatagramServer,
  createServer,
  joinMulticast,
  resolveDatagram,
  type Server,
} from '../../src/rdma-cm.ts';
import * as V from '../../src/verbs/index.ts';
import { addressOf } from './cm-rig.ts';
import { feature, type Ground } from './ground.ts';

const NOTES = { group: 'rdmacm', others: 'librdmacm and the rdma_ucm module' };

/** The addresses of servers and clients on a ground. Simulated time must advance automatically here. */
interface Town {
  provider: V.Provider;
  host: string;
  localAddress: string;
}

function townOf(ground: Ground): Town {
  if (ground.fabric !== null) {
    return { provider: createFabric({ hosts: 2 }).provider, host: 'sim0', localAddress: 'sim1' };
  }
  return { provider: ground.provider, host: addressOf(ground, 0), localAddress: addressOf(ground, 1) };
}

async function serverIn(
  town: Town,
  options: CmAcceptOptions = {},
): Promise<{ server: Server; port: number }> {
  const server = createServer({ provider: town.provider, ...options });
  server.listen({ host: town.host });
  await once(server, 'listening');
  return { server, port: server.address()?.port as number };
}

/** Posts one receive of `bytes` as early as possible; the data is read from its memory. */
function receiver(bytes = 64) {
  const inboxes = new Map<CmConnection, Uint8Array>();
  const prepare = (connection: CmConnection) => {
    const mr = connection.pd.allocate(bytes);
    inboxes.set(connection, mr.bytes);
    connection.qp.receive({ sgList: [{ mr }] });
  };
  const received = async (connection: CmConnection): Promise<string> => {
    for await (const completion of connection.cq) {
      const { isRecv, byteLen } = expectSuccess(completion);
      const inbox = inboxes.get(connection) as Uint8Array;
      if (isRecv) return Buffer.from(inbox.subarray(0, byteLen)).toString();
    }
    throw new Error('the queue was closed');
  };
  return { prepare, received };
}

function send(connection: CmConnection, text: string): void {
  const mr = connection.pd.allocate(64);
  mr.bytes.set(Buffer.from(text));
  connection.qp.post({ opcode: 'SEND', sgList: [{ mr, length: text.length }] });
}

async function pairIn(town: Town, options: CmConnectionOptions = {}, serverOptions: CmAcceptOptions = {}) {
  const { server, port } = await serverIn(town, serverOptions);
  const accepted = once(server, 'connection') as Promise<[CmConnection]>;
  const client = await connect({ ...town, port, ...options });
  const [peer] = await accepted;
  return { server, port, client, peer };
}

/** Posts more READs at once than either end may have in flight, and awaits them. */
async function readMany(from: CmConnection, of: CmConnection): Promise<void> {
  const source = of.pd.allocate(64, { access: { remoteRead: true } });
  const mr = from.pd.allocate(64);
  const remote = { addr: source.addr, rkey: source.rkey };
  for (let i = 0; i < 8; i++) from.qp.post({ opcode: 'RDMA_READ', sgList: [{ mr }], remote });
  for (let i = 0; i < 8; i++) expectSuccess(await from.cq.next());
}

async function closed(server: Server, ...connections: CmConnection[]): Promise<void> {
  const done = once(server, 'close');
  server.close();
  for (const connection of connections) connection.close();
  await done;
}

feature('isoverbs/rdma-cm: connections', NOTES, (it) => {
  it('an echo server returns the data', async (ground) => {
    const town = townOf(ground);
    const mine = receiver();
    const theirs = receiver();
    const { server, port } = await serverIn(town, { prepare: theirs.prepare });
    const echoed = once(server, 'connection').then(async ([peer]) => {
      send(peer, await theirs.received(peer));
      return peer;
    });
    const client = await connect({ ...town, port, prepare: mine.prepare });
    send(client, 'over and back');
    expect(await mine.received(client)).toBe('over and back');
    await closed(server, client, await echoed);
  });

  it('both ends expose both addresses, their devices and the private data', async (ground) => {
    const town = townOf(ground);
    const { server, port } = await serverIn(town, { privateData: 'welcome' });
    const accepted = once(server, 'connection') as Promise<[CmConnection]>;
    const client = await connect({ ...town, port, privateData: new Uint8Array([1, 2, 0]) });
    const [peer] = await accepted;
    expect(client.privateText).toBe('welcome');
    expect([...peer.privateData.subarray(0, 4)]).toEqual([1, 2, 0, 0]);
    expect(client.remotePort).toBe(port);
    expect([peer.remoteAddress, peer.remotePort]).toEqual([client.localAddress, client.localPort]);
    expect(peer.localAddress).toBe(client.remoteAddress);
    expect(client.remoteParam?.qpNum).toBe(peer.qp.qpNum);
    expect([client.qp.state, peer.qp.state]).toEqual(['RTS', 'RTS']);
    expect(client.connected && peer.connected).toBe(true);
    await closed(server, client, peer);
  });

  it('a request can be inspected, accepted with options, or rejected with data', async (ground) => {
    const town = townOf(ground);
    const { server, port } = await serverIn(town);
    const connections: Promise<CmConnection>[] = [];
    server.on('connectRequest', (request: ConnectRequest) => {
      if (request.privateText === 'open sesame') connections.push(request.accept({ privateData: 'come in' }));
      else request.reject(`not '${request.privateText}'`);
      expect(() => request.reject()).toThrow(/already answered/);
    });
    const refused = await connect({ ...town, port, privateData: 'hello' }).catch((error) => error);
    expect(refused).toBeInstanceOf(CmError);
    expect(refused).toMatchObject({ code: 'ISO_ERR_CONNECTION', event: 'REJECTED', status: 28 });
    expect(refused.privateText).toBe("not 'hello'");
    const client = await connect({ ...town, port, privateData: 'open sesame' });
    expect(client.privateText).toBe('come in');
    await closed(server, client, ...(await Promise.all(connections)));
  });

  it('connecting without a listener fails with the reason', async (ground) => {
    const town = townOf(ground);
    const { server, port } = await serverIn(town);
    await closed(server);
    // User-space devices answer while a program has them open.
    const { server: another } = await serverIn(town);
    await expect(connect({ ...town, port })).rejects.toMatchObject({
      code: 'ISO_ERR_CONNECTION',
      status: 8,
      reason: 'no server listens on that port',
    });
    await closed(another);
  });

  it('disconnect() resolves, notifies the peer and flushes posted requests', async (ground) => {
    const { prepare } = receiver();
    const { server, client, peer } = await pairIn(townOf(ground), {}, { prepare });
    const told = once(peer, 'disconnect');
    const here = once(client, 'disconnect');
    await client.disconnect();
    expect(await told).toEqual([undefined]);
    await here;
    expect(V.wcStatusName((await peer.cq.next()).status)).toBe('WR_FLUSH_ERR');
    expect([client.qp.state, peer.qp.state]).toEqual(['ERR', 'ERR']);
    await peer.disconnect();
    await closed(server, client, peer);
  });

  it('closing one end disconnects the other', async (ground) => {
    const { server, client, peer } = await pairIn(townOf(ground));
    const told = once(peer, 'disconnect');
    client.close();
    await told;
    expect(client.closed && client.qp.closed).toBe(true);
    await closed(server, peer);
  });

  it('both ends may disconnect at once, and twice', async (ground) => {
    const { server, client, peer } = await pairIn(townOf(ground));
    await Promise.all([client.disconnect(), peer.disconnect(), client.disconnect()]);
    await closed(server, client, peer);
  });

  it('the application may supply its own queue pair and objects', async (ground) => {
    const town = townOf(ground);
    const { server, port } = await serverIn(town, {
      cap: { maxSendWr: 3, maxRecvWr: 5 },
      createQp: ({ pd, sendCq }) => pd.createQp({ sendCq, sqSigAll: true }),
    });
    const accepted = once(server, 'connection') as Promise<[CmConnection]>;
    const first = await connect({ ...town, port });
    const [peer] = await accepted;
    expect(peer.qp.query().init.sqSigAll).toBe(true);
    const again = once(server, 'connection') as Promise<[CmConnection]>;
    const second = await connect({ ...town, port, pd: first.pd, sendCq: first.cq });
    expect(second.context).toBe(first.context);
    const [other] = await again;
    second.close();
    expect(first.pd.closed).toBe(false);
    await closed(server, first, peer, other);
  });

  it('each end keeps to the number of READs in flight that either end allows', async (ground) => {
    // Powers of two, because soft-RoCE rounds up to them.
    const options = { initiatorDepth: 2, responderResources: 4 };
    for (const [ofClient, ofServer] of [
      [{}, options],
      [options, {}],
    ]) {
      const { server, client, peer } = await pairIn(townOf(ground), ofClient, ofServer);
      const [limited, other] = ofClient === options ? [client, peer] : [peer, client];
      expect(limited.qp.query().attr).toMatchObject({ maxRdAtomic: 2, maxDestRdAtomic: 4 });
      expect(other.qp.query().attr.maxRdAtomic).toBe(4);
      await readMany(client, peer);
      await readMany(peer, client);
      await closed(server, client, peer);
    }
  });

  it('a server is an async iterable of its connections', async (ground) => {
    const town = townOf(ground);
    const { server, port } = await serverIn(town);
    const seen: string[] = [];
    const serving = (async () => {
      for await (const connection of server) {
        seen.push(connection.privateText);
        connection.close();
        if (seen.length === 3) server.close();
      }
    })();
    for (const name of ['a', 'b', 'c']) {
      const client = await connect({ ...town, port, privateData: name });
      client.close();
    }
    await serving;
    expect(seen).toEqual(['a', 'b', 'c']);
  });

  it('a port in use is an error', async (ground) => {
    const town = townOf(ground);
    const { server, port } = await serverIn(town);
    const second = createServer({ provider: town.provider }).listen({ host: town.host, port });
    const [error] = await once(second, 'listening').catch((reason) => [reason]);
    expect(error).toMatchObject({ code: 'ISO_ERR_CONNECTION', errno: V.EADDRINUSE });
    await closed(server);
  });

  it('closing in any order never hangs', async (ground) => {
    const town = townOf(ground);
    for (const order of [0, 1, 2, 3]) {
      const { server, client, peer } = await pairIn(town);
      const ended = once(server, 'close');
      const steps = [
        () => server.close(),
        () => client.context.close(),
        () => peer.qp.close(),
        () => server.closeAllConnections(),
      ];
      for (let i = 0; i < steps.length; i++) steps[(i + order) % steps.length]();
      await ended;
      expect([client.closed, peer.closed]).toEqual([true, true]);
      client.close();
      await client.disconnect();
      peer.close();
      server.close();
    }
  });

  it('an attempt can be cancelled, and fails if prepare() fails', async (ground) => {
    const town = townOf(ground);
    const { server, port } = await serverIn(town);
    const gone = AbortSignal.abort(new Error('never mind'));
    await expect(connect({ ...town, port, signal: gone })).rejects.toThrow('never mind');
    const later = new AbortController();
    const prepare = () => later.abort(new Error('too late'));
    await expect(connect({ ...town, port, signal: later.signal, prepare })).rejects.toThrow('too late');
    const broken = () => Promise.reject(new Error('mine'));
    await expect(connect({ ...town, port, prepare: broken })).rejects.toThrow('mine');
    // The server does not answer in time: the attempt fails with a timeout, and its request is withdrawn.
    server.on('connectRequest', () => {});
    await expect(connect({ ...town, port, timeoutMs: 50 })).rejects.toThrow(/no answer within 50 ms/);
    await closed(server);
  });
});

feature('isoverbs/rdma-cm: datagrams', NOTES, (it) => {
  it('a peer is resolved and receives UD messages', async (ground) => {
    const town = townOf(ground);
    let inbox: Uint8Array | undefined;
    const server = createDatagramServer({
      provider: town.provider,
      privateData: 'here',
      prepare: (end) => {
        const mr = end.pd.allocate(40 + 64);
        inbox = mr.bytes;
        end.qp.receive({ sgList: [{ mr }] });
      },
    });
    server.listen({ host: town.host });
    await once(server, 'listening');
    const asked = once(server, 'request');
    const port = server.address()?.port as number;
    const peer = await resolveDatagram({ ...town, port, privateData: 'where are you' });
    expect((await asked)[0].privateText).toBe('where are you');
    expect(peer.privateText).toBe('here');
    expect(peer.remote).toMatchObject({ qpNum: server.ends[0].qp.qpNum, qkey: V.RDMA_UDP_QKEY });
    sendDatagram(peer, 'a datagram');
    expect(expectSuccess(await server.ends[0].cq.next())).toMatchObject({ byteLen: 40 + 10 });
    expect(Buffer.from(inbox?.subarray(40, 50) ?? []).toString()).toBe('a datagram');
    peer.close();
    await server[Symbol.asyncDispose]();
  });

  it('without a listener no peer is resolved', async (ground) => {
    const town = townOf(ground);
    const { server, port } = await serverIn(town);
    const lost = resolveDatagram({ ...town, port });
    await expect(lost).rejects.toMatchObject({
      event: 'UNREACHABLE',
      reason: 'no server listens on that port',
    });
    await closed(server);
  });

  it('members of a group receive its UD messages', async (ground) => {
    const town = townOf(ground);
    const { provider } = town;
    let inbox: Uint8Array | undefined;
    const member = await joinMulticast('239.7.4.71', {
      provider,
      localAddress: town.host,
      prepare: (end) => {
        const mr = end.pd.allocate(40 + 64);
        inbox = mr.bytes;
        end.qp.receive({ sgList: [{ mr }] });
      },
    });
    expect(member.remote).toMatchObject({ qpNum: 0xffffff, qkey: V.RDMA_UDP_QKEY });
    const sender = await joinMulticast('239.7.4.71', { provider, localAddress: town.localAddress });
    sendDatagram(sender, 'to all');
    expect(expectSuccess(await member.cq.next())).toMatchObject({ isRecv: true, byteLen: 40 + 6 });
    expect(Buffer.from(inbox?.subarray(40, 46) ?? []).toString()).toBe('to all');
    member.close();
    sender.close();
  });

  it('an invalid group is rejected', async (ground) => {
    const { provider, localAddress } = townOf(ground);
    if (provider.cm === null) throw new V.UnsupportedError(provider.cmError ?? '');
    for (const group of ['sim.example', '10.0.0.1', '::1', '::ffff:10.0.0.1', '239.300.1.1', '', 7 as never])
      await expect(joinMulticast(group, { provider, localAddress })).rejects.toMatchObject({
        code: 'ISO_ERR_ARGUMENT',
        message: expect.stringMatching(/^joinMulticast: the group must be a multicast address .*, got /),
      });
  });
});

/** Sends one datagram with the flat verbs to the `remote` of an end. */
function sendDatagram(
  end: Awaited<ReturnType<typeof resolveDatagram>> | Awaited<ReturnType<typeof joinMulticast>>,
  text: string,
): void {
  const { provider, handle } = end.qp;
  const ah = provider.createAh(end.pd.handle, end.remote.ah);
  const mr = end.pd.allocate(64);
  mr.bytes.set(Buffer.from(text));
  const batch = new V.SendBatch(provider, { capacity: 1 });
  batch.send(1, V.IBV_SEND_SIGNALED, mr.addr, text.length, mr.lkey);
  batch.datagramTo(0, ah, end.remote.qpNum, end.remote.qkey);
  expect(provider.postSend(handle, batch.ring, 0, 1)).toBe(1);
  batch.close();
  end.once('close', () => {});
  end.qp.onClose(() => provider.destroyAh(ah));
}
