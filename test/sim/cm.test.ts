// Cases of rdma_cm that only a fabric can produce: dead hosts, failing links, unknown addresses, full
// backlogs, repeated runs.
import { expect, test } from 'vitest';
import { createFabric, type Fabric } from '../../src/providers/sim/index.ts';
import * as V from '../../src/verbs/index.ts';

const PARAM = { qpNum: 0x11 };
const PORT = 7471;

function rig(fabric: Fabric) {
  const cm = fabric.provider.cm as V.ConnectionManager;
  const channel = cm.createEventChannel();
  const log: string[] = [];
  const events: V.CmEvent[] = [];
  cm.watchEventChannel(channel, (event) => {
    events.push(event);
    log.push(`${fabric.nowNs} ${V.cmEventName(event.event)} ${event.status}`);
  });
  const createId = () => cm.createId(channel, V.RDMA_PS_TCP);
  return { cm, channel, log, events, createId };
}

/** The last entry, without its time. */
function last(log: string[]): string {
  return (log.at(-1) ?? '').replace(/^\S+ /, '');
}

async function routed(fabric: Fabric, at: ReturnType<typeof rig>, remote: string): Promise<number> {
  const id = at.createId();
  at.cm.resolveAddr(id, { address: 'sim1', port: 0 }, { address: remote, port: PORT }, 100);
  await fabric.run();
  at.cm.resolveRoute(id, 100);
  await fabric.run();
  return id;
}

function listenAt(at: ReturnType<typeof rig>, address: string, backlog = 8): number {
  const id = at.createId();
  at.cm.bindAddr(id, { address, port: PORT });
  at.cm.listen(id, backlog);
  return id;
}

async function established(fabric: Fabric, at: ReturnType<typeof rig>) {
  const listener = listenAt(at, 'sim0');
  const client = await routed(fabric, at, 'sim0');
  at.cm.connect(client, PARAM);
  await fabric.run();
  const server = at.events.at(-1)?.id as number;
  at.cm.accept(server, PARAM);
  await fabric.run();
  at.cm.establish(client);
  await fabric.run();
  expect(last(at.log)).toBe('ESTABLISHED 0');
  return { listener, client, server };
}

test('an unknown address is reported by an event, not by the call', async () => {
  const fabric = createFabric({ autoAdvance: false });
  const at = rig(fabric);
  const id = at.createId();
  at.cm.resolveAddr(id, null, { address: '10.0.9.9', port: PORT }, 100);
  await fabric.run();
  expect(last(at.log)).toBe(`ADDR_ERROR ${-V.ETIMEDOUT}`);
  // The identifier may try again.
  at.cm.resolveAddr(id, null, { address: '10.0.0.1', port: PORT }, 100);
  await fabric.run();
  expect(last(at.log)).toBe('ADDR_RESOLVED 0');
  expect(at.cm.queryId(id).deviceName).toBe('sim1');
});

test('an unknown host name is rejected', () => {
  const at = rig(createFabric());
  const call = () => at.cm.resolveAddr(at.createId(), null, { address: 'nowhere', port: PORT }, 100);
  expect(call).toThrow(/no host 'nowhere'.*sim0 \.\. sim1/);
});

test.each(['kill', 'linkDown'] as const)(
  '%s between route resolution and connect: unreachable',
  async (fault) => {
    const fabric = createFabric({ autoAdvance: false });
    const at = rig(fabric);
    listenAt(at, 'sim0');
    const client = await routed(fabric, at, 'sim0');
    fabric.fault({ [fault]: 'sim0' } as { kill: string });
    at.cm.connect(client, PARAM);
    await fabric.run();
    expect(last(at.log)).toBe(`UNREACHABLE ${-V.ETIMEDOUT}`);
  },
);

test('killing a host notifies its peers', async () => {
  const fabric = createFabric({ autoAdvance: false });
  const at = rig(fabric);
  const { client, server } = await established(fabric, at);
  fabric.fault({ kill: 'sim0' });
  await fabric.run();
  expect(at.events.at(-1)).toMatchObject({ id: client, status: -V.ETIMEDOUT });
  expect(last(at.log)).toBe(`DISCONNECTED ${-V.ETIMEDOUT}`);
  at.cm.disconnect(client);
  await fabric.run();
  expect(at.events.at(-1)).toMatchObject({ id: client });
  at.cm.destroyId(client);
  at.cm.destroyId(server);
});

test('a disconnect over a dead link still ends', async () => {
  const fabric = createFabric({ autoAdvance: false });
  const at = rig(fabric);
  const { client } = await established(fabric, at);
  fabric.fault({ linkDown: 'sim0' });
  at.cm.disconnect(client);
  await fabric.run();
  expect(last(at.log)).toBe(`DISCONNECTED ${-V.ETIMEDOUT}`);
});

