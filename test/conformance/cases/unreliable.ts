/** UC and UD: each opcode with each flag, losses, and SQE. */
import * as V from '../../../src/verbs/index.ts';
import { type Case, posts } from '../suite/case.ts';
import * as O from '../suite/op.ts';
import type { Scene } from '../suite/scene.ts';
import type { Setup } from '../suite/setup.ts';

const NO_KEY = 0xdead01;
const LOCAL_KEY = 'an invalid local key causes LOC_QP_OP_ERR';
const TOO_LONG = 'a message that is too long causes LOC_QP_OP_ERR, and the queue pair goes to ERR';
const UC: Setup = { transport: 'UC' };
const UD: Setup = { transport: 'UD' };
const DATAGRAM = 900;
const GRH = 40;

const FLAGS: [string, number, Setup?][] = [
  ['signaled', O.SIGNALED],
  ['unsignaled', 0],
  ['unsignaled, sq_sig_all', 0, { sigAll: true }],
  ['fenced', O.SIGNALED | O.FENCE],
  ['solicited', O.SIGNALED | O.SOLICITED],
];

const UC_OPS: [string, (extra?: O.Extra) => O.Op][] = [
  ['RDMA_WRITE', O.write],
  ['RDMA_WRITE_WITH_IMM', O.writeImm],
  ['SEND', O.send],
  ['SEND_WITH_IMM', O.sendImm],
];
const UD_OPS = UC_OPS.slice(2);

function plain(setup: Setup, name: string, op: O.Op, header = 0): Case {
  const isSignaled = setup.sigAll === true || (op.flags & O.SIGNALED) !== 0;
  const bytes = op.sges.reduce((sum, n) => sum + n, header);
  const imm = op.kind === 'writeImm' || op.kind === 'sendImm' ? ' imm 1001' : '';
  const opcode = op.kind === 'writeImm' ? 'RECV_RDMA_WITH_IMM' : 'RECV';
  const arrives =
    op.kind === 'write' ? [] : [`101 SUCCESS ${opcode} ${bytes}${imm}${header > 0 ? ' grh' : ''}`];
  return {
    name,
    setup,
    run: posts(op),
    expect: { a: isSignaled ? [`1 SUCCESS ${O.WC_NAMES[op.kind]}`] : [], 'b recv': arrives },
  };
}

const asInline = { bytes: 50, inline: true, flags: O.SIGNALED | V.IBV_SEND_INLINE };
const uc = UC_OPS.flatMap(([opcode, make]) => [
  ...FLAGS.map(([what, flags, setup]) =>
    plain({ ...UC, ...setup }, `UC ${opcode}, ${what}`, make({ flags })),
  ),
  plain(UC, `UC ${opcode}, inline`, make(asInline)),
  plain(UC, `UC ${opcode}, several elements`, make({ sges: [100, 1700, 1, 900] })),
  plain(UC, `UC ${opcode}, no elements`, make({ sges: [] })),
  plain({ ...UC, extended: true }, `UC ${opcode} by ibv_wr_*`, make()),
]);

const ud = UD_OPS.flatMap(([opcode, make]) => [
  ...FLAGS.map(([what, flags, setup]) =>
    plain({ ...UD, ...setup }, `UD ${opcode}, ${what}`, make({ flags, bytes: DATAGRAM }), GRH),
  ),
  plain(UD, `UD ${opcode}, inline`, make(asInline), GRH),
  plain(UD, `UD ${opcode}, several elements`, make({ sges: [100, 300, 1] }), GRH),
  plain(UD, `UD ${opcode}, no elements`, make({ sges: [] }), GRH),
  plain({ ...UD, extended: true }, `UD ${opcode} by ibv_wr_*`, make({ bytes: DATAGRAM }), GRH),
]);

const short = (transport: Setup, extra?: O.Extra) =>
  O.send({ bytes: transport === UD ? DATAGRAM : O.LONG, ...extra });
const received = (transport: Setup, id: number) =>
  `${id} SUCCESS RECV ${transport === UD ? `${DATAGRAM + GRH} grh` : O.LONG}`;

