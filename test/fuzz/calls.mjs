// @ts-nocheck
/**
 * How each function of the addon's table is called: `args` generates its arguments; `made` and `gone` update the world
 * after a successful call. A function that is missing here fails the run.
 */
import * as Q from '../../dist/providers/rdma-core/qp-words.js';
import { junk } from './random.mjs';

const [RC, UC, UD, XRC_SEND, XRC_RECV] = [2, 3, 4, 9, 10];
const CQ_TIMESTAMPS = [0, 0, 0, 1 << 7, 1 << 11, (1 << 7) | (1 << 11)];

function words(w, fill) {
  const { random } = w;
  const list = Array.from({ length: Q.QPW_COUNT }, () => (random.chance(0.5) ? 0 : random.word()));
  fill(list);
  return new Uint32Array(list);
}

function qpInit(w) {
  const { random } = w;
  return words(w, (list) => {
    const cap = [random.below(64), random.below(64), random.below(5), random.below(5), random.below(300)];
    for (let i = 0; i < 5; i++) list[Q.QPW_CAP + i] = random.chance(0.98) ? cap[i] : random.word();
    list[Q.QPW_TYPE] = random.pick([RC, RC, RC, UC, UD, UD, UD, XRC_SEND, XRC_RECV, random.below(12)]);
    list[Q.QPW_SEND_CQ] = w.handle('cq');
    list[Q.QPW_RECV_CQ] = w.handle('cq');
    list[Q.QPW_SRQ] = random.chance(0.6) ? 0 : w.handle('srq');
    list[Q.QPW_XRCD] = w.handle('xrcd');
    list[Q.QPW_EXTENDED] = random.below(2);
  });
}

function qpAttr(w) {
  const { random } = w;
  return words(w, (list) => {
    // Mostly RTS, since most calls are posts.
    list[Q.QPW_STATE] = random.pick([0, 1, 2, 3, 3, 3, 3, 4, 5, 6, random.word()]);
    list[Q.QPW_EN_SQD] = random.below(2);
  });
}

const address = (w) =>
  words(w, (list) => {
    list[Q.QPW_IS_GLOBAL] = 1;
    if (w.random.chance(0.9)) list[Q.QPW_AH_PORT] = 1;
  });

const GROUPS = [0, 1, 2, 3].map((last) => new Uint8Array(16).fill(0xff, 0, 1).fill(last, 15));
const group = (w) => (w.random.chance(0.95) ? w.random.pick(GROUPS) : new Uint8Array(w.random.below(32)));

function memory(w) {
  const { random } = w;
  const bytes = random.pick([1, 64, 4096, 10_000]);
  const buffer = random.chance(0.7) ? new ArrayBuffer(bytes) : new SharedArrayBuffer(bytes);
  if (buffer instanceof ArrayBuffer && w.foreign.length < 64) w.foreign.push(buffer);
  const offset = random.below(bytes);
  return new Uint8Array(buffer, offset, random.below(bytes - offset) + 1);
}

/** Listeners: some do nothing, others misbehave. */
function listener(w) {
  const { random } = w;
  const close = () => {
    const name = random.pick(['destroyCq', 'destroyQp', 'destroySrq', 'destroyCompChannel', 'closeDevice']);
    w.try(name);
  };
  const unwatch = () => w.try(random.pick(['watchAsyncEvents', 'watchCompChannel', 'watchEventChannel']));
  const fail = () => {
    throw new Error('thrown by a listener');
  };
  const told = () => {
    w.told++;
  };
  return random.pick([null, told, told, told, close, unwatch, fail]);
}

const access = (w) => (w.random.chance(0.9) ? w.random.below(64) : w.random.word());

/** Takes only a handle. */
const on = (kind) => (w) => [w.handle(kind)];
const adds = (kind) => (w, result) => w.add(kind, typeof result === 'number' ? result : result.handle);
const removes = (kind) => (w, _result, args) => w.remove(kind, args[0]);
const addsMr = (w, result) => {
  w.add('mr', result.handle);
  w.mrs.set(result.handle, result);
};
const addsRing = (kind) => (w, result) => {
  w.add(kind, result.handle);
  const { memory: buffer, byteOffset, capacity, extBytes } = result;
  const length = 16 + capacity * (16 + extBytes / 4);
  w.rings.set(result.handle, { words: new Uint32Array(buffer, byteOffset, length), capacity, extBytes });
};

