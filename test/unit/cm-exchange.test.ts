// The state machine of rdma_cm on user-space RoCE, without sockets and clocks: repetitions, refusals and hostile messages.
import { describe, expect, test } from 'vitest';
import { type CmId, CmObjects } from '../../src/providers/sim/cm/objects.ts';
import { SoftExchange } from '../../src/providers/soft/cm/exchange.ts';
import { CmInbound } from '../../src/providers/soft/cm/inbound.ts';
import { MAX_HALF_OPEN, MAX_HALF_OPEN_OF_PEER } from '../../src/providers/soft/cm/links.ts';
import {
  type CmDraft,
  type CmMessage,
  decodeCm,
  encodeCm,
  withCmaHeader,
} from '../../src/roce/cm-messages.ts';
import { RandomStream } from '../../src/sim/kernel/random.ts';
import * as V from '../../src/verbs/index.ts';

const SEED = Number(process.env.ISOVERBS_SEED ?? 1);
const HERE = '::ffff:10.0.0.1';
const THERE = '::ffff:10.0.0.2';
const ELSEWHERE = '::ffff:10.0.0.3';
const PORT = 7471;
const MTU = V.IBV_MTU_1024;
const NO_DATA = new Uint8Array(0);
const PARAM = {
  ...{ privateData: NO_DATA, responderResources: 4, initiatorDepth: 3, flowControl: 0, retryCount: 7 },
  ...{ rnrRetryCount: 7, srq: false, qpNum: 0x77 },
};

/** A host whose messages are collected, and whose time a test advances. */
function hostOf(gid = HERE) {
  const random = new RandomStream(SEED, gid);
  let nowNs = 0;
  const timers: { dueNs: number; action: () => void }[] = [];
  const sent: { to: string; message: CmMessage }[] = [];
  const events: V.CmEvent[] = [];
  const objects = new CmObjects({ notify: (action) => action() });
  let lingering = 0;
  const linger = () => {
    lingering++;
    return () => void lingering--;
  };
  const channel = {
    ids: new Set<CmId>(),
    listener: (event: V.CmEvent) => void events.push(event),
    pending: [],
  };
  const exchange = new SoftExchange(objects, {
    send: (_host, to, mad) => void sent.push({ to, message: decodeCm(mad) as CmMessage }),
    after: (delayNs, action) => void timers.push({ dueNs: nowNs + delayNs, action }),
    random: () => random.u32() >>> 0,
    gidOf: () => gid,
    mtuCode: () => MTU,
    hold: () => {},
    linger,
  });
  const inbound = new CmInbound(exchange);
  const newId = (portSpace = V.RDMA_PS_TCP) => objects.addId(channel, portSpace);
  return {
    ...{ objects, exchange, sent, events, newId },
    receive: (from: string, mad: Uint8Array) => inbound.receive(0, from, mad),
    hear: (from: string, message: CmDraft<never>) => inbound.receive(0, from, encodeCm(message)),
    listen(portSpace = V.RDMA_PS_TCP, backlog = 8) {
      const id = newId(portSpace);
      objects.bind(id, 0, PORT);
      id.state = 'listening';
      id.backlog = backlog;
      return id;
    },
    call(portSpace = V.RDMA_PS_TCP) {
      const id = newId(portSpace);
      objects.bind(id, 0, 50_000);
      id.remoteAddress = '10.0.0.2';
      id.remotePort = PORT;
      exchange.connect(id, PARAM);
      return id;
    },
    /** Whether the device must stay open for a destroyed identifier. */
    get lingers() {
      return lingering > 0;
    },
    idOf: (event: V.CmEvent) => objects.ids.get(event.id) as CmId,
    advance(byNs: number) {
      const untilNs = nowNs + byNs;
      for (;;) {
        timers.sort((a, b) => a.dueNs - b.dueNs);
        if (timers.length === 0 || timers[0].dueNs > untilNs) break;
        const { dueNs, action } = timers.shift() as (typeof timers)[0];
        nowNs = dueNs;
        action();
      }
      nowNs = untilNs;
    },
    /** Kinds of the messages since the last call. */
    kinds: () => sent.splice(0).map(({ message }) => message.kind),
    names: () => events.splice(0).map(({ event }) => V.cmEventName(event)),
  };
}