/** An invalid local key: SQE, later sends are flushed, receives continue, and the test moves to RTS again. */
async function intoSqe(scene: Scene, transport: Setup): Promise<void> {
  scene.recv('a');
  scene.post(
    'a',
    short(transport),
    short(transport, { lkey: NO_KEY, isLost: true }),
    short(transport, { isLost: true }),
  );
  await scene.settle();
  scene.note(scene.state('a'));
  scene.post('b', short(transport));
  await scene.settle();
  scene.post('a', short(transport, { isLost: true }));
  await scene.settle();
  scene.modify('a', { qpState: V.IBV_QPS_RTS });
  scene.post('a', short(transport));
  await scene.settle();
}

const TRANSPORTS = [
  ['UC', UC],
  ['UD', UD],
] as const;

const lossesOf = (name: string, transport: typeof UC | typeof UD): Case[] => [
  {
    name: `${name} a send that fails: SQE, receives continue, RTS again`,
    setup: transport,
    run: (scene) => intoSqe(scene, transport),
    expect: {
      a: ['1 SUCCESS SEND', '2 LOC_PROT_ERR', '3 WR_FLUSH_ERR', '5 WR_FLUSH_ERR', '6 SUCCESS SEND'],
      'a recv': [received(transport, 109)],
      b: ['4 SUCCESS SEND'],
      'b recv': [received(transport, 101), received(transport, 102)],
      calls: ['SQE'],
    },
    rxe: { why: 'a failed send moves the queue pair to ERR' },
  },
  {
    name: `${name} an unsignaled send that fails completes`,
    setup: transport,
    run: posts(short(transport, { flags: 0 }), short(transport, { flags: 0, lkey: NO_KEY, isLost: true })),
    expect: { a: ['2 LOC_PROT_ERR'], 'b recv': [received(transport, 101)] },
    rxe: { why: LOCAL_KEY, expect: { a: ['2 LOC_QP_OP_ERR'], 'b recv': [received(transport, 101)] } },
  },
  {
    name: `${name} a message without a receive is lost, and its sender is not notified`,
    setup: { ...transport, recvs: 0 },
    async run(scene) {
      await posts(short(transport, { isLost: true }))(scene);
      scene.recv('b');
      await posts(short(transport))(scene);
    },
    expect: { a: ['1 SUCCESS SEND', '2 SUCCESS SEND'], 'b recv': [received(transport, 101)] },
  },
  {
    name: `${name} a message longer than its receive is lost, the receive stays`,
    setup: { ...transport, recvs: 0 },
    async run(scene) {
      scene.recv('b', 1, { bytes: 600 });
      await posts(short(transport, { isLost: true }), O.send({ bytes: 100 }))(scene);
    },
    expect: {
      a: ['1 SUCCESS SEND', '2 SUCCESS SEND'],
      'b recv': [`101 SUCCESS RECV ${transport === UD ? '140 grh' : '100'}`],
    },
    rxe: {
      why: TOO_LONG,
      expect: { a: ['1 SUCCESS SEND', '2 SUCCESS SEND'], 'b recv': ['101 LOC_QP_OP_ERR'] },
    },
  },
];

