/** Shared receive queues and extended reliable connections. */
import * as V from '../../../src/verbs/index.ts';
import { type Case, posts } from '../suite/case.ts';
import * as O from '../suite/op.ts';
import type { Setup } from '../suite/setup.ts';
import { done, OPS } from './reliable.ts';

const SRQ: Setup = { srq: 8, recvs: 4 };
const XRC: Setup = { transport: 'XRC', recvs: 4 };
const NO_XRC = { why: 'it has no XRC' };

function arrivesShared(op: O.Op, id = 1): string[] {
  const bytes = op.sges.reduce((sum, n) => sum + n, 0);
  const imm = op.kind === 'writeImm' || op.kind === 'sendImm' ? ` imm ${id + 1000}` : '';
  if (op.kind === 'writeImm') return [`srq SUCCESS RECV_RDMA_WITH_IMM ${bytes}${imm}`];
  return O.isMessage(op.kind) ? [`srq SUCCESS RECV ${bytes}${imm}`] : [];
}

const shared = OPS.map(
  ([opcode, make]): Case => ({
    name: `shared receive queue: RC ${opcode} before and after a SEND`,
    setup: SRQ,
    run: posts(make(), O.send(), make()),
    expect: {
      a: [done(1, make()), '2 SUCCESS SEND', done(3, make())],
      'b recv': [...arrivesShared(make()), 'srq SUCCESS RECV 3000', ...arrivesShared(make(), 3)],
    },
  }),
);

const xrc = OPS.flatMap(([opcode, make]): Case[] => [
  {
    name: `XRC ${opcode}`,
    setup: XRC,
    run: posts(make(), O.write()),
    expect: { a: [done(1, make()), '2 SUCCESS RDMA_WRITE'], 'b recv': arrivesShared(make()) },
    rxe: NO_XRC,
  },
  {
    name: `XRC ${opcode}, unsignaled`,
    setup: XRC,
    run: posts(make({ flags: 0 }), O.write()),
    expect: { a: ['2 SUCCESS RDMA_WRITE'], 'b recv': arrivesShared(make()) },
    rxe: NO_XRC,
  },
]);

const rest: Case[] = [
  {
    name: 'shared receive queue: UC',
    setup: { ...SRQ, transport: 'UC' },
    run: posts(O.send(), O.sendImm()),
    expect: {
      a: ['1 SUCCESS SEND', '2 SUCCESS SEND'],
      'b recv': ['srq SUCCESS RECV 3000', 'srq SUCCESS RECV 3000 imm 1002'],
    },
  },
  {
    name: 'shared receive queue: UD',
    setup: { ...SRQ, transport: 'UD' },
    run: posts(O.send({ bytes: 100 }), O.sendImm({ bytes: 100 })),
    expect: {
      a: ['1 SUCCESS SEND', '2 SUCCESS SEND'],
      'b recv': ['srq SUCCESS RECV 140 grh', 'srq SUCCESS RECV 140 imm 1002 grh'],
    },
  },
  {
    name: 'shared receive queue: of two queue pairs',
    setup: { ...SRQ, pairs: 2 },
    async run(scene) {
      scene.post('a', O.send(), O.write());
      scene.post('a1', O.sendImm(), O.send({ bytes: 10 }));
      await scene.settle();
    },
    expect: {
      a: ['1 SUCCESS SEND', '2 SUCCESS RDMA_WRITE'],
      a1: ['3 SUCCESS SEND', '4 SUCCESS SEND'],
      'b recv': ['srq SUCCESS RECV 3000'],
      'b1 recv': ['srq SUCCESS RECV 3000 imm 1003', 'srq SUCCESS RECV 10'],
    },
  },
  {
    name: 'shared receive queue: empty: the sender retries until it gives up',
    setup: { srq: 8, recvs: 0, rnrRetry: 1 },
    run: posts(O.write(), O.send({ isFaulty: true })),
    expect: { a: ['1 SUCCESS RDMA_WRITE', '2 RNR_RETRY_EXC_ERR'] },
  },
  {
    name: 'shared receive queue: its limit is reached',
    setup: SRQ,
    async run(scene) {
      scene.p.modifySrq(scene.srq, { srqLimit: 3 }, V.IBV_SRQ_LIMIT);
      await posts(O.send(), O.send())(scene);
      scene.note(`limit ${scene.p.querySrq(scene.srq).srqLimit}`);
    },
    expect: {
      a: ['1 SUCCESS SEND', '2 SUCCESS SEND'],
      'b recv': ['srq SUCCESS RECV 3000', 'srq SUCCESS RECV 3000'],
      events: ['srq SRQ_LIMIT_REACHED'],
      calls: ['limit 0'],
    },
  },
  {
    name: 'shared receive queue: a queue pair in ERR has taken its last receive',
    setup: SRQ,
    async run(scene) {
      await posts(O.send())(scene);
      scene.modify('b', { qpState: V.IBV_QPS_ERR });
      await scene.settle();
    },
    expect: {
      a: ['1 SUCCESS SEND'],
      'b recv': ['srq SUCCESS RECV 3000'],
      events: ['b0 QP_LAST_WQE_REACHED'],
    },
  },
  {
    name: 'shared receive queue: a receive that is too short',
    setup: { srq: 8, recvs: 0 },
    async run(scene) {
      scene.recv('srq', 1, { bytes: 100 });
      await posts(O.send({ isFaulty: true }))(scene);
    },
    expect: { a: ['1 REM_INV_REQ_ERR'], 'b recv': ['srq LOC_LEN_ERR'], events: ['b0 QP_LAST_WQE_REACHED'] },
    rxe: {
      why: 'a message that is too long causes an operation error at both ends',
      expect: { a: ['1 REM_OP_ERR'], 'b recv': ['srq LOC_QP_OP_ERR'] },
    },
  },
  {
    name: 'shared receive queue: its receiver also sends',
    setup: SRQ,
    async run(scene) {
      scene.recv('a');
      scene.post('b', O.send(), O.read());
      scene.post('a', O.send());
      await scene.settle();
    },
    expect: {
      a: ['3 SUCCESS SEND'],
      'a recv': ['105 SUCCESS RECV 3000'],
      b: ['1 SUCCESS SEND', '2 SUCCESS RDMA_READ 3000'],
      'b recv': ['srq SUCCESS RECV 3000'],
    },
  },
  {
    name: 'XRC a request fails, later ones are flushed',
    setup: XRC,
    run: posts(O.write(), O.write({ rkey: 0xdead01, isFaulty: true }), O.read()),
    expect: {
      a: ['1 SUCCESS RDMA_WRITE', '2 REM_ACCESS_ERR', '3 WR_FLUSH_ERR'],
      events: ['b0 QP_ACCESS_ERR', 'b0 QP_LAST_WQE_REACHED'],
    },
    rxe: NO_XRC,
  },
  {
    name: 'XRC without a receive, until it gives up',
    setup: { ...XRC, recvs: 0, rnrRetry: 1 },
    run: posts(O.send({ isFaulty: true }), O.write({ isFaulty: true })),
    expect: { a: ['1 RNR_RETRY_EXC_ERR', '2 WR_FLUSH_ERR'] },
    rxe: NO_XRC,
  },
];

export const cases: Case[] = [...shared, ...xrc, ...rest];
