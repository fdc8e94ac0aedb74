// Every verb with every wrong argument: a typed error that names the verb and says what was expected.
import { expect, test } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { type Arg, handle, NOT_FUNCTIONS, NOT_OBJECTS, struct, typed, whole } from './faults.ts';
import { feature, type Ground } from './ground.ts';
import { ACCESS, CAP } from './rig.ts';
import { World } from './world.ts';

const LIMITS = ['ISO_ERR_ARGUMENT', 'ISO_ERR_NO_RESOURCES'] as const;
const context = handle('context');
const pd = handle('pd');
const cq = handle('cq');
const qp = handle('qp');
const portNum = whole('portNum', 1, { min: 1, max: 255 });
const access = whole('access', ACCESS, { max: 2 ** 31 - 1 });
const memory = typed(
  'memory',
  () => new ArrayBuffer(4096),
  ...NOT_OBJECTS,
  ['a Buffer', Buffer.alloc(8)],
  ['a plain object', {}],
);

const weight = (name: string) =>
  typed(
    name,
    () => 1,
    ['null', null],
    ['a string', '1'],
    ['a bigint', 1n],
    ['NaN', Number.NaN],
    ['infinity', Number.POSITIVE_INFINITY],
    ['0', 0],
    ['-1', -1],
    ['1e-9', 1e-9],
    ['1e9', 1e9],
  );
const qpLabels = [
  weight('qpWeight'),
  typed(
    'group',
    () => 'batch',
    ['null', null],
    ['a number', 4],
    ['an object', {}],
    ['a line break', 'a\nb'],
    ['65 characters', 'x'.repeat(65)],
  ),
  whole('traffic', V.ISO_TRAFFIC_LATENCY, { max: V.ISO_TRAFFIC_BANDWIDTH, optional: true }),
];

const groupName = typed(
  'name',
  () => 'batch',
  ['undefined', undefined],
  ['null', null],
  ['a number', 4],
  ['no name', ''],
  ['a line break', 'a\nb'],
  ['65 characters', 'x'.repeat(65)],
);

const cap = struct(
  'cap',
  () => ({ ...CAP }),
  Object.keys(CAP).map((name) => whole(name, 1, { past: LIMITS })),
);

const qpInit = struct(
  'attr',
  (w) => ({
    qpType: V.IBV_QPT_RC,
    sendCq: w.live.cq,
    recvCq: w.live.cq,
    cap: { ...CAP },
    sqSigAll: false,
  }),
  [
    whole('qpType', V.IBV_QPT_RC, { min: 2, max: 255 }),
    { ...cq, name: 'sendCq' },
    { ...cq, name: 'recvCq' },
    cap,
    ...qpLabels,
  ],
);

const ahAttr = struct('attr', (w) => ({ ...w.ahAttr() }), [
  typed('dgid', (w) => w.gid, ['a number', 5], ['no address', 'nonsense'], ['null', null]),
  whole('sgidIndex', (w) => w.ground.gidIndex, { optional: true, max: 255 }),
  whole('hopLimit', 64, { optional: true, max: 255 }),
  whole('trafficClass', 0, { optional: true, max: 255 }),
  whole('flowLabel', 0, { optional: true, max: 0xfffff }),
  whole('sl', 0, { optional: true, max: 15 }),
  whole('portNum', 1, { optional: true, min: 1, max: 255 }),
]);

const qpAttr = struct(
  'attr',
  () => ({ qpState: V.IBV_QPS_INIT, pkeyIndex: 0, portNum: 1, qpAccessFlags: 7 }),
  [
    whole('qpState', V.IBV_QPS_INIT, { max: 6 }),
    whole('pkeyIndex', 0, { max: 0xffff }),
    whole('portNum', 1, { min: 1, max: 255 }),
    whole('qpAccessFlags', 7, { max: 2 ** 31 - 1 }),
  ],
);

const INIT = V.IBV_QP_STATE | V.IBV_QP_PKEY_INDEX | V.IBV_QP_PORT | V.IBV_QP_ACCESS_FLAGS;

