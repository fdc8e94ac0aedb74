/** WAIT and ENABLE, on devices that support them. */
import * as V from '../../../src/verbs/index.ts';
import { type Case, posts } from '../suite/case.ts';
import * as O from '../suite/op.ts';
import { arrives, done, OPS } from './reliable.ts';

const rxe = { why: 'it has no WAIT' };
const case_ = (one: Omit<Case, 'rxe'>): Case => ({ ...one, rxe });

const held = OPS.map(([opcode, make]) =>
  case_({
    name: `WAIT for another queue pair's completions, RC ${opcode} behind it`,
    setup: { pairs: 2, recvs: 2 },
    async run(scene) {
      scene.post('a', O.write(), O.wait(scene.a.cq, 3, { flags: 0 }), make());
      await scene.settle();
      scene.note('waits');
      scene.post('a1', O.write(), O.write({ bytes: 10 }));
      await scene.settle();
    },
    expect: {
      a: ['1 SUCCESS RDMA_WRITE', done(3, make())],
      a1: ['4 SUCCESS RDMA_WRITE', '5 SUCCESS RDMA_WRITE'],
      'b recv': arrives(3, make()),
      calls: ['waits'],
    },
  }),
);

const enabled = OPS.map(([opcode, make]) =>
  case_({
    name: `ENABLE: RC ${opcode} on a managed queue pair`,
    setup: { pairs: 1, managed: true, recvs: 4 },
    async run(scene) {
      const other = scene.plainPair();
      scene.post('a', make(), make(), O.write());
      await scene.settle();
      scene.note('nothing');
      scene.post(other, O.enable(scene.qp('a'), 2));
      await scene.settle();
      scene.note('two');
      scene.post(other, O.enable(scene.qp('a'), 0));
      await scene.settle();
    },
    expect: {
      a: [done(1, make()), done(2, make()), '3 SUCCESS RDMA_WRITE'],
      a1: ['4 SUCCESS DRIVER2', '5 SUCCESS DRIVER2'],
      'b recv': [...arrives(1, make()), ...arrives(2, make(), 2)],
      calls: ['nothing', 'two'],
    },
  }),
);

const rest = [
  case_({
    name: '0_WAIT, signaled and unsignaled, between messages',
    setup: {},
    async run(scene) {
      const { cq } = scene.a;
      await posts(
        O.write(),
        O.wait(cq, 0),
        O.read(),
        O.wait(cq, 0, { flags: 0, repeat: 5 }),
        O.write(),
      )(scene);
    },
    expect: {
      a: ['1 SUCCESS RDMA_WRITE', '2 SUCCESS DRIVER2', '3 SUCCESS RDMA_READ 3000', '5 SUCCESS RDMA_WRITE'],
    },
  }),
  case_({
    name: 'WAIT, flushed with the requests behind it',
    setup: {},
    async run(scene) {
      scene.post('a', O.wait(scene.a.cq, 9), O.write({ isFaulty: true }));
      await scene.settle();
      scene.modify('a', { qpState: V.IBV_QPS_ERR });
      await scene.settle();
    },
    expect: { a: ['1 WR_FLUSH_ERR', '2 WR_FLUSH_ERR'] },
  }),
  case_({
    name: 'WAIT, dropped by RESET',
    setup: { recvs: 0 },
    async run(scene) {
      scene.post('a', O.wait(scene.a.cq, 9), O.write({ isFaulty: true }));
      await scene.settle();
      for (const end of ['a', 'b']) scene.modify(end, { qpState: V.IBV_QPS_RESET });
      scene.connect();
      await posts(O.write())(scene);
    },
    expect: { a: ['3 SUCCESS RDMA_WRITE'] },
  }),
  case_({
    name: 'WAIT on an invalid completion queue is refused',
    setup: {},
    run: posts(O.write(), O.wait(12345, 1), O.write()),
    expect: {
      a: ['1 SUCCESS RDMA_WRITE'],
      calls: [
        `a0 takes 1 of 3: ${V.EINVAL} the WAIT or ENABLE names no such completion queue or managed queue pair of this device`,
      ],
    },
  }),
  case_({
    name: 'WAIT, destroyed while it waits',
    setup: { pairs: 2 },
    async run(scene) {
      scene.post('a', O.wait(scene.a.cq, 9), O.write({ isFaulty: true }));
      await scene.settle();
      scene.destroy('a');
      scene.post('a1', O.write());
      await scene.settle();
    },
    expect: { a1: ['3 SUCCESS RDMA_WRITE'] },
  }),
];

export const cases: Case[] = [...held, ...enabled, ...rest];
