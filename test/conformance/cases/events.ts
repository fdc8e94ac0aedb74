/** Completion events: which listeners are called, and how often. */
import * as V from '../../../src/verbs/index.ts';
import { type Case, posts } from '../suite/case.ts';
import * as O from '../suite/op.ts';
import type { Setup } from '../suite/setup.ts';
import { arrives, done, OPS } from './reliable.ts';

const SETUP: Setup = { channels: true };
const AT_A = ['a completion event'];
const AT_B = ['b completion event'];

const woken = OPS.map(
  ([opcode, make]): Case => ({
    name: `event: the sender of an RC ${opcode} armed for any completion`,
    setup: SETUP,
    async run(scene) {
      scene.listen('a');
      scene.arm('a');
      scene.post('a', O.write({ flags: 0 }), make());
      await scene.pass();
      await scene.settle();
    },
    expect: { a: [done(2, make())], 'b recv': arrives(2, make()), events: AT_A },
  }),
);

const asleep = OPS.map(
  ([opcode, make]): Case => ({
    name: `event: none for the sender of an RC ${opcode} armed for solicited completions`,
    setup: SETUP,
    async run(scene) {
      scene.listen('a');
      scene.arm('a', true);
      scene.post('a', make({ flags: O.SIGNALED | O.SOLICITED }));
      await scene.pass();
      await scene.settle();
    },
    expect: { a: [done(1, make())], 'b recv': arrives(1, make()) },
  }),
);

const RECEIVED = OPS.filter(([opcode]) => opcode.startsWith('SEND') || opcode.endsWith('IMM'));
const solicited = RECEIVED.flatMap(([opcode, make]): Case[] =>
  [true, false].map((isSolicited) => ({
    name: `event: the receiver of ${isSolicited ? 'a solicited' : 'an unsolicited'} RC ${opcode}, armed for solicited completions`,
    setup: SETUP,
    async run(scene) {
      scene.listen('b');
      scene.arm('b', true);
      scene.post('a', make({ flags: O.SIGNALED | (isSolicited ? O.SOLICITED : 0) }));
      await scene.pass();
      await scene.settle();
    },
    expect: { a: [done(1, make())], 'b recv': arrives(1, make()), ...(isSolicited && { events: AT_B }) },
  })),
);

const rest: Case[] = [
  {
    name: 'event: none without arming',
    setup: SETUP,
    async run(scene) {
      scene.listen('a');
      await posts(O.write(), O.read())(scene);
    },
    expect: { a: ['1 SUCCESS RDMA_WRITE', '2 SUCCESS RDMA_READ 3000'] },
  },
  {
    name: 'event: none for unsignaled requests',
    setup: SETUP,
    async run(scene) {
      scene.listen('a');
      scene.arm('a');
      await posts(O.write({ flags: 0 }), O.read({ flags: 0 }))(scene);
    },
    expect: {},
  },
  {
    name: 'event: one for many completions',
    setup: SETUP,
    async run(scene) {
      scene.listen('a');
      scene.arm('a');
      scene.post('a', O.write(), O.write(), O.read());
      await scene.pass();
      await scene.settle();
    },
    expect: { a: ['1 SUCCESS RDMA_WRITE', '2 SUCCESS RDMA_WRITE', '3 SUCCESS RDMA_READ 3000'], events: AT_A },
  },
  {
    name: 'event: armed twice, one event',
    setup: SETUP,
    async run(scene) {
      scene.listen('a');
      scene.arm('a');
      scene.arm('a');
      scene.post('a', O.write());
      await scene.pass();
      await scene.settle();
    },
    expect: { a: ['1 SUCCESS RDMA_WRITE'], events: AT_A },
  },
  {
    name: 'event: one for each arming',
    setup: SETUP,
    async run(scene) {
      scene.listen('a');
      for (let i = 0; i < 3; i++) {
        scene.arm('a');
        scene.post('a', O.write());
        await scene.pass();
        await scene.settle();
      }
    },
    expect: {
      a: ['1 SUCCESS RDMA_WRITE', '2 SUCCESS RDMA_WRITE', '3 SUCCESS RDMA_WRITE'],
      events: [...AT_A, ...AT_A, ...AT_A],
    },
  },
  {
    name: 'event: armed for solicited completions, then for any',
    setup: SETUP,
    async run(scene) {
      scene.listen('a');
      scene.arm('a', true);
      scene.arm('a');
      scene.post('a', O.write());
      await scene.pass();
      await scene.settle();
    },
    expect: { a: ['1 SUCCESS RDMA_WRITE'], events: AT_A },
  },
  {
    name: 'event: armed for any completion, then for solicited ones: still any',
    setup: SETUP,
    async run(scene) {
      scene.listen('a');
      scene.arm('a');
      scene.arm('a', true);
      scene.post('a', O.write());
      await scene.pass();
      await scene.settle();
    },
    expect: { a: ['1 SUCCESS RDMA_WRITE'], events: AT_A },
  },
  {
    name: 'event: a failed request raises an event on a queue armed for solicited completions',
    setup: { ...SETUP, recvs: 0 },
    async run(scene) {
      scene.listen('a');
      scene.arm('a', true);
      scene.post('a', O.write(), O.write({ rkey: 0xdead01, isFaulty: true }));
      await scene.pass();
      await scene.settle();
    },
    expect: {
      a: ['1 SUCCESS RDMA_WRITE', '2 REM_ACCESS_ERR'],
      events: ['b0 QP_ACCESS_ERR', ...AT_A],
    },
    rxe: { why: 'an error raises no event on a queue armed for solicited completions' },
  },
  {
    name: 'event: a flushed receive raises an event on a queue armed for solicited completions',
    setup: { ...SETUP, recvs: 1 },
    async run(scene) {
      scene.listen('b');
      scene.arm('b', true);
      scene.modify('b', { qpState: V.IBV_QPS_ERR });
      await scene.pass();
      await scene.settle();
    },
    expect: { 'b recv': ['101 WR_FLUSH_ERR'], events: AT_B },
  },
  {
    name: 'event: delivered to a listener that is attached later',
    setup: SETUP,
    async run(scene) {
      scene.arm('a');
      scene.post('a', O.write());
      await scene.pass();
      scene.listen('a');
      await scene.pass();
      await scene.settle();
    },
    expect: { a: ['1 SUCCESS RDMA_WRITE'], events: AT_A },
  },
  {
    name: 'event: both ends at once',
    setup: SETUP,
    async run(scene) {
      for (const side of ['a', 'b'] as const) {
        scene.listen(side);
        scene.arm(side);
      }
      scene.post('a', O.send());
      await scene.pass();
      scene.sortEvents();
      await scene.settle();
    },
    expect: { a: ['1 SUCCESS SEND'], 'b recv': ['101 SUCCESS RECV 3000'], events: [...AT_A, ...AT_B] },
  },
  {
    name: 'event: long messages continue without a poll or a listener',
    setup: SETUP,
    async run(scene) {
      for (let i = 0; i < 6; i++) scene.post('a', O.write({ flags: i === 5 ? O.SIGNALED : 0 }));
      await scene.pass();
      await scene.settle();
    },
    expect: { a: ['6 SUCCESS RDMA_WRITE'] },
  },
];

export const cases: Case[] = [...woken, ...asleep, ...solicited, ...rest];
