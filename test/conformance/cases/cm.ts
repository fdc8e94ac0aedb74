/** Queue pairs that rdma_cm connects. */
import * as V from '../../../src/verbs/index.ts';
import { type Case, posts } from '../suite/case.ts';
import { connectByCm } from '../suite/connect-by-cm.ts';
import * as O from '../suite/op.ts';

const setup = { unconnected: true };

export const cases: Case[] = [
  {
    name: 'rdma_cm: messages of every kind over its connection',
    setup,
    async run(scene) {
      await connectByCm(scene);
      scene.recv('b', 2);
      await posts(O.write(), O.read(), O.send({ flags: 0 }), O.sendImm(), O.fetchAdd())(scene);
    },
    expect: {
      a: ['1 SUCCESS RDMA_WRITE', '2 SUCCESS RDMA_READ 3000', '4 SUCCESS SEND', '5 SUCCESS FETCH_ADD 8'],
      'b recv': ['101 SUCCESS RECV 3000', '102 SUCCESS RECV 3000 imm 1004'],
    },
  },
  {
    name: 'rdma_cm: a request that fails over its connection',
    setup,
    async run(scene) {
      await connectByCm(scene);
      await posts(O.write(), O.read({ rkey: 0xdead01, isFaulty: true }), O.write({ isFaulty: true }))(scene);
    },
    expect: {
      a: ['1 SUCCESS RDMA_WRITE', '2 REM_ACCESS_ERR', '3 WR_FLUSH_ERR'],
      events: ['b0 QP_ACCESS_ERR'],
    },
  },
  {
    name: 'rdma_cm: disconnected, and requests posted afterwards are flushed',
    setup,
    async run(scene) {
      const { disconnect } = await connectByCm(scene);
      await posts(O.write())(scene);
      await disconnect();
      scene.modify('a', { qpState: V.IBV_QPS_ERR });
      await posts(O.write({ isFaulty: true }), O.send({ flags: 0, isFaulty: true }))(scene);
    },
    expect: { a: ['1 SUCCESS RDMA_WRITE', '2 WR_FLUSH_ERR', '3 WR_FLUSH_ERR'] },
  },
];
