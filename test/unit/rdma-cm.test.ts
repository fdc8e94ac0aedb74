// isoverbs/rdma-cm on a fabric: cases that a real device cannot produce on demand, and leaks.
import { once } from 'node:events';
import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { createFabric, type Fabric } from '../../src/providers/sim/index.ts';
import {
  type CmAcceptOptions,
  type CmConnection,
  CmError,
  type ConnectRequest,
  connect,
  createDatagramServer,
  createServer,
  joinMulticast,
  resolveDatagram,
} from '../../src/rdma-cm.ts';
import {
  type CmEvent,
  EADDRINUSE,
  ETIMEDOUT,
  type Provider,
  RDMA_CM_EVENT_ADDR_ERROR,
  RDMA_CM_EVENT_REJECTED,
  RDMA_CM_EVENT_UNREACHABLE,
  RDMA_PS_TCP,
  RDMA_PS_UDP,
} from '../../src/verbs/index.ts';

async function listening(fabric: Fabric, options: CmAcceptOptions = {}) {
  const { provider } = fabric;
  const server = createServer({ provider, ...options }).listen({ host: 'sim0' });
  await once(server, 'listening');
  return { server, call: { provider, host: 'sim0', port: server.address()?.port as number } };
}

async function connected(fabric: Fabric) {
  const { server, call } = await listening(fabric);
  const accepted = once(server, 'connection') as Promise<[CmConnection]>;
  const client = await connect(call);
  const [peer] = await accepted;
  return { server, client, peer };
}

test('a caller without a local address calls from another host', async () => {
  const fabric = createFabric({ hosts: 3 });
  const { server, client, peer } = await connected(fabric);
  expect([client.context.name, peer.context.name]).toEqual(['sim1', 'sim0']);
  client.close();
  await server[Symbol.asyncDispose]();
  expect(fabric.tenants()).toEqual([]);
});

test("when a host is killed the peer's connection ends with an error", async () => {
  const fabric = createFabric();
  const { server, client } = await connected(fabric);
  const goodbye = client.disconnect.bind(client);
  fabric.fault({ kill: 'sim0' });
  const [error] = await once(client, 'disconnect');
  expect(error).toBeInstanceOf(CmError);
  expect(error).toMatchObject({ code: 'ISO_ERR_CONNECTION', event: 'DISCONNECTED', status: -ETIMEDOUT });
  expect(client.qp.state).toBe('ERR');
  await goodbye();
  client.close();
  await server[Symbol.asyncDispose]();
});

test('a call finds no host that died earlier, and times out on a host whose link fails', async () => {
  const fabric = createFabric({ hosts: 3 });
  const { server, call } = await listening(fabric);
  const cut = { ...call, prepare: () => fabric.fault({ linkDown: 'sim0' }) };
  await expect(connect(cut)).rejects.toMatchObject({ event: 'UNREACHABLE', status: -ETIMEDOUT });
  fabric.fault({ kill: 'sim0' });
  await expect(connect(call)).rejects.toMatchObject({ event: 'ADDR_ERROR', status: -ETIMEDOUT });
  await server[Symbol.asyncDispose]();
  expect(fabric.tenants()).toEqual([]);
});

test('a request that the server did not answer is rejected when the server closes', async () => {
  const fabric = createFabric();
  const { server, call } = await listening(fabric);
  server.on('connectRequest', (request: ConnectRequest) => {
    server.close();
    expect(() => request.reject()).toThrow(/closed before the request was answered/);
  });
  await expect(connect(call)).rejects.toMatchObject({ event: 'REJECTED', status: 28 });
});

test('accepting a caller that has left fails, and the server keeps running', async () => {
  const fabric = createFabric();
  const { server, call } = await listening(fabric);
  const asked = once(server, 'connectRequest') as Promise<[ConnectRequest]>;
  const giveUp = new AbortController();
  const attempt = connect({ ...call, signal: giveUp.signal });
  const [request] = await asked;
  giveUp.abort(new Error('no patience'));
  await expect(attempt).rejects.toThrow('no patience');
  await fabric.run();
  await expect(request.accept()).rejects.toMatchObject({ event: 'REJECTED', status: 4 });
  server.removeAllListeners('connectRequest');
  const client = await connect(call);
  client.close();
  await server[Symbol.asyncDispose]();
  expect(fabric.tenants()).toEqual([]);
});

