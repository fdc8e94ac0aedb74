/** Memory windows of both types, LOCAL_INV and SEND_WITH_INV. */
import * as V from '../../../src/verbs/index.ts';
import { type Case, type Departure, posts } from '../suite/case.ts';
import * as O from '../suite/op.ts';
import type { Scene } from '../suite/scene.ts';
import type { Setup } from '../suite/setup.ts';
import { done, OPS } from './reliable.ts';

const ALL =
  V.IBV_ACCESS_LOCAL_WRITE |
  V.IBV_ACCESS_REMOTE_WRITE |
  V.IBV_ACCESS_REMOTE_READ |
  V.IBV_ACCESS_REMOTE_ATOMIC |
  V.IBV_ACCESS_MW_BIND;
const REMOTE = V.IBV_ACCESS_REMOTE_WRITE | V.IBV_ACCESS_REMOTE_READ | V.IBV_ACCESS_REMOTE_ATOMIC;
const BYTES = 6000;
const TYPES = [V.IBV_MW_TYPE_1, V.IBV_MW_TYPE_2];
const SETUP: Setup = { mrAccess: ALL, recvs: 2 };
const WHOLE_REGION: Departure = { why: 'a window gives access to the whole region to which it is bound' };
const INVALIDATION: Departure = {
  why: "for a key other than a bound window's, it does something else, or crashes the kernel",
};

interface Window {
  mw: V.MwInfo;
  at: number;
  rkey: number;
}

function makeWindow(scene: Scene, type: number): Window {
  const mw = scene.p.allocMw(scene.b.pd, type);
  scene.windowsFirst(() => scene.p.deallocMw(mw.handle));
  return { mw, at: scene.sides.b.memory.take(BYTES), rkey: mw.rkey };
}

/** Posts the bind at b0; afterwards `rkey` contains the new key. */
function bind(
  scene: Scene,
  window: Window,
  more: { access?: number; bytes?: number; mr?: number } = {},
): void {
  const { mw, at } = window;
  const { rkey } = scene.p.queryMw(mw.handle);
  const next = ((rkey & ~0xff) | ((rkey + 1) & 0xff)) >>> 0;
  const { access = REMOTE, bytes = BYTES, mr } = more;
  const key = mw.type === V.IBV_MW_TYPE_2 ? next : 0;
  scene.post('b', O.bind({ mw, at, bytes, access, rkey: key, mr }));
  window.rkey = scene.p.queryMw(mw.handle).rkey;
}

async function bound(scene: Scene, type: number): Promise<Window> {
  const window = makeWindow(scene, type);
  bind(scene, window);
  await scene.settle();
  return window;
}

const REACHES = OPS.filter(([opcode]) => !opcode.startsWith('SEND'));
const BOUND = '1 SUCCESS BIND_MW';

const through = TYPES.flatMap((type) =>
  REACHES.map(
    ([opcode, make]): Case => ({
      name: `window of type ${type}: RC ${opcode} through it`,
      setup: SETUP,
      async run(scene) {
        const { at, rkey } = await bound(scene, type);
        await posts(make({ at, rkey }), O.write())(scene);
      },
      expect: {
        a: [done(2, make()), '3 SUCCESS RDMA_WRITE'],
        b: [BOUND],
        'b recv': opcode.endsWith('IMM') ? ['101 SUCCESS RECV_RDMA_WITH_IMM 3000 imm 1002'] : [],
      },
    }),
  ),
);

const outside = TYPES.flatMap((type) =>
  REACHES.slice(0, 3).map(
    ([opcode, make]): Case => ({
      name: `window of type ${type}: RC ${opcode} across its end`,
      setup: SETUP,
      async run(scene) {
        const { at, rkey } = await bound(scene, type);
        await posts(make({ at: at + BYTES - 1500, rkey, isFaulty: true }), O.write())(scene);
      },
      expect: {
        a: ['2 REM_ACCESS_ERR', '3 WR_FLUSH_ERR'],
        b: [BOUND],
        'b recv': ['101 WR_FLUSH_ERR', '102 WR_FLUSH_ERR'],
        events: ['b0 QP_ACCESS_ERR'],
      },
      rxe: WHOLE_REGION,
    }),
  ),
);

