// The connection manager (counterpart of rdma-core's test_rdmacm.py): addresses, connections, datagrams, groups.
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import {
  addressOf,
  closeConnected,
  connected,
  ears,
  heard,
  hush,
  INIT,
  listener,
  NO_DATA,
  names,
  param,
  RTR,
  routed,
} from './cm-rig.ts';
import { feature } from './ground.ts';
import { closeEnd, openEnd, polled, postRecv, postSend } from './rig.ts';

const {
  RDMA_CM_EVENT_ADDR_RESOLVED: ADDR_RESOLVED,
  RDMA_CM_EVENT_CONNECT_REQUEST: CONNECT_REQUEST,
  RDMA_CM_EVENT_CONNECT_RESPONSE: CONNECT_RESPONSE,
  RDMA_CM_EVENT_DISCONNECTED: DISCONNECTED,
  RDMA_CM_EVENT_ESTABLISHED: ESTABLISHED,
  RDMA_CM_EVENT_MULTICAST_JOIN: MULTICAST_JOIN,
  RDMA_CM_EVENT_REJECTED: REJECTED,
  RDMA_CM_EVENT_TIMEWAIT_EXIT: TIMEWAIT_EXIT,
  RDMA_CM_EVENT_UNREACHABLE: UNREACHABLE,
} = V;

const UDP = V.RDMA_PS_UDP;
const NOTES = { group: 'rdmacm', others: 'librdmacm and the rdma_ucm module' };
const bytes = (text: string) => new TextEncoder().encode(text);
/** Private data arrives padded with zeros to the capacity of its message. */
const text = (data: Uint8Array) => new TextDecoder().decode(data).replace(/\0+$/, '');
const code = (name: string) => expect.objectContaining({ code: `ISO_ERR_${name}` });

feature('rdma_cm: addresses and routes', NOTES, (it) => {
  it('a new identifier is bound to nothing', (ground) => {
    const at = ears(ground);
    const id = at.cm.createId(at.channel, V.RDMA_PS_TCP);
    expect(at.cm.queryId(id)).toMatchObject({ deviceName: '', local: { port: 0 }, remote: { port: 0 } });
    hush(at, id);
  });

  it('bindAddr finds the device and assigns a port', (ground) => {
    const at = ears(ground);
    const id = at.cm.createId(at.channel, V.RDMA_PS_TCP);
    const address = addressOf(ground, 0);
    at.cm.bindAddr(id, { address, port: 0 });
    const info = at.cm.queryId(id);
    expect(info).toMatchObject({ deviceName: ground.devices[0], portNum: 1, local: { address } });
    expect(info.local.port).toBeGreaterThan(0);
    hush(at, id);
  });

  it('an identifier bound to the wildcard address has no device', (ground) => {
    const at = ears(ground);
    const id = at.cm.createId(at.channel, V.RDMA_PS_TCP);
    at.cm.bindAddr(id, { address: '0.0.0.0', port: 0 });
    expect(at.cm.queryId(id)).toMatchObject({ deviceName: '', local: { address: '0.0.0.0' } });
    hush(at, id);
  });

  it('a port in use is refused, but is free in the other port space', (ground) => {
    const at = ears(ground);
    const { id, port } = listener(at);
    const address = addressOf(ground, 0);
    const second = at.cm.createId(at.channel, V.RDMA_PS_TCP);
    expect(() => at.cm.bindAddr(second, { address, port })).toThrow(code('CONNECTION'));
    const datagram = at.cm.createId(at.channel, UDP);
    at.cm.bindAddr(datagram, { address, port });
    at.cm.destroyId(id);
    hush(at, second, datagram);
  });

  it('resolving finds the route, the device and both addresses', async (ground) => {
    const at = ears(ground);
    const id = await routed(at, 7471);
    expect(at.cm.queryId(id)).toMatchObject({
      deviceName: ground.devices[1],
      portNum: 1,
      local: { address: addressOf(ground, 1) },
      remote: { address: addressOf(ground, 0), port: 7471 },
    });
    hush(at, id);
  });

  it('an identifier destroyed while resolving gets no event', async (ground) => {
    const at = ears(ground);
    const id = at.cm.createId(at.channel, V.RDMA_PS_TCP);
    at.cm.resolveAddr(id, null, { address: addressOf(ground, 0), port: 7471 }, 2000);
    at.cm.destroyId(id);
    expect(await names(at, id)).toEqual([]);
    hush(at);
  });
});