/** Arguments in the call block; the table's function takes none. */
const aims = (kind, ringKind) => (w) => {
  w.aim(kind, ringKind);
  return [];
};

const PORTS = 2;
const port = (w) => (w.random.chance(0.95) ? 7000 + w.random.below(PORTS) : w.random.word());
const HOSTS = ['::1', 'fe80::1%lo', 'fe80::1%none', '256.0.0.1', '', 'x'];
const host = (w) => (w.random.chance(0.8) ? '10.0.0.1' : w.random.pick(HOSTS));
const multicast = (w) => w.random.pick(['239.0.0.1', '239.0.0.2', 'ff02::1', '10.0.0.1', 'y']);
/** Words of rdma_conn_param. */
const conn = (w) => {
  const qpNum = w.random.chance(0.1) ? 0xffffffff : w.random.word();
  return new Uint32Array([...Array.from({ length: 6 }, () => w.random.word()), qpNum]);
};
const privateData = (w) =>
  new Uint8Array(w.random.pick([0, 1, 8, 32, 56, 57, 136, 137, 148, 180, 196, 197, 300]));

/** A listener that records the identifiers of connection requests, and may then misbehave like others. */
const cmListener = (w) => {
  const plain = listener(w);
  if (plain === null) return null;
  const told = (_event, id) => {
    if (!w.all('cmId').includes(id)) {
      w.add('cmId', id);
      w.offered.set(id, told.channel);
    }
    plain();
  };
  return told;
};

/** Destroying a channel also destroys its unclaimed connection requests. */
const removesChannel = (w, _result, [channel]) => {
  w.remove('cmChannel', channel);
  for (const [id, of] of w.offered) {
    if (of !== channel) continue;
    w.remove('cmId', id);
    w.offered.delete(id);
  }
};

const CM_CALLS = {
  createEventChannel: { args: () => [], made: adds('cmChannel') },
  destroyEventChannel: { args: on('cmChannel'), made: removesChannel },
  watchEventChannel: {
    args: (w) => [w.handle('cmChannel'), cmListener(w)],
    made: (_w, _result, [channel, listener]) => {
      if (typeof listener === 'function') listener.channel = channel;
    },
  },
  refEventChannel: { args: (w) => [w.handle('cmChannel'), w.random.chance(0.5)] },
  createId: {
    args: (w) => [w.handle('cmChannel'), w.random.pick([0x106, 0x106, 0x111, w.random.word()])],
    made: adds('cmId'),
  },
  destroyId: {
    args: on('cmId'),
    made: (w, _result, [id]) => {
      w.remove('cmId', id);
      w.offered.delete(id);
    },
  },
  queryId: { args: on('cmId') },
  bindAddr: { args: (w) => [w.handle('cmId'), host(w), port(w)] },
  resolveAddr: {
    args: (w) => [
      w.handle('cmId'),
      w.random.chance(0.5) ? '' : host(w),
      0,
      host(w),
      port(w),
      w.random.word(),
    ],
  },
  resolveRoute: { args: (w) => [w.handle('cmId'), w.random.word()] },
  listen: { args: (w) => [w.handle('cmId'), w.random.below(8)] },
  connect: { args: (w) => [w.handle('cmId'), conn(w), privateData(w)], often: true },
  establish: { args: on('cmId'), often: true },
  accept: { args: (w) => [w.handle('cmId'), conn(w), privateData(w)], often: true },
  reject: { args: (w) => [w.handle('cmId'), privateData(w)], often: true },
  disconnect: { args: on('cmId'), often: true },
  notify: { args: (w) => [w.handle('cmId'), w.random.word()] },
  initQpAttr: { args: (w) => [w.handle('cmId'), w.random.below(5), new Uint32Array(Q.QPW_COUNT)] },
  joinMulticast: {
    args: (w) => [w.handle('cmId'), multicast(w), port(w)],
    made: (w, _result, args) => w.joined.push(args),
  },
  // Random arguments would hardly ever name a group that was joined.
  leaveMulticast: {
    args: (w) =>
      w.joined.length > 0 && w.random.chance(0.3)
        ? w.random.pick(w.joined)
        : [w.handle('cmId'), multicast(w), port(w)],
  },
};