const NEEDED = [
  V.IBV_ACCESS_REMOTE_WRITE,
  V.IBV_ACCESS_REMOTE_WRITE,
  V.IBV_ACCESS_REMOTE_READ,
  V.IBV_ACCESS_REMOTE_ATOMIC,
];
const rights = REACHES.slice(0, 4).map(
  ([opcode, make], i): Case => ({
    name: `window: RC ${opcode} through one that was bound without that access`,
    setup: SETUP,
    async run(scene) {
      const window = makeWindow(scene, V.IBV_MW_TYPE_2);
      bind(scene, window, { access: REMOTE & ~NEEDED[i] });
      await scene.settle();
      await posts(make({ at: window.at, rkey: window.rkey, isFaulty: true }))(scene);
    },
    expect: {
      a: ['2 REM_ACCESS_ERR'],
      b: [BOUND],
      'b recv': ['101 WR_FLUSH_ERR', '102 WR_FLUSH_ERR'],
      events: ['b0 QP_ACCESS_ERR'],
    },
  }),
);

const closed = (
  name: string,
  type: number,
  close: (scene: Scene, window: Window) => void,
  expect: Case['expect'],
  rxe?: Departure,
): Case => ({
  name,
  setup: SETUP,
  async run(scene) {
    const window = await bound(scene, type);
    await posts(O.write({ at: window.at, rkey: window.rkey }))(scene);
    close(scene, window);
    await scene.settle();
    await posts(O.write({ at: window.at, rkey: window.rkey, isFaulty: true }))(scene);
  },
  expect,
  ...(rxe && { rxe }),
});