feature('rdma_cm: RC connections', NOTES, (it) => {
  it('connect, accept, establish: data flows both ways', async (ground) => {
    const all = await connected(ground);
    const { server, client } = all;
    client.end.bytes.fill(3, 0, 1000);
    postRecv(server.end, server.qp.handle, 1, 8192, 1000);
    postSend(client.end, client.qp.handle, (batch) =>
      batch.send(2, V.IBV_SEND_SIGNALED, client.end.mr.addr, 1000, client.end.mr.lkey),
    );
    expect(await polled(server.end, 1)).toMatchObject([{ wrId: 1, status: 'SUCCESS', byteLen: 1000 }]);
    expect(await polled(client.end, 1)).toMatchObject([{ wrId: 2, status: 'SUCCESS' }]);
    expect(server.end.bytes[8192 + 999]).toBe(3);
    const { addr, lkey } = server.end.mr;
    const { addr: to, rkey } = client.end.mr;
    postSend(server.end, server.qp.handle, (batch) =>
      batch.write(3, V.IBV_SEND_SIGNALED, addr + 8192, 1000, lkey, to + 20000, rkey),
    );
    expect(await polled(server.end, 1)).toMatchObject([{ wrId: 3, status: 'SUCCESS' }]);
    expect(client.end.bytes[20000 + 999]).toBe(3);
    closeConnected(all);
  });

  it('private data and parameters reach the other side', async (ground) => {
    const all = await connected(ground, {
      toServer: bytes('from the client'),
      toClient: bytes('from the server'),
    });
    expect(text(all.request.privateData)).toBe('from the client');
    expect(text(all.response.privateData)).toBe('from the server');
    // The initiator depth of one end is the responder resources of the other.
    expect(all.request.conn).toMatchObject({
      qpNum: all.client.qp.qpNum,
      responderResources: 3,
      initiatorDepth: 4,
    });
    expect(all.response.conn).toMatchObject({ qpNum: all.server.qp.qpNum, responderResources: 3 });
    closeConnected(all);
  });

  it('the new identifier knows its device and both ends', async (ground) => {
    const all = await connected(ground);
    const { cm } = all.server.at;
    const server = cm.queryId(all.server.id);
    const client = cm.queryId(all.client.id);
    expect(server.deviceName).toBe(ground.devices[0]);
    expect(server.local).toEqual(client.remote);
    expect(server.remote).toEqual(client.local);
    closeConnected(all);
  });

  it('private data may fill its message to the last byte, but not exceed it', async (ground) => {
    const all = await connected(ground, {
      toServer: new Uint8Array(56).fill(1),
      toClient: new Uint8Array(196).fill(2),
    });
    expect(all.request.privateData).toEqual(new Uint8Array(56).fill(1));
    expect(all.response.privateData).toEqual(new Uint8Array(196).fill(2));
    const at = ears(ground);
    const id = await routed(at, 1);
    expect(() => at.cm.connect(id, param(1, new Uint8Array(57)))).toThrow(code('ARGUMENT'));
    hush(at, id);
    closeConnected(all);
  });

  it('a rejection carries its reason and data', async (ground) => {
    const at = ears(ground);
    const { id, port } = listener(at);
    const client = await routed(at, port);
    at.cm.connect(client, param(0x77));
    const request = await heard(at, id, CONNECT_REQUEST);
    at.cm.reject(request.id, bytes('not today'));
    const rejected = await heard(at, client, REJECTED);
    expect(rejected.status).toBe(28);
    expect(text(rejected.privateData)).toBe('not today');
    hush(at, client, request.id, id);
  });

  it('a call without a listener is rejected', async (ground) => {
    const at = ears(ground);
    const { id, port } = listener(at);
    at.cm.destroyId(id);
    // User-space devices answer while a program has them open.
    const open = openEnd(ground, 0);
    const client = await routed(at, port);
    at.cm.connect(client, param(0x77));
    expect(await heard(at, client, REJECTED)).toMatchObject({ status: 8 });
    hush(at, client);
    closeEnd(open);
  });

  it('a request that is destroyed is rejected', async (ground) => {
    const at = ears(ground);
    const { id, port } = listener(at);
    const client = await routed(at, port);
    at.cm.connect(client, param(0x77));
    const request = await heard(at, id, CONNECT_REQUEST);
    at.cm.destroyId(request.id);
    expect(await heard(at, client, REJECTED)).toMatchObject({ status: 28 });
    hush(at, client, id);
  });

  it('destroying the listener rejects pending requests', async (ground) => {
    const at = ears(ground);
    const other = ears(ground);
    const { id, port } = listener(other);
    other.cm.watchEventChannel(other.channel, null);
    const client = await routed(at, port);
    at.cm.connect(client, param(0x77));
    for (let i = 0; i < 30; i++) await ground.turn();
    other.cm.destroyId(id);
    expect(await heard(at, client, REJECTED)).toMatchObject({ status: 28 });
    hush(other);
    hush(at, client);
  });

  it('the caller may reject the answer', async (ground) => {
    const at = ears(ground);
    const { id, port } = listener(at);
    const client = await routed(at, port);
    at.cm.connect(client, param(0x77));
    const request = await heard(at, id, CONNECT_REQUEST);
    at.cm.accept(request.id, param(0x78));
    await heard(at, client, CONNECT_RESPONSE);
    at.cm.reject(client, bytes('changed my mind'));
    const rejected = await heard(at, request.id, REJECTED);
    expect(rejected.status).toBe(28);
    expect(text(rejected.privateData)).toBe('changed my mind');
    hush(at, client, request.id, id);
  });

  it('one listener accepts several callers', async (ground) => {
    const at = ears(ground);
    const { id, port } = listener(at);
    const clients = [];
    for (const qpNum of [0x71, 0x72, 0x73]) {
      const client = await routed(at, port);
      at.cm.connect(client, param(qpNum));
      clients.push(client);
    }
    const requests = [];
    for (const _ of clients) requests.push(await heard(at, id, CONNECT_REQUEST));
    expect(requests.map(({ conn }) => conn?.qpNum).sort()).toEqual([0x71, 0x72, 0x73]);
    expect(new Set(requests.map((request) => request.id)).size).toBe(3);
    hush(at, ...requests.map((request) => request.id), ...clients, id);
  });

  it('the disconnecting side is notified when the other side has answered', async (ground) => {
    const all = await connected(ground);
    const { at } = all.server;
    at.cm.disconnect(all.client.id);
    await heard(at, all.server.id, DISCONNECTED);
    expect(await names(at, all.client.id, 10)).toEqual([]);
    at.cm.disconnect(all.server.id);
    await heard(at, all.client.id, DISCONNECTED);
    await heard(at, all.client.id, TIMEWAIT_EXIT);
    closeConnected(all);
  });

  it('if both disconnect at once, each is notified once', async (ground) => {
    const all = await connected(ground);
    const { at } = all.server;
    at.cm.disconnect(all.client.id);
    at.cm.disconnect(all.server.id);
    await heard(at, all.client.id, DISCONNECTED);
    await heard(at, all.server.id, DISCONNECTED);
    expect(at.events.filter((event) => event.event === DISCONNECTED)).toEqual([]);
    closeConnected(all);
  });

  it('destroying a connected identifier disconnects the other', async (ground) => {
    const all = await connected(ground);
    const { at } = all.server;
    at.cm.destroyId(all.client.id);
    await heard(at, all.server.id, DISCONNECTED);
    at.cm.disconnect(all.server.id);
    all.client.id = at.cm.createId(at.channel, V.RDMA_PS_TCP);
    closeConnected(all);
  });

  it('initQpAttr returns the attributes of each state', async (ground) => {
    const all = await connected(ground);
    const { cm } = all.server.at;
    const init = cm.initQpAttr(all.client.id, INIT);
    expect(init.attr).toMatchObject({ qpState: INIT, portNum: 1, pkeyIndex: 0 });
    expect(init.mask & V.IBV_QP_ACCESS_FLAGS).not.toBe(0);
    const client = cm.initQpAttr(all.client.id, RTR).attr;
    const server = cm.initQpAttr(all.server.id, V.IBV_QPS_RTS).attr;
    expect(client.destQpNum).toBe(all.server.qp.qpNum);
    expect(client.rqPsn).toBe(server.sqPsn);
    closeConnected(all);
  });
});

