/** RC: each completion status, for each opcode that can have it; requests behind a failed one are flushed. */
import * as V from '../../../src/verbs/index.ts';
import { type Case, posts, type Run } from '../suite/case.ts';
import * as O from '../suite/op.ts';
import { MEMORY_BYTES } from '../suite/scene.ts';
import type { Setup } from '../suite/setup.ts';
import { OPS } from './reliable.ts';

const NO_KEY = 0xdead01;
const ALL =
  V.IBV_ACCESS_LOCAL_WRITE |
  V.IBV_ACCESS_REMOTE_WRITE |
  V.IBV_ACCESS_REMOTE_READ |
  V.IBV_ACCESS_REMOTE_ATOMIC;
/** The message extends beyond the region from its middle on. */
const ACROSS_THE_END = MEMORY_BYTES - (O.LONG >> 1);

const REMOTE = OPS.filter(([opcode]) => !opcode.startsWith('SEND'));
const RDMA = REMOTE.slice(0, 3);
const TAKES_RECEIVE = OPS.filter(([opcode]) => opcode.startsWith('SEND') || opcode.endsWith('IMM'));
const SENDS = OPS.filter(([opcode]) => opcode.startsWith('SEND'));

/** The tested request is the second of three. */
function second(make: (extra?: O.Extra) => O.Op, extra: O.Extra): Run {
  return posts(O.write({ bytes: 8 }), make({ isFaulty: true, ...extra }), O.write());
}

const failed = (status: string) => ['1 SUCCESS RDMA_WRITE', `2 ${status}`, '3 WR_FLUSH_ERR'];
const ONE: Setup = { recvs: 1 };
const FLUSHED = ['101 WR_FLUSH_ERR'];
const LOCAL_KEY = 'an invalid local key causes LOC_QP_OP_ERR, except for response data';

const localKey = OPS.map(
  ([opcode, make]): Case => ({
    name: `RC ${opcode} with an invalid local key`,
    setup: ONE,
    run: second(make, { lkey: NO_KEY }),
    expect: { a: failed('LOC_PROT_ERR') },
    ...(!O.comesBack(make().kind) && { rxe: { why: LOCAL_KEY, expect: { a: failed('LOC_QP_OP_ERR') } } }),
  }),
);

const remoteKey = REMOTE.map(
  ([opcode, make]): Case => ({
    name: `RC ${opcode} with an invalid remote key`,
    setup: ONE,
    run: second(make, { rkey: NO_KEY }),
    expect: { a: failed('REM_ACCESS_ERR'), 'b recv': FLUSHED, events: ['b0 QP_ACCESS_ERR'] },
  }),
);

const remoteRange = RDMA.map(
  ([opcode, make]): Case => ({
    name: `RC ${opcode} across the end of the region`,
    setup: ONE,
    run: second(make, { at: ACROSS_THE_END }),
    expect: { a: failed('REM_ACCESS_ERR'), 'b recv': FLUSHED, events: ['b0 QP_ACCESS_ERR'] },
  }),
);

const NEEDS: [string, number][] = [
  ['RDMA_WRITE', V.IBV_ACCESS_REMOTE_WRITE],
  ['RDMA_WRITE_WITH_IMM', V.IBV_ACCESS_REMOTE_WRITE],
  ['RDMA_READ', V.IBV_ACCESS_REMOTE_READ],
  ['FETCH_AND_ADD', V.IBV_ACCESS_REMOTE_ATOMIC],
  ['CMP_AND_SWP', V.IBV_ACCESS_REMOTE_ATOMIC],
];
const maker = (opcode: string) => (OPS.find(([name]) => name === opcode) ?? OPS[0])[1];

const access = NEEDS.flatMap(([opcode, right]): Case[] => [
  {
    name: `RC ${opcode} into a region that does not permit it`,
    setup: { ...ONE, mrAccess: ALL & ~right },
    async run(scene) {
      scene.post('a', maker(opcode)({ isFaulty: true }), O.write());
      await scene.settle();
    },
    expect: { a: ['1 REM_ACCESS_ERR', '2 WR_FLUSH_ERR'], 'b recv': FLUSHED, events: ['b0 QP_ACCESS_ERR'] },
  },
  {
    name: `RC ${opcode} to a queue pair that does not permit it`,
    setup: { ...ONE, qpAccess: ALL & ~right },
    async run(scene) {
      scene.post('a', maker(opcode)({ isFaulty: true }), O.write());
      await scene.settle();
    },
    expect: { a: ['1 REM_INV_REQ_ERR', '2 WR_FLUSH_ERR'], 'b recv': FLUSHED, events: ['b0 QP_REQ_ERR'] },
  },
]);