const LABELS = V.ISO_QP_WEIGHT | V.ISO_QP_GROUP | V.ISO_QP_TRAFFIC;

/** Arguments of each verb in order. The type ensures that no verb is missing. */
const TABLE: Record<keyof V.Verbs, readonly Arg[]> = {
  getDeviceList: [],
  openDevice: [],
  setLabels: [context, struct('change', () => ({}), [weight('weight'), ...qpLabels])],
  createGroup: [context, groupName, weight('weight')],
  setGroup: [context, groupName, weight('weight')],
  destroyGroup: [context, groupName],
  closeDevice: [context],
  queryDevice: [context],
  queryDeviceEx: [context],
  queryRtValues: [context],
  queryPort: [context, portNum],
  queryGid: [context, portNum, whole('index', 0, { max: 0xffff })],
  queryPkey: [context, portNum, whole('index', 0, { max: 0xffff })],
  watchAsyncEvents: [context, typed('listener', () => null, ...NOT_FUNCTIONS)],
  refAsyncEvents: [context],
  openXrcd: [context],
  closeXrcd: [handle('xrcd')],
  allocPd: [context],
  deallocPd: [pd],
  allocMr: [pd, whole('lengthBytes', 4096, { min: 1, max: 2 ** 53 - 1, past: LIMITS }), access],
  regMr: [
    pd,
    memory,
    whole('byteOffset', 0, { max: 4095 }),
    whole('lengthBytes', 4096, { min: 1, max: 4096 }),
    access,
  ],
  regDmabufMr: [
    pd,
    whole('offsetBytes', 0),
    whole('lengthBytes', 4096, { min: 1 }),
    whole('iova', 0),
    whole('fd', 0),
    access,
  ],
  reregMr: [handle('mr'), typed('change', () => ({ access: ACCESS }), ...NOT_OBJECTS)],
  deregMr: [handle('mr')],
  allocMw: [pd, whole('type', V.IBV_MW_TYPE_2, { min: 1, max: 2 })],
  queryMw: [handle('mw')],
  deallocMw: [handle('mw')],
  createAh: [pd, ahAttr],
  destroyAh: [handle('ah')],
  createCompChannel: [context],
  destroyCompChannel: [handle('channel')],
  watchCompChannel: [handle('channel'), typed('listener', () => null, ...NOT_FUNCTIONS)],
  refCompChannel: [handle('channel')],
  createCq: [
    context,
    whole('cqe', 16, { min: 1, max: 2 ** 31 - 1, past: LIMITS }),
    handle('channel', { optional: true }),
    struct(
      'options',
      () => ({}),
      [whole('compVector', 0, { max: 2 ** 31 - 1, optional: true }), whole('wcFlags', 0, { optional: true })],
      { optional: true },
    ),
  ],
  resizeCq: [cq, whole('cqe', 64, { min: 1, max: 2 ** 31 - 1, past: LIMITS })],
  modifyCq: [cq, whole('maxCount', 1, { max: 0xffff }), whole('periodUs', 1, { max: 0xffff })],
  destroyCq: [cq],
  reqNotifyCq: [cq],
  createSrq: [
    pd,
    struct('attr', () => ({ maxWr: 4, maxSge: 1 }), [
      whole('maxWr', 4, { min: 1, max: 2 ** 31 - 1, past: LIMITS }),
      whole('maxSge', 1, { max: 2 ** 31 - 1, past: LIMITS }),
    ]),
  ],
  modifySrq: [
    handle('srq'),
    struct('attr', () => ({ srqLimit: 1 }), [whole('srqLimit', 1)]),
    whole('mask', V.IBV_SRQ_LIMIT, { max: 3 }),
  ],
  querySrq: [handle('srq')],
  destroySrq: [handle('srq')],
  createQp: [pd, qpInit],
  modifyQp: [qp, qpAttr, whole('mask', INIT, { max: 2 ** 31 - 1 })],
  queryQp: [qp],
  destroyQp: [qp],
  modifyQpRateLimit: [
    qp,
    struct('limit', () => ({ rateLimitKbps: 0 }), [whole('rateLimitKbps', 0, { max: 2 ** 32 - 1 })]),
  ],
  queryQpDataInOrder: [qp, whole('opcode', V.IBV_WR_RDMA_WRITE), whole('flags', 0)],
  queryEce: [qp],
  setEce: [qp, typed('ece', () => ({ vendorId: 0, options: 0 }), ...NOT_OBJECTS)],
  attachMcast: [
    handle('udQp'),
    typed('gid', () => '::ffff:224.1.2.3', ['a number', 4], ['no address', 'x'], ['undefined', undefined]),
    whole('lid', 0, { max: 0xffff }),
  ],
  detachMcast: [
    handle('udQp'),
    typed('gid', () => '::ffff:224.1.2.3', ['a number', 4], ['no address', 'x'], ['undefined', undefined]),
    whole('lid', 0, { max: 0xffff }),
  ],
  createWrRing: [
    whole('capacity', 4, { min: 1, max: 2 ** 31, past: LIMITS }),
    whole('sges', 2, { max: 2 ** 31, past: LIMITS }),
    whole('inlineBytes', 0, { max: 2 ** 31, past: LIMITS }),
  ],
  createWcRing: [whole('capacity', 4, { min: 1, max: 2 ** 31, past: LIMITS })],
  destroyRing: [handle('wrRing')],
  // Start and count are on the hot path: the ring's header reports them (below).
  postSend: [qp, handle('wrRing')],
  postRecv: [qp, handle('wrRing')],
  postSrqRecv: [handle('srq'), handle('wrRing')],
  validateSend: [qp, handle('wrRing')],
  pollCq: [cq, handle('wcRing'), whole('start', 0, { max: 4 }), whole('max', 0, { max: 4 })],
};