/** Destroys an identifier. */
function destroy({ exchange, objects }: ReturnType<typeof hostOf>, id: CmId): void {
  exchange.abandon(id);
  objects.removeId(id);
}

function reqOf(change: Partial<CmMessage<'REQ'>> = {}): CmDraft<'REQ'> {
  return {
    kind: 'REQ',
    transaction: [0, 9],
    localCommId: 0xaaaa,
    serviceIdLo: V.RDMA_PS_TCP * 65536 + PORT,
    localQpn: 0x99,
    pathMtu: MTU,
    localGid: THERE,
    remoteGid: HERE,
    startingPsn: 5,
    privateData: withCmaHeader({ port: 1234, source: THERE, dest: HERE }, Uint8Array.of(7)),
    ...change,
  };
}

/** A host with an accepted request; returns the identifier and the REP. */
function accepted() {
  const host = hostOf();
  host.listen();
  host.hear(THERE, reqOf() as CmDraft<never>);
  const id = host.idOf(host.events.splice(0)[0]);
  host.exchange.accept(id, PARAM);
  return { host, id, rep: host.sent.splice(0)[0].message as CmMessage<'REP'> };
}

describe('a request', () => {
  test('is reported with what the peer wrote', () => {
    const host = hostOf();
    host.listen();
    host.hear(THERE, reqOf({ responderResources: 2, initiatorDepth: 1 }) as CmDraft<never>);
    expect(host.events).toMatchObject([
      {
        event: V.RDMA_CM_EVENT_CONNECT_REQUEST,
        conn: { qpNum: 0x99, responderResources: 1, initiatorDepth: 2 },
      },
    ]);
    expect(host.events[0].privateData).toEqual(Uint8Array.of(7, ...new Uint8Array(55)));
    expect(host.idOf(host.events[0])).toMatchObject({
      remoteAddress: '10.0.0.2',
      remotePort: 1234,
      remotePsn: 5,
    });
  });

  test.each<[string, number, Partial<CmMessage<'REQ'>>]>([
    ['a port without a listener', 8, { serviceIdLo: V.RDMA_PS_TCP * 65536 + 1 }],
    ['another service', 8, { serviceIdHi: 1 }],
    ['an unreliable connection', 9, { transport: 1 }],
    ["another sender's address", 12, { localGid: ELSEWHERE }],
    ["another receiver's address", 12, { remoteGid: ELSEWHERE }],
    ['a larger MTU', 26, { pathMtu: MTU + 1 }],
    ['no MTU', 26, { pathMtu: 0 }],
    ['an unknown header', 28, { privateData: Uint8Array.of(1) }],
  ])('for %s is rejected with reason %i', (_what, reason, change) => {
    const host = hostOf();
    host.listen();
    host.hear(THERE, reqOf(change) as CmDraft<never>);
    expect(host.names()).toEqual([]);
    expect(host.sent).toMatchObject([{ to: THERE, message: { kind: 'REJ', reason, remoteCommId: 0xaaaa } }]);
  });

  test('that arrives again is answered with the same answer, or with a request for more time', () => {
    const host = hostOf();
    host.listen();
    for (let i = 0; i < 3; i++) host.hear(THERE, reqOf() as CmDraft<never>);
    expect(host.kinds()).toEqual(['MRA', 'MRA']);
    expect(host.events).toHaveLength(1);
    host.exchange.accept(host.idOf(host.events[0]), PARAM);
    host.hear(THERE, reqOf() as CmDraft<never>);
    expect(host.kinds()).toEqual(['REP', 'REP']);
  });

  test('of a queue pair that is connected here is stale, and ends the old connection', () => {
    const { host, id, rep } = accepted();
    host.hear(THERE, { kind: 'RTU', localCommId: 0xaaaa, remoteCommId: rep.localCommId } as CmDraft<never>);
    expect(host.names()).toEqual(['ESTABLISHED']);
    host.hear(THERE, reqOf({ localCommId: 0xbbbb }) as CmDraft<never>);
    expect(host.sent).toMatchObject([
      { message: { kind: 'REJ', reason: 10, remoteCommId: 0xbbbb } },
      { message: { kind: 'DREQ', remoteCommId: 0xaaaa, remoteQpn: 0x99 } },
    ]);
    host.hear(THERE, { kind: 'DREP', localCommId: 0xaaaa, remoteCommId: rep.localCommId } as CmDraft<never>);
    expect(host.names()).toEqual(['DISCONNECTED']);
    expect(id.link).toBe('TIMEWAIT');
  });

  test('beyond the backlog is dropped', () => {
    const host = hostOf();
    const listener = host.listen(V.RDMA_PS_TCP, 2);
    listener.channel.listener = null;
    for (let i = 1; i <= 5; i++) host.hear(THERE, reqOf({ localCommId: i, localQpn: i }) as CmDraft<never>);
    expect(listener.channel.pending).toHaveLength(2);
    expect(host.sent).toEqual([]);
  });

  test('in a flood takes a bounded number of identifiers, and one address does not take them all', () => {
    const host = hostOf();
    host.listen(V.RDMA_PS_TCP, 128);
    const flood = (from: string) => {
      for (let i = 1; i <= 2000; i++) {
        host.hear(from, reqOf({ localCommId: i, localQpn: i, localGid: from }) as CmDraft<never>);
      }
    };
    flood(THERE);
    expect(host.events).toHaveLength(MAX_HALF_OPEN_OF_PEER);
    for (const from of [ELSEWHERE, '::ffff:10.0.0.4', '::ffff:10.0.0.5']) flood(from);
    expect(host.events).toHaveLength(MAX_HALF_OPEN);
    // Destroyed requests make room.
    const first = host.idOf(host.events[0]);
    host.exchange.abandon(first);
    host.objects.removeId(first);
    host.hear(THERE, reqOf({ localCommId: 6000, localQpn: 6000 }) as CmDraft<never>);
    expect(host.events).toHaveLength(MAX_HALF_OPEN + 1);
  });

  test('from an IPv6 address that only looks like a mapped one keeps that address', () => {
    const host = hostOf();
    host.listen();
    const from = '::ffff:0:102:304';
    host.hear(from, reqOf({ localGid: from }) as CmDraft<never>);
    expect(host.idOf(host.events[0]).remoteAddress).toBe(from);
  });
});

