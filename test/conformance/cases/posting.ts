/** Requests that ibv_post_send(3) and ibv_post_recv(3) refuse, and how much of the list they take. */
import * as V from '../../../src/verbs/index.ts';
import { type Case, posts } from '../suite/case.ts';
import * as O from '../suite/op.ts';
import type { Scene } from '../suite/scene.ts';
import type { Transport } from '../suite/setup.ts';
import { OPS } from './reliable.ts';

const EINVAL = V.EINVAL;
const ENOMEM = V.ENOMEM;
const BAD_STATE = 'the queue pair is in a state that does not allow this request';
const FULL = 'the queue is full';
const NOT_ALLOWED = 'this opcode is not allowed on this type of queue pair';

const upTo: Record<string, (scene: Scene, transport: Transport) => void> = {
  RESET: () => {},
  INIT: (scene, transport) => {
    const access = transport === 'UD' ? { qkey: 0x11111111 } : { qpAccessFlags: 7 };
    scene.modify('a', { qpState: V.IBV_QPS_INIT, pkeyIndex: 0, portNum: 1, ...access });
  },
};

const states = (['RC', 'UC', 'UD'] as const).flatMap((transport) =>
  Object.entries(upTo).flatMap(([state, move]): Case[] => [
    {
      name: `${transport} a send posted in ${state}`,
      setup: { transport, unconnected: true },
      run(scene) {
        move(scene, transport);
        scene.post('a', O.send({ bytes: 8 }));
      },
      expect: { calls: [`a0 takes 0 of 1: ${EINVAL} ${BAD_STATE}`] },
    },
    {
      name: `${transport} a receive posted in ${state}`,
      setup: { transport, unconnected: true },
      run(scene) {
        move(scene, transport);
        scene.recv('a');
      },
      expect: state === 'RESET' ? { calls: [`a takes 0 of 1 receives: ${EINVAL} ${BAD_STATE}`] } : {},
    },
  ]),
);

const REFUSED: [Transport, string[]][] = [
  ['UC', ['RDMA_READ', 'FETCH_AND_ADD', 'CMP_AND_SWP']],
  ['UD', ['RDMA_WRITE', 'RDMA_WRITE_WITH_IMM', 'RDMA_READ', 'FETCH_AND_ADD', 'CMP_AND_SWP']],
];

const opcodes = REFUSED.flatMap(([transport, names]) =>
  OPS.filter(([opcode]) => names.includes(opcode)).map(
    ([opcode, make]): Case => ({
      name: `${transport} ${opcode} is refused, earlier requests are taken`,
      setup: { transport },
      run: posts(O.send({ bytes: 8 }), make(), O.send({ bytes: 8 })),
      expect: {
        calls: [`a0 takes 1 of 3: ${EINVAL} ${NOT_ALLOWED}`],
        a: ['1 SUCCESS SEND'],
        'b recv': [`101 SUCCESS RECV ${transport === 'UD' ? '48 grh' : '8'}`],
      },
    }),
  ),
);

const DEPTH = 16;
const many = (n: number, make: () => O.Op) => Array.from({ length: n }, make);
const ids = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);
const writes = (from: number, to: number) => ids(from, to).map((id) => `${id} SUCCESS RDMA_WRITE`);

const LAX = { why: 'queues accept more than was granted, and unsignaled sends take no room' };
const strict: Case[] = [
  {
    name: 'RC one request more than the send queue has slots',
    setup: {},
    run: posts(...many(DEPTH + 1, () => O.write())),
    expect: { calls: [`a0 takes 16 of 17: ${ENOMEM} ${FULL}`], a: writes(1, 16) },
  },
  {
    name: 'RC a full send queue takes no more before a completion is polled',
    setup: {},
    async run(scene) {
      scene.post('a', ...many(DEPTH, () => O.write()));
      scene.post('a', O.write());
      await scene.pass();
      scene.post('a', O.write());
      scene.poll('a', 1);
      scene.post('a', O.write(), O.write());
      await scene.settle();
    },
    expect: {
      calls: [
        `a0 takes 0 of 1: ${ENOMEM} ${FULL}`,
        `a0 takes 0 of 1: ${ENOMEM} ${FULL}`,
        `a0 takes 1 of 2: ${ENOMEM} ${FULL}`,
      ],
      a: [...writes(1, 16), '19 SUCCESS RDMA_WRITE'],
    },
  },
  {
    name: 'RC unsignaled requests keep their slots until a later completion is polled',
    setup: {},
    async run(scene) {
      scene.post('a', ...many(DEPTH - 1, () => O.write({ flags: 0 })));
      await scene.settle();
      scene.post('a', O.write(), O.write());
      await scene.settle();
      scene.post('a', ...many(DEPTH, () => O.write({ bytes: 8 })));
      await scene.settle();
    },
    expect: {
      calls: [`a0 takes 1 of 2: ${ENOMEM} ${FULL}`],
      a: ['16 SUCCESS RDMA_WRITE', ...writes(18, 33)],
    },
  },
  {
    name: 'RC a send queue of one slot',
    setup: { cap: { maxSendWr: 1 } },
    async run(scene) {
      await posts(O.write(), O.write())(scene);
      await posts(O.read())(scene);
    },
    expect: {
      calls: [`a0 takes 1 of 2: ${ENOMEM} ${FULL}`],
      a: ['1 SUCCESS RDMA_WRITE', '3 SUCCESS RDMA_READ 3000'],
    },
  },
  {
    name: 'UC one request more than the send queue has slots',
    setup: { transport: 'UC' },
    run: posts(...many(DEPTH + 1, () => O.write({ bytes: 64 }))),
    expect: { calls: [`a0 takes 16 of 17: ${ENOMEM} ${FULL}`], a: writes(1, 16) },
  },
  {
    name: 'UD one request more than the send queue has slots',
    setup: { transport: 'UD', recvs: 16 },
    run: posts(...many(DEPTH + 1, () => O.send({ bytes: 64 }))),
    expect: {
      calls: [`a0 takes 16 of 17: ${ENOMEM} ${FULL}`],
      a: ids(1, 16).map((id) => `${id} SUCCESS SEND`),
      'b recv': ids(101, 116).map((id) => `${id} SUCCESS RECV 104 grh`),
    },
  },
  {
    name: 'RC one receive more than the receive queue has slots',
    setup: { recvs: 16 },
    async run(scene) {
      scene.recv('b');
      await posts(O.send())(scene);
      scene.recv('b', 2);
    },
    expect: {
      calls: [`b takes 0 of 1 receives: ${ENOMEM} ${FULL}`, `b takes 1 of 2 receives: ${ENOMEM} ${FULL}`],
      a: ['1 SUCCESS SEND'],
      'b recv': ['101 SUCCESS RECV 3000'],
    },
  },
];