test("a server's failing prepare() rejects the caller and emits clientError", async () => {
  const fabric = createFabric();
  const { server, call } = await listening(fabric, {
    prepare: () => {
      throw new Error('no memory today');
    },
  });
  const failed = once(server, 'clientError');
  await expect(connect(call)).rejects.toMatchObject({ event: 'REJECTED', status: 28 });
  const [error, from] = await failed;
  expect(error.message).toBe('no memory today');
  expect(from).toMatchObject({ remoteAddress: '10.0.0.2' });
  await server[Symbol.asyncDispose]();
  expect(fabric.tenants()).toEqual([]);
});

test('a client that asks for more READs than devices support gets as many as they support', async () => {
  const fabric = createFabric();
  const { server, call } = await listening(fabric);
  const accepted = once(server, 'connection') as Promise<[CmConnection]>;
  const client = await connect({ ...call, initiatorDepth: 128, responderResources: 255 });
  const [peer] = await accepted;
  for (const { qp } of [client, peer]) {
    expect(qp.query().attr).toMatchObject({ maxRdAtomic: 16, maxDestRdAtomic: 16 });
  }
  client.close();
  await server[Symbol.asyncDispose]();
});

test('wrong arguments are rejected by type, and leave nothing behind', async () => {
  const fabric = createFabric();
  const { server, call } = await listening(fabric);
  const code = (name: string) => expect.objectContaining({ code: `ISO_ERR_${name}` });
  await expect(connect({ ...call, port: 70000 })).rejects.toEqual(code('ARGUMENT'));
  await expect(connect({ ...call, port: undefined as unknown as number })).rejects.toEqual(code('ARGUMENT'));
  await expect(connect({ ...call, host: 'nowhere' })).rejects.toEqual(code('CONNECTION'));
  await expect(connect({ ...call, privateData: 'x'.repeat(57) })).rejects.toEqual(code('ARGUMENT'));
  await expect(connect({ ...call, privateData: 5 as unknown as string })).rejects.toEqual(code('ARGUMENT'));
  await expect(connect({ ...call, initiatorDepth: 1000 })).rejects.toEqual(code('ARGUMENT'));
  await expect(connect({ ...call, pd: {} as never })).rejects.toEqual(code('HANDLE'));
  await expect(connect({ ...call, sendCq: 7 as never })).rejects.toEqual(code('HANDLE'));
  await expect(connect({ ...call, cap: { maxSendWr: -1 } })).rejects.toMatchObject({ name: /Error$/ });
  const none = { ...fabric.provider, cm: null, cmError: 'not today' } as Provider;
  await expect(connect({ ...call, provider: none })).rejects.toEqual(code('UNSUPPORTED'));
  await expect(joinMulticast('10.0.0.1', { provider: fabric.provider })).rejects.toEqual(code('ARGUMENT'));
  expect(() => server.listen()).toThrow(/already started/);
  const [error] = await once(createServer({ provider: fabric.provider }).listen(-1), 'error');
  expect(error).toEqual(code('ARGUMENT'));
  const [noHost] = await once(createServer({ provider: none }).listen(), 'error');
  expect(noHost).toEqual(code('UNSUPPORTED'));
  await server[Symbol.asyncDispose]();
  expect(fabric.tenants()).toEqual([]);
});