describe('a caller', () => {
  test('repeats its request, and then reports that the peer does not answer', () => {
    const host = hostOf();
    host.call();
    host.advance(60e9);
    expect(host.kinds()).toEqual([...new Array(11).fill('REQ'), 'REJ']);
    expect(host.events).toMatchObject([{ event: V.RDMA_CM_EVENT_UNREACHABLE, status: -V.ETIMEDOUT }]);
  });

  test('waits longer if the peer asks for it', () => {
    const host = hostOf();
    host.call();
    const { localCommId: remoteCommId } = host.sent.splice(0)[0].message as CmMessage<'REQ'>;
    const mra = { kind: 'MRA', localCommId: 0xcccc, remoteCommId, message: 0, serviceTimeout: 24 };
    host.hear(THERE, mra as CmDraft<never>);
    host.advance(60e9);
    expect(host.kinds()).toEqual([]);
  });

  test.each([
    ['another address', ELSEWHERE, 0],
    ['another number', THERE, 1],
  ])('ignores an answer from %s', (_what, from, off) => {
    const host = hostOf();
    host.call();
    const { localCommId } = host.sent.splice(0)[0].message as CmMessage<'REQ'>;
    const rep = { kind: 'REP', localCommId: 0xcccc, remoteCommId: localCommId + off, localQpn: 5 };
    host.hear(from, rep as CmDraft<never>);
    expect(host.names()).toEqual([]);
    expect(host.sent).toMatchObject([{ to: from, message: { kind: 'REJ', reason: 6, message: 1 } }]);
  });

  test('whose confirmation is lost learns that the server gives up', () => {
    const host = hostOf();
    const id = host.call();
    const { localCommId: remoteCommId } = host.sent.splice(0)[0].message as CmMessage<'REQ'>;
    const ids = { localCommId: 0xcccc, remoteCommId };
    host.hear(THERE, { kind: 'REP', ...ids, localQpn: 5 } as CmDraft<never>);
    host.exchange.establish(id);
    host.names();
    host.hear(THERE, { kind: 'REJ', ...ids, localCommId: 0xcccd, message: 2, reason: 28 } as CmDraft<never>);
    expect(id.link).toBe('ESTABLISHED');
    host.hear(THERE, { kind: 'REJ', ...ids, message: 2, reason: 28 } as CmDraft<never>);
    expect(host.events).toMatchObject([{ event: V.RDMA_CM_EVENT_REJECTED, status: 28 }]);
    host.advance(1e9);
    expect(host.names()).toEqual(['REJECTED', 'TIMEWAIT_EXIT']);
  });

  test('sends its confirmation again if the answer arrives again', () => {
    const host = hostOf();
    const id = host.call();
    const { localCommId } = host.sent.splice(0)[0].message as CmMessage<'REQ'>;
    const rep = { kind: 'REP', localCommId: 0xcccc, remoteCommId: localCommId, localQpn: 5, startingPsn: 8 };
    host.hear(THERE, rep as CmDraft<never>);
    host.hear(THERE, rep as CmDraft<never>);
    expect(host.kinds()).toEqual(['MRA']);
    host.exchange.establish(id);
    host.hear(THERE, rep as CmDraft<never>);
    expect(host.kinds()).toEqual(['RTU', 'RTU']);
    expect(host.names()).toEqual(['CONNECT_RESPONSE']);
    expect(id.remotePsn).toBe(8);
  });
});

