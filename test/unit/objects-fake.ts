/** A provider whose completions, events and wires the test controls: for races that a device seldom shows. */
import {
  type CompletionListener,
  HandleTable,
  IBV_QPS_RESET,
  KIND_CHANNEL,
  KIND_CONTEXT,
  KIND_CQ,
  KIND_MR,
  KIND_PD,
  KIND_QP,
  KIND_WC_RING,
  KIND_WR_RING,
  MemoryError,
  type MrInfo,
  type Provider,
  type QpAttr,
  type QpInitAttr,
  REASON_QUEUE_FULL,
  type RingInfo,
  ringBytes,
  SLOT_WORDS,
  slotAt,
  type Wire,
} from '../../src/verbs/index.ts';

interface FakeCq {
  channel: number;
  armed: boolean;
  entries: { wrId: number; qp: number; status: number }[];
}

export interface Fake {
  provider: Provider;
  /** Verbs called, in order. */
  calls: string[];
  /** Adds a completion, and raises the event when armed. */
  complete(cq: number, wrId: number, options?: { qp?: number; status?: number }): void;
  /** Runs inside the next reqNotifyCq, before the CQ is armed: the race. */
  beforeArm: (() => void) | null;
  /** Number of work requests that the next posts accept. */
  room: number;
  errno: number;
  reason: number;
  keepAlive: Map<number, boolean>;
  /** Our end of the last wire, through which a test plays the peer. */
  peers: Wire[];
}

/** Two ends of an in-memory wire; delivery takes a turn of the event loop. */
export function wirePair(): [Wire, Wire] {
  const make = (): Wire & { open: boolean } => ({
    open: true,
    remoteAddress: 'fake',
    send() {},
    close() {},
    onMessage() {},
    onClose() {},
  });
  const ends = [make(), make()];
  ends.forEach((end, i) => {
    const other = ends[1 - i];
    end.send = (message) => void setImmediate(() => other.open && other.onMessage(message));
    end.close = () => {
      if (!end.open) return;
      end.open = false;
      setImmediate(() => {
        if (!other.open) return;
        other.open = false;
        other.onClose();
      });
    };
  });
  return [ends[0], ends[1]];
}

/** Everything that the verbs of a fake share. */
class FakeDevice {
  readonly contexts = new HandleTable<{ name: string }>(KIND_CONTEXT);
  readonly pds = new HandleTable<object>(KIND_PD);
  readonly mrs = new HandleTable<MrInfo>(KIND_MR);
  readonly cqs = new HandleTable<FakeCq>(KIND_CQ);
  readonly qps = new HandleTable<{ attr: QpAttr; init: QpInitAttr }>(KIND_QP);
  readonly channels = new HandleTable<{ listener: CompletionListener | null }>(KIND_CHANNEL);
  readonly rings = [new HandleTable<Uint32Array>(KIND_WR_RING), new HandleTable<Uint32Array>(KIND_WC_RING)];
  readonly listeners = new Map<number, (wire: Wire) => void>();
  readonly name: string;
  keys = 1;
  fake!: Fake;

  constructor(name: string) {
    this.name = name;
  }
}

function deviceVerbs(device: FakeDevice): Partial<Provider> {
  const { contexts, listeners, name } = device;
  return {
    rendezvous: {
      async listen(_context, { port }, onWire) {
        const number = port || 5000 + listeners.size;
        listeners.set(number, onWire);
        return { port: number, close: () => void listeners.delete(number) };
      },
      async connect(_context, { port }) {
        const [mine, theirs] = wirePair();
        device.fake.peers.push(theirs);
        const listener = listeners.get(port);
        if (listener === undefined) throw new Error('connection refused');
        listener(theirs);
        return mine;
      },
    },
    getDeviceList: () => [{ name, provider: 'fake', guid: '', transport: 'fake' }],
    openDevice: () => contexts.add({ name }),
    closeDevice: (context) => contexts.delete(context),
    queryDevice: () => ({ physPortCnt: 1, maxQpRdAtom: 16, maxQpInitRdAtom: 16, fwVer: 'fake' }) as never,
    queryPort: () =>
      ({ state: 4, activeMtu: 3, maxMtu: 5, gidTblLen: 4, lid: 0, linkLayer: 'Ethernet' }) as never,
    queryGid: (_context, _port, index) => ({
      index,
      gid: ['fe80::1', '::ffff:10.0.0.1', '::', '::'][index],
      type: 'RoCE v2',
      ndevIfindex: 0,
    }),
  };
}

function memoryVerbs(device: FakeDevice): Partial<Provider> {
  const { pds, mrs } = device;
  const region = (
    memory: ArrayBuffer | SharedArrayBuffer,
    byteOffset: number,
    lengthBytes: number,
  ): MrInfo => {
    const info = {
      handle: 0,
      lkey: device.keys++,
      rkey: device.keys++,
      addr: 0x10000 * device.keys,
      lengthBytes,
      memory,
      byteOffset,
    };
    info.handle = mrs.add(info);
    return info;
  };
  return {
    allocPd: () => pds.add({}),
    deallocPd: (pd) => pds.delete(pd),
    allocMr: (_pd, lengthBytes) => region(new ArrayBuffer(lengthBytes), 0, lengthBytes),
    regMr(_pd, memory, byteOffset, lengthBytes) {
      if (memory.byteLength === 0) throw new MemoryError('detached');
      return region(memory, byteOffset, lengthBytes);
    },
    deregMr: (mr) => mrs.delete(mr),
  };
}