export const CALLS = {
  ...CM_CALLS,
  init: {
    args: (w) => [w.random.chance(0.5) ? w.makeError : junk(w.random), w.allocShared, w.detach],
    rare: true,
  },
  status: { args: () => [], rare: true },
  detachBuffer: {
    args: (w) => [w.foreign.length > 0 ? w.random.pick(w.foreign) : junk(w.random)],
    rare: true,
  },
  pinThread: {
    args: (w) => [w.random.chance(0.5) ? w.random.below(4) : junk(w.random)],
    rare: true,
  },
  createWrRing: {
    args: (w) => [1 + w.random.below(64), w.random.below(8), w.random.below(300)],
    made: addsRing('wr'),
  },
  createWcRing: { args: (w) => [1 + w.random.below(64)], made: addsRing('wc') },
  destroyRing: {
    args: (w) => [w.handle(w.random.pick(['wr', 'wc']))],
    made: (w, _result, args) => {
      w.remove('wr', args[0]);
      w.remove('wc', args[0]);
    },
  },
  getDeviceList: { args: () => [], rare: true },
  openDevice: { args: (w) => [w.random.pick(['null0', 'null1'])], made: adds('context') },
  probeWait: { args: on('context') },
  closeDevice: { args: on('context'), made: removes('context') },
  queryDevice: { args: on('context') },
  queryPort: { args: (w) => [w.handle('context'), w.random.pick([1, 1, 1, w.random.word()])] },
  queryGid: { args: (w) => [w.handle('context'), 1, w.random.pick([0, 1, w.random.word()])] },
  queryDeviceEx: { args: on('context') },
  queryRtValues: { args: on('context') },
  queryPkey: { args: (w) => [w.handle('context'), 1, w.random.pick([0, 0, w.random.word()])] },
  watchAsyncEvents: { args: (w) => [w.handle('context'), listener(w)] },
  refAsyncEvents: { args: (w) => [w.handle('context'), w.random.chance(0.5)] },
  allocPd: { args: on('context'), made: adds('pd') },
  deallocPd: { args: on('pd'), made: removes('pd') },
  allocMr: { args: (w) => [w.handle('pd'), w.random.pick([1, 64, 4096, 65536]), access(w)], made: addsMr },
  regMr: { args: (w) => [w.handle('pd'), memory(w), access(w)], made: addsMr },
  regDmabufMr: {
    args: (w) => [
      w.handle('pd'),
      w.random.word(),
      w.random.word(),
      w.random.word(),
      w.random.below(64),
      access(w),
    ],
    made: addsMr,
  },
  reregMr: {
    args: (w) => {
      const flags = w.random.below(8);
      const view = (flags & 1) !== 0 || w.random.chance(0.1) ? memory(w) : undefined;
      return [w.handle('mr'), flags, w.handle('pd'), view, access(w)];
    },
    made: (w, result, args) => w.mrs.set(args[0], result),
  },
  deregMr: { args: on('mr'), made: removes('mr') },
  allocMw: { args: (w) => [w.handle('pd'), w.random.pick([1, 2, 2, w.random.word()])], made: adds('mw') },
  queryMw: { args: on('mw') },
  deallocMw: { args: on('mw'), made: removes('mw') },
  createAh: { args: (w) => [w.handle('pd'), address(w)], made: adds('ah') },
  destroyAh: { args: on('ah'), made: removes('ah') },
  attachMcast: {
    args: (w) => [w.handle('qp'), group(w), w.random.below(2)],
    made: (w, _result, [qp, gid, lid]) => w.groups.push([qp, gid.slice(), lid]),
    often: true,
  },
  detachMcast: { args: (w) => [w.handle('qp'), group(w), w.random.below(2)], often: true },
  openXrcd: { args: on('context'), made: adds('xrcd') },
  closeXrcd: { args: on('xrcd'), made: removes('xrcd') },
  createSrq: {
    args: (w) => [
      w.handle('pd'),
      w.random.below(64),
      w.random.below(5),
      ...(w.random.chance(0.7) ? [0, 0] : [w.handle('xrcd'), w.handle('cq')]),
    ],
    made: adds('srq'),
  },
  modifySrq: { args: (w) => [w.handle('srq'), w.random.below(64), w.random.below(64), w.random.below(4)] },
  querySrq: { args: on('srq') },
  destroySrq: { args: on('srq'), made: removes('srq') },
  createCompChannel: { args: on('context'), made: adds('channel') },
  destroyCompChannel: { args: on('channel'), made: removes('channel') },
  watchCompChannel: { args: (w) => [w.handle('channel'), listener(w)] },
  refCompChannel: { args: (w) => [w.handle('channel'), w.random.chance(0.5)] },
  createCq: {
    args: (w) => [
      w.handle('context'),
      1 + w.random.below(64),
      w.random.chance(0.4) ? 0 : w.handle('channel'),
      w.random.below(2),
      w.random.chance(0.95) ? w.random.pick(CQ_TIMESTAMPS) : w.random.word(),
    ],
    made: adds('cq'),
  },
  resizeCq: { args: (w) => [w.handle('cq'), 1 + w.random.below(256)] },
  modifyCq: { args: (w) => [w.handle('cq'), w.random.word(), w.random.word()] },
  reqNotifyCq: { args: (w) => [w.handle('cq'), w.random.chance(0.5)] },
  destroyCq: { args: on('cq'), made: removes('cq') },
  createQp: { args: (w) => [w.handle('pd'), qpInit(w), w.random.chance(0.5)], made: adds('qp') },
  modifyQp: {
    args: (w) => [w.handle('qp'), qpAttr(w), w.random.chance(0.9) ? 1 : w.random.word()],
    often: true,
  },
  knownState: { args: on('qp') },
  queryQp: { args: (w) => [w.handle('qp'), new Uint32Array(Q.QPW_COUNT)] },
  modifyQpRateLimit: { args: (w) => [w.handle('qp'), w.random.word(), w.random.word(), w.random.word()] },
  queryQpDataInOrder: { args: (w) => [w.handle('qp'), w.random.word(), w.random.word()] },
  queryEce: { args: on('qp') },
  setEce: { args: (w) => [w.handle('qp'), w.random.word(), w.random.word()] },
  destroyQp: { args: on('qp'), made: removes('qp') },
  callBlock: { args: () => [], once: true },
  postSend: { args: aims('qp', 'wr'), often: true },
  postRecv: { args: aims('qp', 'wr'), often: true },
  postSrqRecv: { args: aims('srq', 'wr'), often: true },
  pollCq: { args: aims('cq', 'wc'), often: true },
  validateSend: {
    args: (w) => {
      const ring = w.handle('wr');
      w.scribble(ring);
      return [w.handle('qp'), ring, w.random.pick([0, w.random.below(64), w.random.word()])];
    },
  },
};