const endsOf = (name: string, transport: typeof UC | typeof UD): Case[] => [
  {
    name: `${name} a message to a destroyed queue pair`,
    setup: transport,
    async run(scene) {
      scene.destroy('b');
      await posts(short(transport, { isLost: true }), short(transport, { isLost: true }))(scene);
    },
    expect: { a: ['1 SUCCESS SEND', '2 SUCCESS SEND'] },
  },
  {
    name: `${name} a receive with an invalid local key`,
    setup: { ...transport, recvs: 0 },
    async run(scene) {
      scene.recv('b', 1, { lkey: NO_KEY });
      scene.recv('b');
      await posts(short(transport, { isLost: true }))(scene);
      scene.note(scene.state('b'));
    },
    expect: { a: ['1 SUCCESS SEND'], 'b recv': ['101 LOC_PROT_ERR', '102 WR_FLUSH_ERR'], calls: ['ERR'] },
  },
  {
    name: `${name} ERR flushes posted sends and receives`,
    setup: { ...transport, recvs: 2 },
    async run(scene) {
      scene.recv('a');
      scene.modify('a', { qpState: V.IBV_QPS_ERR });
      scene.modify('b', { qpState: V.IBV_QPS_ERR });
      await posts(short(transport, { isLost: true }), short(transport, { flags: 0, isLost: true }))(scene);
    },
    expect: {
      a: ['1 WR_FLUSH_ERR', '2 WR_FLUSH_ERR'],
      'a recv': ['103 WR_FLUSH_ERR'],
      'b recv': ['101 WR_FLUSH_ERR', '102 WR_FLUSH_ERR'],
    },
  },
  {
    name: `${name} messages in both directions`,
    setup: transport,
    async run(scene) {
      scene.recv('a', 2);
      scene.post('a', short(transport), short(transport));
      scene.post('b', short(transport), short(transport, { flags: 0 }));
      await scene.settle();
    },
    expect: {
      a: ['1 SUCCESS SEND', '2 SUCCESS SEND'],
      'a recv': [received(transport, 109), received(transport, 110)],
      b: ['3 SUCCESS SEND'],
      'b recv': [received(transport, 101), received(transport, 102)],
    },
  },
];

const both = TRANSPORTS.flatMap(([name, transport]) => [
  ...lossesOf(name, transport),
  ...endsOf(name, transport),
]);

const rest: Case[] = [
  {
    name: 'UC RDMA_WRITE with an invalid remote key is lost',
    setup: UC,
    run: posts(O.write({ rkey: NO_KEY, isLost: true, isFaulty: true }), O.write()),
    expect: { a: ['1 SUCCESS RDMA_WRITE', '2 SUCCESS RDMA_WRITE'] },
  },
  {
    name: 'UC RDMA_WRITE_WITH_IMM with an invalid remote key is lost, its receive stays',
    setup: { ...UC, recvs: 1 },
    run: posts(O.writeImm({ rkey: NO_KEY, isLost: true, isFaulty: true }), O.writeImm()),
    expect: {
      a: ['1 SUCCESS RDMA_WRITE', '2 SUCCESS RDMA_WRITE'],
      'b recv': ['101 SUCCESS RECV_RDMA_WITH_IMM 3000 imm 1002'],
    },
  },
  {
    name: 'UC RDMA_WRITE with an invalid local key',
    setup: UC,
    run: posts(
      O.write({ lkey: NO_KEY, isLost: true, isFaulty: true }),
      O.write({ isLost: true, isFaulty: true }),
    ),
    expect: { a: ['1 LOC_PROT_ERR', '2 WR_FLUSH_ERR'] },
    rxe: { why: LOCAL_KEY, expect: { a: ['1 LOC_QP_OP_ERR', '2 WR_FLUSH_ERR'] } },
  },
  {
    name: 'UD a datagram with another Q_Key is dropped',
    setup: UD,
    run: posts(O.send({ bytes: 100, qkey: 0x2222, isLost: true }), O.send({ bytes: 100 })),
    expect: { a: ['1 SUCCESS SEND', '2 SUCCESS SEND'], 'b recv': ['101 SUCCESS RECV 140 grh'] },
  },
  {
    name: 'UD a datagram longer than a packet is not sent',
    setup: UD,
    run: posts(O.send({ bytes: 6000, isLost: true }), O.send({ bytes: 100 })),
    expect: { a: ['1 SUCCESS SEND', '2 SUCCESS SEND'], 'b recv': ['101 SUCCESS RECV 140 grh'] },
  },
  {
    name: 'UD datagrams of two senders to one receiver',
    setup: { ...UD, pairs: 2 },
    async run(scene) {
      scene.post('a', O.send({ bytes: 100 }));
      scene.post('a1', O.sendImm({ bytes: 200 }));
      await scene.settle();
    },
    expect: {
      a: ['1 SUCCESS SEND'],
      a1: ['2 SUCCESS SEND'],
      'b recv': ['101 SUCCESS RECV 140 grh'],
      'b1 recv': ['109 SUCCESS RECV 240 imm 1002 grh'],
    },
  },
];

export const cases: Case[] = [...uc, ...ud, ...both, ...rest];