/** Valid numbers that follow the arguments of a table row. */
const REST: Partial<Record<keyof V.Verbs, unknown[]>> = {
  refAsyncEvents: [false],
  refCompChannel: [false],
  reqNotifyCq: [false],
  postSend: [0, 0],
  postRecv: [0, 0],
  postSrqRecv: [0, 0],
  validateSend: [0],
};

/** The complaint about a call with one wrong argument; '' if it was rejected correctly. */
function verdict(
  verb: string,
  fault: { what: string; codes: readonly string[] },
  call: () => unknown,
): string {
  try {
    const result = call();
    return `${fault.what}: took it (${String(result)})`;
  } catch (error) {
    if (!(error instanceof V.IsoverbsError)) return `${fault.what}: untyped ${String(error)}`;
    const { code, message } = error;
    if (!fault.codes.includes(code) && code !== 'ISO_ERR_UNSUPPORTED')
      return `${fault.what}: ${code} ${message}`;
    return message.includes(verb) ? '' : `${fault.what}: does not name the verb: ${message}`;
  }
}

/** The code of the error that `call` throws. */
function codeOf(call: () => unknown): string {
  try {
    call();
    return 'nothing was thrown';
  } catch (error) {
    return error instanceof V.IsoverbsError ? error.code : String(error);
  }
}

/** Makes all wrong calls of one verb; returns the complaints. */
function complaints(world: World, verb: keyof V.Verbs): string[] {
  const args = TABLE[verb];
  const call = world.p[verb] as (...values: unknown[]) => unknown;
  const found: string[] = [];
  args.forEach((arg, i) => {
    for (const fault of arg.faults(world)) {
      const values = [...args.map((one) => one.good(world)), ...(REST[verb] ?? [])];
      values[i] = fault.value;
      const text = verdict(verb, fault, () => call(...values));
      if (text !== '') found.push(`${arg.name} is ${text}`);
    }
  });
  return found;
}

feature('every verb refuses every wrong argument', { group: 'errors', others: 'every device' }, (it) => {
  for (const verb of V.VERB_NAMES) {
    it(verb, (ground: Ground) => {
      const world = new World(ground);
      expect(complaints(world, verb)).toEqual([]);
      world.close();
    });
  }
});