test('a full backlog drops requests, which are retried and finally fail', async () => {
  const fabric = createFabric({ autoAdvance: false });
  const at = rig(fabric);
  const deaf = rig(fabric);
  listenAt(deaf, '0.0.0.0', 2);
  deaf.cm.watchEventChannel(deaf.channel, null);
  const clients = [];
  for (let i = 0; i < 3; i++) clients.push(await routed(fabric, at, 'sim0'));
  for (const client of clients) at.cm.connect(client, PARAM);
  await fabric.advance(60_000);
  expect(last(at.log)).toBe('ROUTE_RESOLVED 0');
  await fabric.run();
  expect(at.events.at(-1)).toMatchObject({ id: clients[2], event: V.RDMA_CM_EVENT_UNREACHABLE });
  // The two queued events are delivered to the late listener.
  deaf.cm.watchEventChannel(deaf.channel, (event) => deaf.events.push(event));
  await fabric.run();
  expect(deaf.events.map((event) => V.cmEventName(event.event))).toEqual([
    'CONNECT_REQUEST',
    'CONNECT_REQUEST',
  ]);
});

test('a dropped request succeeds when a retry finds room', async () => {
  const fabric = createFabric({ autoAdvance: false });
  const at = rig(fabric);
  const slow = rig(fabric);
  listenAt(slow, 'sim0', 1);
  slow.cm.watchEventChannel(slow.channel, null);
  const clients = [await routed(fabric, at, 'sim0'), await routed(fabric, at, 'sim0')];
  for (const client of clients) at.cm.connect(client, PARAM);
  await fabric.advance(20_000);
  slow.cm.watchEventChannel(slow.channel, (event) => slow.events.push(event));
  await fabric.run();
  expect(slow.events).toHaveLength(2);
});

test('a listener that throws loses no event', async () => {
  const fabric = createFabric({ autoAdvance: false });
  const cm = fabric.provider.cm as V.ConnectionManager;
  const channel = cm.createEventChannel();
  const ids = [0, 1].map(() => cm.createId(channel, V.RDMA_PS_TCP));
  for (const id of ids) cm.resolveAddr(id, null, { address: 'sim0', port: PORT }, 100);
  await fabric.run();
  const seen: number[] = [];
  const uncaught: unknown[] = [];
  const before = process.listeners('uncaughtException');
  process.removeAllListeners('uncaughtException');
  process.on('uncaughtException', (error) => uncaught.push(error));
  cm.watchEventChannel(channel, ({ id }) => {
    seen.push(id);
    if (seen.length === 1) throw new Error('mine');
  });
  await fabric.run();
  await new Promise((resolve) => setTimeout(resolve, 5));
  process.removeAllListeners('uncaughtException');
  for (const listener of before) process.on('uncaughtException', listener);
  expect(seen).toEqual(ids);
  expect(uncaught).toMatchObject([{ message: 'mine' }]);
});

test('the same program gets the same events at the same times', async () => {
  const run = async () => {
    const fabric = createFabric({ seed: 5, autoAdvance: false });
    const at = rig(fabric);
    const { client, server } = await established(fabric, at);
    at.cm.disconnect(server);
    await fabric.run();
    at.cm.disconnect(client);
    await fabric.run();
    return at.log;
  };
  const log = await run();
  expect(log).toHaveLength(9);
  expect(await run()).toEqual(log);
});

test('free ports are found while any are left, and none after that', () => {
  const fabric = createFabric();
  const { cm, createId } = rig(fabric);
  const bound = () => {
    const id = createId();
    cm.bindAddr(id, { address: 'sim0', port: 0 });
    return { id, port: cm.queryId(id).local.port };
  };
  const all = Array.from({ length: 65536 - 49152 }, bound);
  expect(new Set(all.map(({ port }) => port)).size).toBe(all.length);
  expect(all.at(-1)?.port).toBe(65535);
  expect(bound).toThrow(expect.objectContaining({ code: 'ISO_ERR_CONNECTION', errno: V.EADDRNOTAVAIL }));
  const { id, port } = all[777];
  cm.destroyId(id);
  expect(bound().port).toBe(port);
});

test('an unclaimed request is destroyed with its channel, and the caller is notified', async () => {
  const fabric = createFabric();
  const at = rig(fabric);
  const other = rig(fabric);
  const listener = listenAt(at, 'sim0');
  const client = await routed(fabric, other, 'sim0');
  other.cm.connect(client, PARAM);
  await fabric.run();
  expect(at.events.map(({ event }) => event)).toEqual([V.RDMA_CM_EVENT_CONNECT_REQUEST]);
  expect(() => at.cm.destroyEventChannel(at.channel)).toThrow(/still has a CM identifier/);
  at.cm.destroyId(listener);
  at.cm.destroyEventChannel(at.channel);
  await fabric.run();
  expect(last(other.log)).toBe('REJECTED 28');
});