const rest: Case[] = [
  closed(
    'window of type 2: LOCAL_INV closes it',
    V.IBV_MW_TYPE_2,
    (scene, { rkey }) => scene.post('b', O.write({ flags: 0 }), O.localInv(rkey)),
    {
      a: ['2 SUCCESS RDMA_WRITE', '5 REM_ACCESS_ERR'],
      b: [BOUND, '4 SUCCESS LOCAL_INV'],
      'b recv': ['101 WR_FLUSH_ERR', '102 WR_FLUSH_ERR'],
      events: ['b0 QP_ACCESS_ERR'],
    },
  ),
  closed(
    'window of type 2: SEND_WITH_INV of the peer closes it',
    V.IBV_MW_TYPE_2,
    (scene, { rkey }) => scene.post('a', O.write({ flags: 0 }), O.sendInv(rkey)),
    {
      a: ['2 SUCCESS RDMA_WRITE', '4 SUCCESS SEND', '5 REM_ACCESS_ERR'],
      b: [BOUND],
      'b recv': ['101 SUCCESS RECV 3000 invalidated', '102 WR_FLUSH_ERR'],
      events: ['b0 QP_ACCESS_ERR'],
    },
  ),
  closed(
    'window of type 1: a bind of length 0 closes it',
    V.IBV_MW_TYPE_1,
    (scene, { mw, at }) => scene.post('b', O.bind({ mw, at, bytes: 0, access: 0, rkey: 0 })),
    {
      a: ['2 SUCCESS RDMA_WRITE', '4 REM_ACCESS_ERR'],
      b: [BOUND, '3 SUCCESS BIND_MW'],
      'b recv': ['101 WR_FLUSH_ERR', '102 WR_FLUSH_ERR'],
      events: ['b0 QP_ACCESS_ERR'],
    },
  ),
  closed(
    'window of type 1: binding it again gives another key, and the old one gives no access',
    V.IBV_MW_TYPE_1,
    (scene, window) => bind(scene, { ...window }),
    {
      a: ['2 SUCCESS RDMA_WRITE', '4 REM_ACCESS_ERR'],
      b: [BOUND, '3 SUCCESS BIND_MW'],
      'b recv': ['101 WR_FLUSH_ERR', '102 WR_FLUSH_ERR'],
      events: ['b0 QP_ACCESS_ERR'],
    },
  ),
  {
    name: 'window of type 2: bound again while bound, MW_BIND_ERR',
    setup: SETUP,
    async run(scene) {
      const window = await bound(scene, V.IBV_MW_TYPE_2);
      bind(scene, { ...window });
      scene.post('b', O.write({ isFaulty: true }));
      await scene.settle();
    },
    expect: {
      b: [BOUND, '2 MW_BIND_ERR', '3 WR_FLUSH_ERR'],
      'b recv': ['101 WR_FLUSH_ERR', '102 WR_FLUSH_ERR'],
    },
  },
  {
    name: 'window: a region that does not permit windows, MW_BIND_ERR',
    setup: { mrAccess: ALL & ~V.IBV_ACCESS_MW_BIND, recvs: 1 },
    async run(scene) {
      const window = makeWindow(scene, V.IBV_MW_TYPE_2);
      scene.post('b', O.write());
      bind(scene, window);
      scene.post('b', O.write({ isFaulty: true }));
      await scene.settle();
    },
    expect: {
      b: ['1 SUCCESS RDMA_WRITE', '2 MW_BIND_ERR', '3 WR_FLUSH_ERR'],
      'b recv': ['101 WR_FLUSH_ERR'],
    },
  },
  ...TYPES.map(
    (type): Case => ({
      name: `window of type ${type}: a SEND behind the bind carries the key to the peer`,
      setup: SETUP,
      async run(scene) {
        scene.recv('a');
        const window = makeWindow(scene, type);
        scene.post('b', O.write());
        bind(scene, window);
        scene.post('b', O.send());
        await scene.settle();
        await posts(O.read({ at: window.at, rkey: window.rkey }))(scene);
      },
      expect: {
        a: ['4 SUCCESS RDMA_READ 3000'],
        'a recv': ['103 SUCCESS RECV 3000'],
        b: ['1 SUCCESS RDMA_WRITE', '2 SUCCESS BIND_MW', '3 SUCCESS SEND'],
      },
    }),
  ),
  {
    name: 'window of type 2: closed by LOCAL_INV, bound again, open',
    setup: SETUP,
    async run(scene) {
      const window = await bound(scene, V.IBV_MW_TYPE_2);
      scene.post('b', O.localInv(window.rkey, { flags: 0 }));
      bind(scene, window);
      await scene.settle();
      await posts(O.write({ at: window.at, rkey: window.rkey }))(scene);
    },
    expect: { a: ['4 SUCCESS RDMA_WRITE'], b: [BOUND, '3 SUCCESS BIND_MW'] },
  },
  {
    name: "LOCAL_INV of a key that is not a window's, LOC_QP_OP_ERR",
    setup: SETUP,
    async run(scene) {
      scene.post('b', O.write(), O.localInv(0xbeef01), O.write({ isFaulty: true }));
      await scene.settle();
    },
    expect: {
      b: ['1 SUCCESS RDMA_WRITE', '2 LOC_QP_OP_ERR', '3 WR_FLUSH_ERR'],
      'b recv': ['101 WR_FLUSH_ERR', '102 WR_FLUSH_ERR'],
    },
    rxe: INVALIDATION,
  },
  {
    name: "SEND_WITH_INV of a key that is not a window's, REM_ACCESS_ERR",
    setup: SETUP,
    run: posts(O.write(), O.sendInv(0xbeef01, { isFaulty: true }), O.write({ isFaulty: true })),
    expect: {
      a: ['1 SUCCESS RDMA_WRITE', '2 REM_ACCESS_ERR', '3 WR_FLUSH_ERR'],
      'b recv': ['101 REM_INV_REQ_ERR', '102 WR_FLUSH_ERR'],
    },
    rxe: INVALIDATION,
  },
  {
    name: 'window: a bind that names no region is refused when it is posted',
    setup: SETUP,
    async run(scene) {
      const { mw, at } = makeWindow(scene, V.IBV_MW_TYPE_2);
      scene.post('b', O.write(), O.bind({ mw, at, bytes: 10, access: REMOTE, rkey: mw.rkey + 1, mr: 12345 }));
      await scene.settle();
    },
    expect: {
      b: ['1 SUCCESS RDMA_WRITE'],
      calls: [
        `b0 takes 1 of 2: ${V.EINVAL} the BIND_MW names no such window and region of this protection domain`,
      ],
    },
  },
  {
    name: 'window: a region with a bound window is not deregistered',
    setup: SETUP,
    async run(scene) {
      await bound(scene, V.IBV_MW_TYPE_2);
      scene.attempt('deregMr', () => scene.p.deregMr(scene.b.mr.handle));
    },
    expect: { b: [BOUND], calls: ['deregMr: ISO_ERR_BUSY'] },
  },
  {
    name: 'a window that is deallocated while bound gives no access',
    setup: SETUP,
    async run(scene) {
      const mw = scene.p.allocMw(scene.b.pd, V.IBV_MW_TYPE_2);
      const window = { mw, at: scene.sides.b.memory.take(BYTES), rkey: mw.rkey };
      bind(scene, window);
      await scene.settle();
      scene.p.deallocMw(mw.handle);
      await posts(O.write({ at: window.at, rkey: window.rkey, isFaulty: true }))(scene);
    },
    expect: {
      a: ['2 REM_ACCESS_ERR'],
      b: [BOUND],
      'b recv': ['101 WR_FLUSH_ERR', '102 WR_FLUSH_ERR'],
      events: ['b0 QP_ACCESS_ERR'],
    },
  },
];

export const cases: Case[] = [...through, ...outside, ...rights, ...rest];
