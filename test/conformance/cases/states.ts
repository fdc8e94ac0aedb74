/** Queue pairs between states: SQD, ERR, RESET, destroyed, with requests posted, in flight and complete. */
import * as V from '../../../src/verbs/index.ts';
import { type Case, posts } from '../suite/case.ts';
import * as O from '../suite/op.ts';
import type { Scene } from '../suite/scene.ts';
import { arrives, done, OPS } from './reliable.ts';

const { IBV_QPS_ERR: ERR, IBV_QPS_RESET: RESET, IBV_QPS_RTS: RTS, IBV_QPS_SQD: SQD } = V;

const drained = OPS.map(
  ([opcode, make]): Case => ({
    name: `SQD: RC ${opcode} posted in SQD waits for RTS`,
    setup: {},
    async run(scene) {
      scene.modify('a', { qpState: SQD });
      scene.post('a', make(), O.write());
      await scene.settle();
      scene.note(scene.state('a'));
      scene.modify('a', { qpState: RTS });
      await scene.settle();
    },
    expect: { a: [done(1, make()), '2 SUCCESS RDMA_WRITE'], 'b recv': arrives(1, make()), calls: ['SQD'] },
    rxe: {
      why: 'requests posted in SQD wait for the next post after RTS, or for another event that starts the queue',
    },
  }),
);

/** How many requests have completed by then depends on timing; the completions afterwards do not. */
const restarted = OPS.map(
  ([opcode, make]): Case => ({
    name: `RESET with RC ${opcode} in flight, then connected again`,
    setup: { recvs: 0 },
    async run(scene) {
      scene.recv('b', 4);
      scene.post('a', ...Array.from({ length: 4 }, () => make({ isFaulty: true })));
      scene.modify('a', { qpState: RESET });
      await scene.nap();
      scene.modify('b', { qpState: RESET });
      scene.connect();
      scene.forget();
      await posts(O.write(), O.read(), O.write({ flags: 0 }))(scene);
    },
    expect: { a: ['5 SUCCESS RDMA_WRITE', '6 SUCCESS RDMA_READ 3000'] },
  }),
);

const destroyed = OPS.map(
  ([opcode, make]): Case => ({
    name: `destroyed with RC ${opcode} in flight, another on its completion queue continues`,
    setup: { pairs: 2, recvs: 4 },
    async run(scene) {
      scene.post('a', ...Array.from({ length: 4 }, () => make({ isFaulty: true })));
      scene.post('a1', O.write(), O.read());
      scene.destroy('a');
      scene.destroy('b');
      scene.forget();
      scene.post('a1', O.send());
      await scene.settle();
    },
    expect: {
      a1: ['5 SUCCESS RDMA_WRITE', '6 SUCCESS RDMA_READ 3000', '7 SUCCESS SEND'],
      'b1 recv': ['105 SUCCESS RECV 3000'],
    },
  }),
);

const flushed: Case[] = [
  {
    name: 'ERR flushes receives in order',
    setup: { recvs: 3 },
    async run(scene) {
      scene.modify('b', { qpState: ERR });
      await scene.settle();
    },
    expect: { 'b recv': ['101 WR_FLUSH_ERR', '102 WR_FLUSH_ERR', '103 WR_FLUSH_ERR'] },
  },
  {
    name: 'a receive posted in ERR is flushed',
    setup: { recvs: 0 },
    async run(scene) {
      scene.modify('b', { qpState: ERR });
      scene.recv('b', 2);
      await scene.settle();
    },
    expect: { 'b recv': ['101 WR_FLUSH_ERR', '102 WR_FLUSH_ERR'] },
    rxe: { why: 'it stays in the queue until the next move to ERR', expect: {} },
  },
  {
    name: 'ERR with sends of every kind posted in SQD',
    setup: {},
    async run(scene) {
      scene.modify('a', { qpState: SQD });
      scene.post(
        'a',
        ...OPS.map(([, make], i) => make({ isFaulty: true, flags: i % 2 === 0 ? 0 : O.SIGNALED })),
      );
      await scene.settle();
      scene.modify('a', { qpState: ERR });
      await scene.settle();
    },
    expect: { a: OPS.map((_, i) => `${i + 1} WR_FLUSH_ERR`) },
  },
  {
    name: 'ERR after unsignaled requests completed: only the others are flushed',
    setup: {},
    async run(scene) {
      await posts(O.write({ flags: 0 }), O.read({ flags: 0 }))(scene);
      scene.modify('a', { qpState: ERR });
      scene.post('a', O.write({ flags: 0, isFaulty: true }));
      await scene.settle();
    },
    expect: { a: ['3 WR_FLUSH_ERR'] },
  },
  {
    name: 'ERR, RESET, connected again',
    setup: { recvs: 0 },
    async run(scene) {
      scene.modify('a', { qpState: ERR });
      await posts(O.write({ isFaulty: true }))(scene);
      for (const end of ['a', 'b']) scene.modify(end, { qpState: RESET });
      scene.connect();
      await posts(O.write(), O.read())(scene);
    },
    expect: { a: ['1 WR_FLUSH_ERR', '2 SUCCESS RDMA_WRITE', '3 SUCCESS RDMA_READ 3000'] },
  },
];

const edges: [string, number, number][] = [
  ['RESET to RTS', RESET, RTS],
  ['RESET to RTR', RESET, V.IBV_QPS_RTR],
  ['RTS to INIT', RTS, V.IBV_QPS_INIT],
  ['RTS to RTR', RTS, V.IBV_QPS_RTR],
  ['ERR to RTS', ERR, RTS],
  ['SQD to RTR', SQD, V.IBV_QPS_RTR],
];