feature('rdma_cm: wrong order', NOTES, (it) => {
  it('a call that is invalid in the current state is rejected', async (ground) => {
    const at = ears(ground);
    const { cm } = at;
    const id = cm.createId(at.channel, V.RDMA_PS_TCP);
    expect(() => cm.resolveRoute(id, 100)).toThrow(code('STATE'));
    expect(() => cm.connect(id, param(1))).toThrow(code('STATE'));
    expect(() => cm.accept(id, param(1))).toThrow(code('STATE'));
    expect(() => cm.reject(id, NO_DATA)).toThrow(code('STATE'));
    expect(() => cm.establish(id)).toThrow(code('STATE'));
    expect(() => cm.disconnect(id)).toThrow(code('STATE'));
    cm.bindAddr(id, { address: addressOf(ground, 0), port: 0 });
    expect(() => cm.bindAddr(id, { address: addressOf(ground, 0), port: 0 })).toThrow(code('STATE'));
    expect(() => cm.resolveRoute(id, 100)).toThrow(code('STATE'));
    cm.listen(id, 1);
    expect(() => cm.connect(id, param(1))).toThrow(code('STATE'));
    hush(at, id);
  });

  it('handles of the wrong kind, or closed, are refused', (ground) => {
    const at = ears(ground);
    const { cm } = at;
    const id = cm.createId(at.channel, V.RDMA_PS_TCP);
    expect(() => cm.createId(id, V.RDMA_PS_TCP)).toThrow(code('HANDLE'));
    expect(() => cm.queryId(at.channel)).toThrow(code('HANDLE'));
    expect(() => cm.destroyEventChannel(at.channel)).toThrow(code('BUSY'));
    cm.destroyId(id);
    for (const call of [() => cm.destroyId(id), () => cm.listen(id, 1), () => cm.queryId(id)]) {
      expect(call).toThrow(code('HANDLE'));
    }
    hush(at);
    expect(() => cm.createId(at.channel, V.RDMA_PS_TCP)).toThrow(code('HANDLE'));
  });

  it('arguments are checked', (ground) => {
    const at = ears(ground);
    const { cm } = at;
    expect(() => cm.createId(at.channel, 1)).toThrow(code('ARGUMENT'));
    const id = cm.createId(at.channel, V.RDMA_PS_TCP);
    expect(() => cm.bindAddr(id, { address: '10.0.0.1', port: 70000 })).toThrow(code('ARGUMENT'));
    expect(() => cm.bindAddr(id, { address: 7 as unknown as string, port: 1 })).toThrow(code('ARGUMENT'));
    expect(() => cm.bindAddr(id, null as unknown as V.CmAddress)).toThrow(code('ARGUMENT'));
    expect(() => cm.bindAddr(id, { address: '192.0.2.1', port: 1 })).toThrow(code('NO_DEVICE'));
    expect(() => cm.watchEventChannel(at.channel, 5 as unknown as null)).toThrow(code('ARGUMENT'));
    hush(at, id);
  });
});