test('objects of a device other than the one behind the address are refused', async () => {
  const fabric = createFabric({ hosts: 3 });
  const { server, client } = await connected(fabric);
  const call = { provider: fabric.provider, host: 'sim0', port: client.remotePort };
  await expect(connect({ ...call, localAddress: 'sim2', pd: client.pd })).rejects.toThrow(
    /belong to sim1, but the address resolves to sim2/,
  );
  const ud = {
    createQp: ({ pd, sendCq }: { pd: typeof client.pd; sendCq: typeof client.cq }) =>
      pd.createQp({ sendCq, type: 'UD' as const }),
  };
  await expect(connect({ ...call, ...ud })).rejects.toThrow(/must be RC.*is UD/);
  client.close();
  await server[Symbol.asyncDispose]();
});

test('policies wrap the devices that a connection opens', async () => {
  const { provider } = createFabric();
  const server = createServer({ provider, policy: 'perf' }).listen({ port: 7 });
  await once(server, 'listening');
  const accepted = once(server, 'connection') as Promise<[CmConnection]>;
  const client = await connect({ provider, host: 'sim0', port: 7, policy: 'perf', tenant: 'me' });
  const [peer] = await accepted;
  for (const { qp } of [client, peer]) expect(qp.provider.interceptors).toEqual(['perf']);
  expect(client.context.tenant).toBe('me');
  client.close();
  await server[Symbol.asyncDispose]();
});

test('a server on all devices accepts calls on each of them, with one context per device', async () => {
  const fabric = createFabric({ hosts: 3 });
  const { provider } = fabric;
  const server = createServer({ provider }).listen(7);
  await once(server, 'listening');
  const contexts = new Set<string>();
  server.on('connection', (connection) =>
    contexts.add(`${connection.context.name} ${connection.context.handle}`),
  );
  const clients = [];
  for (const host of ['sim0', 'sim1', 'sim2', 'sim1', 'localhost']) {
    clients.push(await connect({ provider, host, port: 7 }));
  }
  await fabric.run();
  expect([...contexts].map((text) => text.slice(0, 4)).sort()).toEqual(['sim0', 'sim1', 'sim2']);
  for (const client of clients) client.close();
  await server[Symbol.asyncDispose]();
  expect(fabric.tenants()).toEqual([]);
});

test('many rounds of connect and close leave nothing behind', async () => {
  const fabric = createFabric();
  for (let round = 0; round < 100; round++) {
    const { server, client, peer } = await connected(fabric);
    if (round % 3 === 0) await client.disconnect();
    if (round % 3 === 1) peer.close();
    client.close();
    await server[Symbol.asyncDispose]();
  }
  await fabric.run();
  expect(fabric.tenants()).toEqual([]);
  // The event channel closes with its last identifier, so the first handles are reused.
  const { cm } = fabric.provider;
  const channel = cm?.createEventChannel() as number;
  expect(() => cm?.destroyEventChannel(channel)).not.toThrow();
});

test('a datagram server on all devices creates its queue pairs on demand', async () => {
  const fabric = createFabric();
  const server = createDatagramServer({ provider: fabric.provider }).listen();
  await once(server, 'listening');
  expect(server.ends).toEqual([]);
  const closed = once(server, 'close');
  server.close();
  await closed;
  expect(server.address()).toBeNull();
  expect(fabric.tenants()).toEqual([]);
});

test('closing a connection during its setup ends the attempt at once, on both sides', async () => {
  const fabric = createFabric();
  const later = (connection: CmConnection) =>
    void fabric.provider.sleep(connection.context.handle, 0).then(() => connection.close());
  const { server, call } = await listening(fabric, { prepare: later });
  const failed = once(server, 'clientError');
  // The caller already has the answer; the server is informed that the connection failed.
  const caller = await connect(call).catch(() => null);
  expect((await failed)[0]).toMatchObject({ code: 'ISO_ERR_CONNECTION' });
  caller?.close();
  await server[Symbol.asyncDispose]();

  const silent = await listening(fabric);
  silent.server.on('connectRequest', () => {});
  const what = {
    code: 'ISO_ERR_CONNECTION',
    message: expect.stringMatching(/closed before the connection was established/),
  };
  await expect(connect({ ...silent.call, prepare: later })).rejects.toMatchObject(what);
  const leaves = (connection: CmConnection) => connection.disconnect();
  await expect(connect({ ...silent.call, prepare: leaves })).rejects.toMatchObject(what);
  await silent.server[Symbol.asyncDispose]();
  expect(fabric.tenants()).toEqual([]);
});