function completionVerbs(device: FakeDevice): Partial<Provider> {
  const { channels, cqs } = device;
  return {
    createCompChannel: () => channels.add({ listener: null }),
    destroyCompChannel: (channel) => channels.delete(channel),
    watchCompChannel(channel, listener) {
      channels.require(channel, 'watchCompChannel').listener = listener;
    },
    refCompChannel: (channel, keepAlive) => void device.fake.keepAlive.set(channel, keepAlive),
    createCq: (_context, cqe, channel) => ({ handle: cqs.add({ channel, armed: false, entries: [] }), cqe }),
    destroyCq: (cq) => cqs.delete(cq),
    reqNotifyCq(cq) {
      const hook = device.fake.beforeArm;
      device.fake.beforeArm = null;
      hook?.();
      cqs.require(cq, 'reqNotifyCq').armed = true;
    },
  };
}

function queueVerbs(device: FakeDevice): Partial<Provider> {
  const { cqs, qps, rings } = device;
  const ring = (table: HandleTable<Uint32Array>, capacity: number): RingInfo => {
    const memory = new ArrayBuffer(ringBytes(capacity, 0));
    return { handle: table.add(new Uint32Array(memory)), memory, capacity, extBytes: 0 };
  };
  const post = (verb: string) => (qp: number, handle: number, _start: number, count: number) => {
    const { fake } = device;
    qps.require(qp, verb);
    const words = rings[0].require(handle, verb);
    const taken = Math.min(count, fake.room);
    words[0] = taken < count ? fake.errno : 0;
    words[1] = taken < count ? fake.reason : 0;
    fake.room -= taken;
    return taken;
  };
  return {
    createQp(_pd, init) {
      const handle = qps.add({ attr: { qpState: IBV_QPS_RESET }, init });
      return { handle, qpNum: 0x100 + qps.size, cap: init.cap };
    },
    modifyQp: (qp, attr) => void Object.assign(qps.require(qp, 'modifyQp').attr, attr),
    queryQp: (qp) => qps.require(qp, 'queryQp'),
    destroyQp: (qp) => qps.delete(qp),
    createWrRing: (capacity) => ring(rings[0], capacity),
    createWcRing: (capacity) => ring(rings[1], capacity),
    destroyRing: (handle) => {
      for (const table of rings) table.delete(handle);
    },
    postSend: post('postSend'),
    postRecv: post('postRecv'),
    validateSend: () => 0,
    pollCq(cq, handle, start, max) {
      const { entries } = cqs.require(cq, 'pollCq');
      const words = rings[1].require(handle, 'pollCq');
      const taken = entries.splice(0, max);
      taken.forEach(({ wrId, qp, status }, i) => {
        words.set([wrId, 0, status, 0, 0, qp], slotAt(start + i));
        words.fill(0, slotAt(start + i) + 6, slotAt(start + i) + SLOT_WORDS);
      });
      return taken.length;
    },
  };
}

/** The provider, with the name of each call appended to `calls`. */
function traced(verbs: Partial<Provider>, calls: string[]): Provider {
  return Object.fromEntries(
    Object.entries(verbs).map(([key, value]) => {
      if (typeof value !== 'function') return [key, value];
      const call = value as (...args: unknown[]) => unknown;
      return [
        key,
        (...args: unknown[]) => {
          calls.push(key);
          return call(...args);
        },
      ];
    }),
  ) as unknown as Provider;
}

export function createFake(name = 'fake0'): Fake {
  const device = new FakeDevice(name);
  const { channels, cqs } = device;
  const verbs: Partial<Provider> = {
    name: 'fake',
    cm: null,
    cmError: 'the fake has none',
    threads: 'one',
    wait: 'none',
    interceptors: [],
    nowNs: () => 0,
    sleep: async () => {},
    ...deviceVerbs(device),
    ...memoryVerbs(device),
    ...completionVerbs(device),
    ...queueVerbs(device),
  };
  const calls: string[] = [];
  const fake: Fake = {
    provider: traced(verbs, calls),
    calls,
    beforeArm: null,
    room: Number.POSITIVE_INFINITY,
    errno: 12,
    reason: REASON_QUEUE_FULL,
    keepAlive: new Map(),
    peers: [],
    complete(cq, wrId, { qp = 0, status = 0 } = {}) {
      const queue = cqs.require(cq, 'complete');
      queue.entries.push({ wrId, qp, status });
      if (!queue.armed || queue.channel === 0) return;
      queue.armed = false;
      setImmediate(() => channels.get(queue.channel)?.listener?.(cq));
    },
  };
  device.fake = fake;
  return fake;
}