feature('rdma_cm: datagrams', NOTES, (it) => {
  it('resolving a peer returns its address, queue pair and Q_Key', async (ground) => {
    const at = ears(ground);
    const { id, port } = listener(at, UDP);
    const client = await routed(at, port, UDP);
    at.cm.connect(client, { privateData: bytes('who are you') });
    const request = await heard(at, id, CONNECT_REQUEST);
    expect(text(request.privateData)).toBe('who are you');
    at.cm.accept(request.id, { ...param(0x123), privateData: bytes('me') });
    const found = await heard(at, client, ESTABLISHED);
    expect(text(found.privateData)).toBe('me');
    expect(found.ud).toMatchObject({ qpNum: 0x123, qkey: V.RDMA_UDP_QKEY });
    expect(found.ud?.ah.dgid).toBe(`::ffff:${addressOf(ground, 0)}`);
    hush(at, request.id, client, id);
  });

  it('initQpAttr returns the Q_Key', async (ground) => {
    const at = ears(ground);
    const id = at.cm.createId(at.channel, UDP);
    at.cm.bindAddr(id, { address: addressOf(ground, 0), port: 0 });
    const { attr, mask } = at.cm.initQpAttr(id, INIT);
    expect(attr).toMatchObject({ qpState: INIT, portNum: 1, qkey: V.RDMA_UDP_QKEY });
    expect(mask & V.IBV_QP_QKEY).not.toBe(0);
    hush(at, id);
  });

  it('a rejection and silence are both reported as unreachable', async (ground) => {
    const at = ears(ground);
    const { id, port } = listener(at, UDP);
    const client = await routed(at, port, UDP);
    at.cm.connect(client, param(0));
    const request = await heard(at, id, CONNECT_REQUEST);
    at.cm.reject(request.id, bytes('no'));
    expect(await heard(at, client, UNREACHABLE)).toMatchObject({ status: 2 });
    at.cm.destroyId(id);
    const late = await routed(at, port, UDP);
    at.cm.connect(late, param(0));
    expect(await heard(at, late, UNREACHABLE)).toMatchObject({ status: 1 });
    hush(at, client, late, request.id);
  });
});