test('options of the wrong type are rejected by name, and nothing is thrown later', async () => {
  const { provider } = createFabric();
  const refused = { code: 'ISO_ERR_ARGUMENT' };
  for (const options of [null, 'port', 7]) {
    const bad = options as never;
    await expect(connect(bad)).rejects.toMatchObject(refused);
    expect(() => createServer(bad)).toThrow(expect.objectContaining(refused));
    if (options !== 7)
      expect(() => createServer({ provider }).listen(bad)).toThrow(expect.objectContaining(refused));
  }
  const call = { provider, host: 'sim0', port: 1 };
  for (const wrong of [
    { timeoutMs: 'x' },
    { localPort: -1 },
    { signal: {} },
    { createQp: 4 },
    { prepare: 4 },
  ]) {
    const options = { ...call, ...wrong } as never;
    const name = Object.keys(wrong)[0];
    await expect(connect(options)).rejects.toThrow(
      expect.objectContaining({ ...refused, message: expect.stringContaining(name) }),
    );
  }
});

test('the queue pair of a multicast member may be closed directly', async () => {
  const fabric = createFabric();
  const { provider } = fabric;
  const member = await joinMulticast('239.1.2.3', { provider, localAddress: 'sim0' });
  member.qp.close();
  expect(member.closed).toBe(true);
  expect(fabric.tenants()).toEqual([]);
});

test("an error thrown by a datagram server's request listener is uncaught, as from any listener", async () => {
  const { provider } = createFabric();
  const server = createDatagramServer({ provider }, () => {
    throw new Error('mine');
  });
  server.on('clientError', (error) => expect(error).toBeUndefined());
  server.listen({ host: 'sim0' });
  await once(server, 'listening');
  const uncaught = process.listeners('uncaughtException');
  process.removeAllListeners('uncaughtException');
  const thrown = once(process, 'uncaughtException');
  const peer = await resolveDatagram({ provider, host: 'sim0', port: server.address()?.port as number });
  expect((await thrown)[0]).toMatchObject({ message: 'mine' });
  for (const listener of uncaught) process.on('uncaughtException', listener);
  peer.close();
  await server[Symbol.asyncDispose]();
});

test('an address that another process uses is an error that names the way out', () => {
  const event = { event: RDMA_CM_EVENT_ADDR_ERROR, status: -EADDRINUSE } as CmEvent;
  const { message } = new CmError('cannot reach 239.1.2.3:0', event, RDMA_PS_UDP, 'soft');
  expect(message).toMatch(/another process uses the address.*`localAddress: 'localhost'`/);
});

test('an error prints the private data of a rejection only if there is any', () => {
  const rejected = (privateData: Uint8Array) => {
    const event = { event: RDMA_CM_EVENT_REJECTED, status: 28, privateData } as CmEvent;
    const error = new CmError('cannot reach sim0:1', event, RDMA_PS_TCP, 'sim');
    expect(error.privateData).toBe(privateData);
    return inspect(error);
  };
  for (const none of [new Uint8Array(), new Uint8Array(148)]) {
    expect(rejected(none)).not.toContain('privateData');
    expect(rejected(none)).toContain("reason: 'the server rejected the request'");
  }
  expect(rejected(Uint8Array.of(98, 117, 115, 121, 0))).toContain('privateData');
});

test('on user-space devices, errors without a server or a device name what to check', () => {
  const failure = (event: number, status: number) =>
    new CmError('cannot connect to 127.0.0.1:1', { event, status } as CmEvent, RDMA_PS_TCP, 'soft').message;
  expect(failure(RDMA_CM_EVENT_REJECTED, 8)).toMatch(/no server listens.*127\.0\.0\.2/);
  expect(failure(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT)).toMatch(/no program has the device.*UDP port 4791/);
});