const forbidden = edges.map(
  ([what, from, to]): Case => ({
    name: `${what} is no transition, and has no effect`,
    setup: from === RESET ? { unconnected: true } : {},
    async run(scene) {
      if (from === SQD || from === ERR) scene.modify('a', { qpState: from });
      scene.attempt(what, () => scene.modify('a', { qpState: to }));
      scene.note(scene.state('a'));
      if (from === RTS) await posts(O.write())(scene);
    },
    expect: {
      calls: [`${what}: ISO_ERR_STATE`, V.stateName(from)],
      ...(from === RTS && { a: ['1 SUCCESS RDMA_WRITE'] }),
    },
  }),
);

const asked = (scene: Scene) => {
  const { init } = scene.p.queryQp(scene.qp('a'));
  const { maxSendWr, maxRecvWr, maxSendSge, maxRecvSge, maxInlineData } = init.cap;
  scene.note(`${[maxSendWr >= 16, maxRecvWr >= 16, maxSendSge >= 4, maxRecvSge >= 2, maxInlineData >= 64]}`);
  scene.note(`${init.sqSigAll}`);
};

const rest: Case[] = [
  {
    name: 'SQD: SQ_DRAINED when the requests in flight have ended',
    setup: {},
    async run(scene) {
      scene.post('a', O.write(), O.write());
      scene.modify('a', { qpState: SQD, enSqdAsyncNotify: 1 });
      await scene.settle();
      scene.modify('a', { qpState: RTS });
      await scene.settle();
    },
    expect: { a: ['1 SUCCESS RDMA_WRITE', '2 SUCCESS RDMA_WRITE'], events: ['a0 SQ_DRAINED'] },
  },
  {
    name: 'SQD: receives and the peer continue',
    setup: {},
    async run(scene) {
      scene.recv('a');
      scene.modify('a', { qpState: SQD });
      scene.post('b', O.send(), O.read());
      await scene.settle();
      scene.modify('a', { qpState: RTS });
      await posts(O.send())(scene);
    },
    expect: {
      a: ['3 SUCCESS SEND'],
      'a recv': ['109 SUCCESS RECV 3000'],
      b: ['1 SUCCESS SEND', '2 SUCCESS RDMA_READ 3000'],
      'b recv': ['101 SUCCESS RECV 3000'],
    },
  },
  {
    name: 'SQD to RESET drops waiting requests',
    setup: { recvs: 0 },
    async run(scene) {
      scene.modify('a', { qpState: SQD });
      scene.post('a', O.write({ isFaulty: true }), O.write({ isFaulty: true }));
      await scene.settle();
      for (const end of ['a', 'b']) scene.modify(end, { qpState: RESET });
      scene.connect();
      await posts(O.write())(scene);
    },
    expect: { a: ['3 SUCCESS RDMA_WRITE'] },
  },
  {
    name: 'RTS to RTS changes the RNR timer without an effect on requests',
    setup: {},
    async run(scene) {
      scene.post('a', O.write(), O.write());
      scene.modify('a', { qpState: RTS, minRnrTimer: 5 });
      await posts(O.read())(scene);
      scene.note(`${scene.p.queryQp(scene.qp('a')).attr.minRnrTimer}`);
    },
    expect: {
      a: ['1 SUCCESS RDMA_WRITE', '2 SUCCESS RDMA_WRITE', '3 SUCCESS RDMA_READ 3000'],
      calls: ['5'],
    },
  },
  {
    name: 'a wrong curQpState is refused',
    setup: {},
    async run(scene) {
      scene.attempt('SQD', () => scene.modify('a', { qpState: SQD, curQpState: V.IBV_QPS_SQE }));
      await posts(O.write())(scene);
    },
    expect: { calls: ['SQD: ISO_ERR_STATE'], a: ['1 SUCCESS RDMA_WRITE'] },
  },
  {
    name: 'queryQp returns the requested attributes, before and after requests',
    setup: {},
    async run(scene) {
      asked(scene);
      await posts(O.write(), O.write())(scene);
      asked(scene);
    },
    expect: {
      a: ['1 SUCCESS RDMA_WRITE', '2 SUCCESS RDMA_WRITE'],
      calls: ['true,true,true,true,true', 'false', 'true,true,true,true,true', 'false'],
    },
  },
  {
    name: 'RESET drops completions that were not polled',
    setup: { recvs: 0 },
    async run(scene) {
      scene.post('a', O.write(), O.write());
      await scene.pass();
      for (const end of ['a', 'b']) scene.modify(end, { qpState: RESET });
      scene.connect();
      await posts(O.write())(scene);
    },
    expect: { a: ['3 SUCCESS RDMA_WRITE'] },
  },
  {
    name: 'destroyed with completions that were not polled',
    setup: { pairs: 2, recvs: 0 },
    async run(scene) {
      scene.post('a', O.write(), O.write());
      await scene.pass();
      scene.destroy('a');
      scene.post('a1', O.write());
      await scene.settle();
    },
    expect: { a1: ['3 SUCCESS RDMA_WRITE'] },
  },
  {
    name: 'a completion queue cannot be destroyed before its queue pairs',
    setup: {},
    async run(scene) {
      scene.attempt('destroyCq', () => scene.p.destroyCq(scene.a.cq));
      scene.attempt('deallocPd', () => scene.p.deallocPd(scene.a.pd));
      scene.attempt('closeDevice', () => scene.p.closeDevice(scene.a.context));
      await posts(O.write())(scene);
    },
    expect: {
      calls: ['destroyCq: ISO_ERR_BUSY', 'deallocPd: ISO_ERR_BUSY', 'closeDevice: ISO_ERR_BUSY'],
      a: ['1 SUCCESS RDMA_WRITE'],
    },
  },
];

export const cases: Case[] = [...drained, ...restarted, ...destroyed, ...flushed, ...forbidden, ...rest];