feature('rdma_cm: multicast', NOTES, (it) => {
  const group = { address: '239.1.2.3', port: 0 };

  it('joining returns the group to attach to and to send to', async (ground) => {
    const at = ears(ground);
    const id = at.cm.createId(at.channel, UDP);
    at.cm.bindAddr(id, { address: addressOf(ground, 0), port: 0 });
    at.cm.joinMulticast(id, group);
    const joined = await heard(at, id, MULTICAST_JOIN);
    expect(joined.ud).toMatchObject({ qpNum: 0xffffff, qkey: V.RDMA_UDP_QKEY });
    expect(joined.ud?.ah.dgid).toBe('::ffff:239.1.2.3');
    at.cm.leaveMulticast(id, group);
    hush(at, id);
  });

  it('the group may be resolved as an address first', async (ground) => {
    const at = ears(ground);
    const id = at.cm.createId(at.channel, UDP);
    at.cm.resolveAddr(id, { address: addressOf(ground, 0), port: 0 }, group, 2000);
    await heard(at, id, ADDR_RESOLVED);
    at.cm.joinMulticast(id, group);
    await heard(at, id, MULTICAST_JOIN);
    hush(at, id);
  });

  it('joining requires a datagram identifier that is bound to a device', (ground) => {
    const at = ears(ground);
    const stream = at.cm.createId(at.channel, V.RDMA_PS_TCP);
    at.cm.bindAddr(stream, { address: addressOf(ground, 0), port: 0 });
    expect(() => at.cm.joinMulticast(stream, group)).toThrow(code('STATE'));
    const unbound = at.cm.createId(at.channel, UDP);
    expect(() => at.cm.joinMulticast(unbound, group)).toThrow(code('STATE'));
    hush(at, stream, unbound);
  });
});

feature('rdma_cm: listeners of events', NOTES, (it) => {
  it('events wait for a listener, and a listener may destroy the identifier of its event', async (ground) => {
    const at = ears(ground);
    at.cm.watchEventChannel(at.channel, null);
    const id = at.cm.createId(at.channel, V.RDMA_PS_TCP);
    at.cm.resolveAddr(id, null, { address: addressOf(ground, 0), port: 7471 }, 2000);
    expect(await names(at, id)).toEqual([]);
    at.cm.watchEventChannel(at.channel, (event) => {
      at.events.push(event);
      at.cm.destroyId(event.id);
    });
    await heard(at, id, ADDR_RESOLVED);
    expect(() => at.cm.queryId(id)).toThrow(code('HANDLE'));
    hush(at);
  });

  it('notify() establishes a connection whose data arrive before the confirmation', async (ground) => {
    const at = ears(ground);
    const { id, port } = listener(at);
    const client = await routed(at, port);
    at.cm.connect(client, param(0x77));
    const request = await heard(at, id, CONNECT_REQUEST);
    at.cm.accept(request.id, param(0x78));
    await heard(at, client, CONNECT_RESPONSE);
    at.cm.notify(request.id, V.IBV_EVENT_COMM_EST);
    await heard(at, request.id, ESTABLISHED);
    at.cm.establish(client);
    expect(await names(at, request.id, 10)).toEqual([]);
    hush(at, client, request.id, id);
  });
});