feature('modifyQp refuses every wrong label', { group: 'errors', others: 'every device' }, (it) => {
  const good = { qpWeight: 2, group: 'batch', traffic: V.ISO_TRAFFIC_LATENCY };
  const codesOf = (world: World, field: Arg, queuePair: number) =>
    field.faults(world).map(({ what, value }) => {
      const attr = { ...good, [field.name]: value } as V.QpAttr;
      return [what, codeOf(() => world.p.modifyQp(queuePair, attr, LABELS))];
    });
  for (const field of qpLabels) {
    it(field.name, (ground) => {
      const world = new World(ground);
      const codes = codesOf(world, { ...field, name: field.name }, world.live.qp);
      expect(codes.filter(([, code]) => code !== 'ISO_ERR_ARGUMENT')).toEqual([]);
      const { qpWeight, group, traffic } = world.p.queryQp(world.live.qp).attr;
      expect({ qpWeight, group, traffic }).toEqual({ qpWeight: 1, group: '', traffic: 0 });
      world.close();
    });
  }
  it('a destroyed queue pair', (ground) => {
    const world = new World(ground);
    for (const fault of qp.faults(world)) {
      const call = () => world.p.modifyQp(fault.value as number, good, LABELS);
      expect(verdict('modifyQp', fault, call)).toBe('');
    }
    world.close();
  });
});

feature('objects of two contexts do not mix', { group: 'errors', others: 'every device' }, (it) => {
  const foreign = (title: string, call: (ours: World, theirs: World) => unknown) =>
    it(title, (ground) => {
      const ours = new World(ground);
      const theirs = new World(ground);
      // A device without the feature may report that instead.
      expect(codeOf(() => call(ours, theirs))).toMatch(/^ISO_ERR_(HANDLE|UNSUPPORTED)$/);
      theirs.close();
      ours.close();
    });
  const init = (w: World) => ({
    qpType: V.IBV_QPT_RC,
    sendCq: w.live.cq,
    recvCq: w.live.cq,
    cap: CAP,
    sqSigAll: false,
  });
  foreign('createQp with a sendCq of another', (a, b) =>
    a.p.createQp(a.live.pd, { ...init(a), sendCq: b.live.cq }),
  );
  foreign('createQp with a recvCq of another', (a, b) =>
    a.p.createQp(a.live.pd, { ...init(a), recvCq: b.live.cq }),
  );
  foreign('createQp with an srq of another', (a, b) =>
    a.p.createQp(a.live.pd, { ...init(a), srq: b.live.srq }),
  );
  foreign('createCq with a channel of another', (a, b) => a.p.createCq(a.live.context, 4, b.live.channel));
  foreign('reregMr to a pd of another', (a, b) => a.p.reregMr(a.live.mr, { pd: b.live.pd }));
});

feature('ranges outside a ring', { group: 'errors', others: 'every device' }, (it) => {
  const posts = ['postSend', 'postRecv', 'postSrqRecv'] as const;
  for (const verb of posts) {
    it(verb, (ground) => {
      const world = new World(ground);
      const batch = new V.SendBatch(world.p, { capacity: 4 });
      const object = verb === 'postSrqRecv' ? world.live.srq : world.live.qp;
      const ranges: [number, number][] = [
        [-1, 1],
        [0, 5],
        [4, 1],
        [2, 3],
        [0.5, 1],
        [Number.NaN, 1],
        [0, Number.NaN],
        [0, 2 ** 32],
        [2 ** 32, 1],
        [0, -1],
      ];
      for (const [start, count] of ranges) {
        expect([start, count, world.p[verb](object, batch.ring, start, count)]).toEqual([start, count, 0]);
        expect([start, count, batch.errno, batch.reason]).toEqual([start, count, V.EINVAL, V.REASON_RANGE]);
      }
      batch.close();
      world.close();
    });
  }
});

test('the table has a row for each verb', () => {
  expect(Object.keys(TABLE).sort()).toEqual([...V.VERB_NAMES].sort());
});