const tooShort = SENDS.map(
  ([opcode, make]): Case => ({
    name: `RC ${opcode} longer than its receive`,
    setup: { recvs: 0 },
    async run(scene) {
      scene.recv('b', 1, { bytes: 1000 });
      scene.recv('b');
      await second(make, {})(scene);
    },
    expect: { a: failed('REM_INV_REQ_ERR'), 'b recv': ['101 LOC_LEN_ERR', '102 WR_FLUSH_ERR'] },
    rxe: {
      why: 'a message that is too long causes an operation error at both ends',
      expect: { a: failed('REM_OP_ERR'), 'b recv': ['101 LOC_QP_OP_ERR', '102 WR_FLUSH_ERR'] },
    },
  }),
);

const receiveKey = SENDS.map(
  ([opcode, make]): Case => ({
    name: `RC ${opcode} into a receive with an invalid local key`,
    setup: { recvs: 0 },
    async run(scene) {
      scene.recv('b', 1, { lkey: NO_KEY });
      scene.recv('b');
      await second(make, {})(scene);
    },
    expect: { a: failed('REM_OP_ERR'), 'b recv': ['101 LOC_PROT_ERR', '102 WR_FLUSH_ERR'] },
    rxe: {
      why: LOCAL_KEY,
      expect: { a: failed('REM_OP_ERR'), 'b recv': ['101 LOC_QP_OP_ERR', '102 WR_FLUSH_ERR'] },
    },
  }),
);

const notReady = TAKES_RECEIVE.map(
  ([opcode, make]): Case => ({
    name: `RC ${opcode} without a receive, until it gives up`,
    setup: { recvs: 0, rnrRetry: 1 },
    run: second(make, {}),
    expect: { a: failed('RNR_RETRY_EXC_ERR') },
  }),
);

const ready = TAKES_RECEIVE.map(
  ([opcode, make]): Case => ({
    name: `RC ${opcode} before its receive, which is posted in time`,
    setup: { recvs: 0, rnrRetry: 7 },
    async run(scene) {
      scene.post('a', make());
      await scene.nap();
      scene.recv('b');
      await scene.settle();
    },
    expect: {
      a: [`1 SUCCESS ${O.WC_NAMES[make().kind]}`],
      'b recv': [
        `101 SUCCESS ${make().kind === 'writeImm' ? 'RECV_RDMA_WITH_IMM' : 'RECV'} 3000${make().kind === 'send' ? '' : ' imm 1001'}`,
      ],
    },
  }),
);

const gone = OPS.map(
  ([opcode, make]): Case => ({
    name: `RC ${opcode} to a destroyed queue pair`,
    setup: { ...ONE, retryCnt: 1, timeout: 8 },
    async run(scene) {
      scene.destroy('b');
      scene.post('a', make({ isFaulty: true }), O.write());
      await scene.settle();
    },
    expect: { a: ['1 RETRY_EXC_ERR', '2 WR_FLUSH_ERR'] },
  }),
);

const inError = OPS.map(
  ([opcode, make]): Case => ({
    name: `RC ${opcode} posted in ERR`,
    setup: ONE,
    async run(scene) {
      scene.modify('a', { qpState: V.IBV_QPS_ERR });
      scene.post('a', make({ isFaulty: true, flags: 0 }), make({ isFaulty: true }));
      await scene.settle();
    },
    expect: { a: ['1 WR_FLUSH_ERR', '2 WR_FLUSH_ERR'] },
  }),
);

const behind = OPS.map(
  ([opcode, make]): Case => ({
    name: `RC ${opcode}, unsignaled, flushed behind a failed request`,
    setup: ONE,
    run: posts(O.write({ rkey: NO_KEY, isFaulty: true }), make({ flags: 0 })),
    expect: { a: ['1 REM_ACCESS_ERR', '2 WR_FLUSH_ERR'], 'b recv': FLUSHED, events: ['b0 QP_ACCESS_ERR'] },
  }),
);

const recovered = (status: string) => ({
  a: [...failed(status), '4 SUCCESS RDMA_WRITE', '5 SUCCESS RDMA_READ 3000'],
  calls: ['ERR'],
});