test.each([1, 2, 3, 4, 5])(
  'with a third of the messages lost, both ends connect and disconnect (seed %i)',
  (seed) => {
    const [server, client] = [hostOf(THERE), hostOf(HERE)];
    const random = new RandomStream(seed, 'loss');
    server.listen();
    const called = client.call();
    const deliver = (from: typeof server, gid: string, to: typeof server) => {
      for (const { message } of from.sent.splice(0)) {
        if ((random.u32() >>> 0) % 3 !== 0) to.hear(gid, message as CmDraft<never>);
      }
    };
    /** Lets time pass until a host has an event, and returns its identifier. */
    const until = (host: typeof server, event: number): CmId => {
      for (let turn = 0; turn < 2000; turn++) {
        const at = host.events.findIndex((one) => one.event === event);
        if (at >= 0) return host.idOf(host.events.splice(at, 1)[0]);
        deliver(client, HERE, server);
        deliver(server, THERE, client);
        for (const one of [client, server]) one.advance(10e6);
      }
      throw new Error(`no ${V.cmEventName(event)}`);
    };
    const accepted = until(server, V.RDMA_CM_EVENT_CONNECT_REQUEST);
    server.exchange.accept(accepted, { ...PARAM, qpNum: 0x88 });
    until(client, V.RDMA_CM_EVENT_CONNECT_RESPONSE);
    client.exchange.establish(called);
    until(server, V.RDMA_CM_EVENT_ESTABLISHED);
    client.exchange.disconnect(called);
    until(server, V.RDMA_CM_EVENT_DISCONNECTED);
    server.exchange.disconnect(accepted);
    until(client, V.RDMA_CM_EVENT_DISCONNECTED);
    until(client, V.RDMA_CM_EVENT_TIMEWAIT_EXIT);
    expect([...client.names(), ...server.names()].filter((name) => name !== 'TIMEWAIT_EXIT')).toEqual([]);
  },
);

test('a DREQ of an unknown connection is answered', () => {
  const host = hostOf();
  host.hear(THERE, { kind: 'DREQ', localCommId: 1, remoteCommId: 2 } as CmDraft<never>);
  expect(host.sent).toMatchObject([{ message: { kind: 'DREP', localCommId: 2, remoteCommId: 1 } }]);
});

test('a DREQ stands for a confirmation that was lost', () => {
  const { host, rep } = accepted();
  const ids = { localCommId: 0xaaaa, remoteCommId: rep.localCommId };
  host.hear(THERE, { kind: 'DREQ', ...ids, remoteQpn: PARAM.qpNum } as CmDraft<never>);
  expect(host.names()).toEqual(['ESTABLISHED', 'DISCONNECTED']);
});