/** The function that closes each kind, children first. */
export const CLOSERS = [
  ['cmId', 'destroyId'],
  ['cmChannel', 'destroyEventChannel'],
  ['qp', 'destroyQp'],
  ['mw', 'deallocMw'],
  ['ah', 'destroyAh'],
  ['srq', 'destroySrq'],
  ['cq', 'destroyCq'],
  ['mr', 'deregMr'],
  ['pd', 'deallocPd'],
  ['xrcd', 'closeXrcd'],
  ['channel', 'destroyCompChannel'],
  ['context', 'closeDevice'],
  ['wr', 'destroyRing'],
  ['wc', 'destroyRing'],
];

/**
 * At most this many objects of a kind are open at once. Contexts are few, because objects of different ones do not mix.
 */
export const most = (kind) => ({ context: 2, pd: 3, xrcd: 3, channel: 4, cmChannel: 2 })[kind] ?? 12;

/** The creators to which these limits apply. */
export const MAKERS = {
  openDevice: 'context',
  allocPd: 'pd',
  allocMr: 'mr',
  regMr: 'mr',
  regDmabufMr: 'mr',
  allocMw: 'mw',
  createAh: 'ah',
  openXrcd: 'xrcd',
  createSrq: 'srq',
  createCompChannel: 'channel',
  createCq: 'cq',
  createQp: 'qp',
  createWrRing: 'wr',
  createWcRing: 'wc',
  createEventChannel: 'cmChannel',
  createId: 'cmId',
};