const again: Case[] = [
  ['a local key', { lkey: NO_KEY }, 'LOC_PROT_ERR', []],
  ['a remote key', { rkey: NO_KEY }, 'REM_ACCESS_ERR', ['b0 QP_ACCESS_ERR']],
  ['the end of the region', { at: ACROSS_THE_END }, 'REM_ACCESS_ERR', ['b0 QP_ACCESS_ERR']],
].map(([what, extra, status, events]) => ({
  name: `RC after an error by ${what}, RESET and connected again`,
  setup: { recvs: 0 },
  async run(scene) {
    scene.post('a', O.write(), O.write({ ...(extra as O.Extra), isFaulty: true }), O.write());
    await scene.settle();
    scene.note(`${scene.state('a')}`);
    for (const end of ['a', 'b']) scene.modify(end, { qpState: V.IBV_QPS_RESET });
    scene.connect();
    await posts(O.write(), O.read())(scene);
  },
  expect: { ...recovered(status as string), events: events as string[] },
  ...(status === 'LOC_PROT_ERR' && { rxe: { why: LOCAL_KEY, expect: recovered('LOC_QP_OP_ERR') } }),
}));

const rest: Case[] = [
  {
    name: 'RC an unsignaled request that fails completes',
    setup: ONE,
    run: posts(O.write({ flags: 0 }), O.write({ flags: 0, rkey: NO_KEY, isFaulty: true })),
    expect: { a: ['2 REM_ACCESS_ERR'], 'b recv': FLUSHED, events: ['b0 QP_ACCESS_ERR'] },
  },
  {
    name: 'RC the last of many requests fails',
    setup: ONE,
    run: posts(...[1, 2, 3, 4, 5].map(() => O.write()), O.read({ rkey: NO_KEY, isFaulty: true })),
    expect: {
      a: [...[1, 2, 3, 4, 5].map((id) => `${id} SUCCESS RDMA_WRITE`), '6 REM_ACCESS_ERR'],
      'b recv': FLUSHED,
      events: ['b0 QP_ACCESS_ERR'],
    },
  },
  {
    name: 'RC two requests that would fail: the first one fails, the other is flushed',
    setup: ONE,
    run: posts(O.write({ rkey: NO_KEY, isFaulty: true }), O.write({ lkey: NO_KEY, isFaulty: true })),
    expect: { a: ['1 REM_ACCESS_ERR', '2 WR_FLUSH_ERR'], 'b recv': FLUSHED, events: ['b0 QP_ACCESS_ERR'] },
  },
  {
    name: 'RC a request posted after the error was polled is flushed',
    setup: ONE,
    async run(scene) {
      await posts(O.write({ rkey: NO_KEY, isFaulty: true }))(scene);
      await posts(O.write(), O.send({ flags: 0 }))(scene);
    },
    expect: {
      a: ['1 REM_ACCESS_ERR', '2 WR_FLUSH_ERR', '3 WR_FLUSH_ERR'],
      'b recv': FLUSHED,
      events: ['b0 QP_ACCESS_ERR'],
    },
  },
  {
    name: 'RC one queue pair fails, another on the same completion queue continues',
    setup: { pairs: 2, recvs: 1 },
    async run(scene) {
      scene.post('a1', O.write());
      scene.post('a', O.write({ rkey: NO_KEY, isFaulty: true }), O.write());
      scene.post('a1', O.read(), O.send());
      await scene.settle();
    },
    expect: {
      a: ['2 REM_ACCESS_ERR', '3 WR_FLUSH_ERR'],
      a1: ['1 SUCCESS RDMA_WRITE', '4 SUCCESS RDMA_READ 3000', '5 SUCCESS SEND'],
      'b recv': FLUSHED,
      'b1 recv': ['102 SUCCESS RECV 3000'],
      events: ['b0 QP_ACCESS_ERR'],
    },
  },
  {
    name: 'RC the responder fails while it has outstanding sends',
    setup: { recvs: 1 },
    async run(scene) {
      await posts(O.write({ rkey: NO_KEY, isFaulty: true }))(scene);
      scene.post('b', O.write({ flags: 0 }), O.write());
      await scene.settle();
    },
    expect: {
      a: ['1 REM_ACCESS_ERR'],
      b: ['2 WR_FLUSH_ERR', '3 WR_FLUSH_ERR'],
      'b recv': FLUSHED,
      events: ['b0 QP_ACCESS_ERR'],
    },
  },
  {
    name: 'RC inline data to an invalid remote key',
    setup: ONE,
    run: posts(
      O.write({
        bytes: 40,
        inline: true,
        flags: O.SIGNALED | V.IBV_SEND_INLINE,
        rkey: NO_KEY,
        isFaulty: true,
      }),
      O.write(),
    ),
    expect: { a: ['1 REM_ACCESS_ERR', '2 WR_FLUSH_ERR'], 'b recv': FLUSHED, events: ['b0 QP_ACCESS_ERR'] },
  },
];

export const cases: Case[] = [
  ...localKey,
  ...remoteKey,
  ...remoteRange,
  ...access,
  ...tooShort,
  ...receiveKey,
  ...notReady,
  ...ready,
  ...gone,
  ...inError,
  ...behind,
  ...again,
  ...rest,
];