describe('a destroyed end of a connection', () => {
  /** A connected server whose identifier is then destroyed, and the IDs that the peer's messages name. */
  function destroyed() {
    const { host, id, rep } = accepted();
    const ids = { localCommId: 0xaaaa, remoteCommId: rep.localCommId };
    host.hear(THERE, { kind: 'RTU', ...ids } as CmDraft<never>);
    host.names();
    destroy(host, id);
    return { host, ids };
  }

  test('repeats its DREQ until the peer answers', () => {
    const { host, ids } = destroyed();
    host.advance(250e6);
    expect(host.kinds()).toEqual(['DREQ', 'DREQ']);
    expect(host.lingers).toBe(true);
    host.hear(THERE, { kind: 'DREP', ...ids } as CmDraft<never>);
    host.advance(60e9);
    expect([host.kinds(), host.names(), host.lingers]).toEqual([[], [], false]);
  });

  test('gives up after 1.5 s', () => {
    const { host } = destroyed();
    host.advance(1.4e9);
    expect(host.lingers).toBe(true);
    host.advance(0.1e9);
    expect(host.lingers).toBe(false);
    host.advance(60e9);
    expect([host.kinds(), host.names()]).toEqual([new Array(5).fill('DREQ'), []]);
  });

  test('answers a DREQ that crossed its own', () => {
    const { host, ids } = destroyed();
    const dreq = { kind: 'DREQ', ...ids, remoteQpn: PARAM.qpNum } as CmDraft<never>;
    host.hear(THERE, dreq);
    host.hear(THERE, dreq);
    host.advance(60e9);
    expect([host.kinds(), host.names(), host.lingers]).toEqual([['DREQ', 'DREP', 'DREP'], [], false]);
  });

  test('goes on with a disconnect() that is under way', () => {
    const { host, id, rep } = accepted();
    host.hear(THERE, { kind: 'RTU', localCommId: 0xaaaa, remoteCommId: rep.localCommId } as CmDraft<never>);
    host.names();
    host.exchange.disconnect(id);
    host.advance(50e6);
    destroy(host, id);
    host.advance(60e9);
    expect([host.kinds(), host.names(), host.lingers]).toEqual([new Array(5).fill('DREQ'), [], false]);
  });

  test('needs no answer after the peer has confirmed the end', () => {
    const { host, id, rep } = accepted();
    const ids = { localCommId: 0xaaaa, remoteCommId: rep.localCommId };
    host.hear(THERE, { kind: 'RTU', ...ids } as CmDraft<never>);
    host.exchange.disconnect(id);
    host.hear(THERE, { kind: 'DREP', ...ids } as CmDraft<never>);
    host.kinds();
    destroy(host, id);
    expect([host.kinds(), host.lingers]).toEqual([[], false]);
  });
});

test('a server that gets no confirmation gives up', () => {
  const { host } = accepted();
  host.advance(60e9);
  expect(host.kinds()).toEqual([...new Array(10).fill('REP'), 'REJ']);
  expect(host.names()).toEqual(['UNREACHABLE']);
});

test(`random messages never throw, and never disturb a connection (seed ${SEED})`, () => {
  const { host, id, rep } = accepted();
  host.hear(THERE, { kind: 'RTU', localCommId: 0xaaaa, remoteCommId: rep.localCommId } as CmDraft<never>);
  host.names();
  const random = new RandomStream(SEED, 'cm');
  const below = (n: number) => (random.u32() >>> 0) % n;
  const kinds = ['REQ', 'MRA', 'REJ', 'REP', 'RTU', 'DREQ', 'DREP', 'SIDR_REQ', 'SIDR_REP'] as const;
  for (let i = 0; i < 20_000; i++) {
    const ids = { localCommId: 0xaaaa, remoteCommId: rep.localCommId, requestId: rep.localCommId };
    const mad = encodeCm({
      ...reqOf(),
      kind: kinds[below(9)],
      ...ids,
      localCommId: below(2) * 0xaaaa,
    } as CmDraft<never>);
    for (let j = below(4); j > 0; j--) mad[below(256)] = below(256);
    host.receive(ELSEWHERE, mad);
    host.sent.length = 0;
  }
  expect(id.link).toBe('ESTABLISHED');
  expect(host.events.filter((event) => event.id === id.handle)).toEqual([]);
});