const full = strict.map((one): Case => ({ ...one, rxe: LAX }));

const WRONG: [string, O.Extra, string][] = [
  [
    'more elements than the queue pair has',
    { sges: [8, 8, 8, 8, 8] },
    'more scatter-gather elements than the queue pair was created for',
  ],
  ['an unknown flag', { flags: O.SIGNALED | 0x40 }, 'an unknown flag is set'],
  ['an unknown opcode', { opcode: 60 }, NOT_ALLOWED],
  [
    'more inline bytes than the queue pair has',
    { bytes: 65, inline: true, flags: O.SIGNALED | V.IBV_SEND_INLINE },
    'more inline bytes than the queue pair or the ring was created for',
  ],
];

const wrong = WRONG.flatMap(([what, extra, text]): Case[] => [
  {
    name: `RC ${what}: the first of a list`,
    setup: {},
    run: posts(O.write(extra), O.write()),
    expect: { calls: [`a0 takes 0 of 2: ${EINVAL} ${text}`] },
  },
  {
    name: `RC ${what}: behind a request that is cut`,
    setup: {},
    run: posts(O.write(), O.write(extra), O.write()),
    expect: { calls: [`a0 takes 1 of 3: ${EINVAL} ${text}`], a: ['1 SUCCESS RDMA_WRITE'] },
  },
]);

const ATOMIC = 'an atomic needs one 8-byte element and an 8-byte aligned remote address';
const atomics = OPS.slice(5).map(
  ([opcode, make]): Case => ({
    name: `RC ${opcode} at an address that is not aligned`,
    setup: {},
    run: posts(O.write(), make({ at: 4 }), O.write()),
    expect: { calls: [`a0 takes 1 of 3: ${EINVAL} ${ATOMIC}`], a: ['1 SUCCESS RDMA_WRITE'] },
  }),
);

const NO_AH = 'a send of an unreliable datagram needs a live address handle of the same protection domain';
const rest: Case[] = [
  {
    name: 'RC a refused request does not count: the rest of the list can be posted',
    setup: {},
    async run(scene) {
      scene.post('a', O.write(), O.write({ opcode: 60 }));
      scene.post('a', O.write(), O.read());
      await scene.settle();
    },
    expect: {
      calls: [`a0 takes 1 of 2: ${EINVAL} ${NOT_ALLOWED}`],
      a: ['1 SUCCESS RDMA_WRITE', '3 SUCCESS RDMA_WRITE', '4 SUCCESS RDMA_READ 3000'],
    },
  },
  {
    name: 'RC a receive with more elements than the queue pair has',
    setup: { recvs: 0 },
    run: (scene) => void scene.recv('b', 1, { sges: [8, 8, 8] }),
    expect: {
      calls: [
        `b takes 0 of 1 receives: ${EINVAL} more scatter-gather elements than the queue pair was created for`,
      ],
    },
  },
  {
    name: 'UD a send without an address handle',
    setup: { transport: 'UD' },
    run: posts(O.send({ bytes: 8 }), O.send({ bytes: 8, ah: 12345 })),
    expect: {
      calls: [`a0 takes 1 of 2: ${EINVAL} ${NO_AH}`],
      a: ['1 SUCCESS SEND'],
      'b recv': ['101 SUCCESS RECV 48 grh'],
    },
  },
  {
    name: 'RC a send on a queue pair that was destroyed',
    setup: {},
    run(scene) {
      scene.destroy('a');
      scene.attempt('post', () => scene.post('a', O.write()));
    },
    expect: { calls: ['post: ISO_ERR_HANDLE'] },
  },
  {
    name: 'RC a receive on a queue pair with a shared receive queue',
    setup: { srq: 4, recvs: 1 },
    run: (scene) => void scene.recv('b'),
    expect: {
      calls: [`b takes 0 of 1 receives: ${EINVAL} the queue pair receives from a shared receive queue`],
    },
  },
  {
    name: 'shared receive queue: one receive more than it has slots',
    setup: { srq: 4, recvs: 4 },
    run: (scene) => void scene.recv('srq'),
    expect: { calls: [`srq takes 0 of 1 receives: ${ENOMEM} ${FULL}`] },
    rxe: LAX,
  },
];

export const cases: Case[] = [...states, ...opcodes, ...full, ...wrong, ...atomics, ...rest];
