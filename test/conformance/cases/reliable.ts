/** RC: each opcode with each flag, and the effect at the peer. */
import * as V from '../../../src/verbs/index.ts';
import { type Case, type Expectation, posts } from '../suite/case.ts';
import * as O from '../suite/op.ts';
import type { Setup } from '../suite/setup.ts';

export const OPS: [string, (extra?: O.Extra) => O.Op][] = [
  ['RDMA_WRITE', O.write],
  ['RDMA_WRITE_WITH_IMM', O.writeImm],
  ['RDMA_READ', O.read],
  ['SEND', O.send],
  ['SEND_WITH_IMM', O.sendImm],
  ['FETCH_AND_ADD', O.fetchAdd],
  ['CMP_AND_SWP', O.compareSwap],
];

const total = (op: O.Op) => op.sges.reduce((sum, bytes) => sum + bytes, 0);

/** The completion of a request with this id, if it is signaled. */
export function done(id: number, op: O.Op): string {
  const length = O.comesBack(op.kind) ? ` ${total(op)}` : '';
  return `${id} SUCCESS ${O.WC_NAMES[op.kind]}${length}`;
}

/** The completion of the peer's `nth` receive, caused by request `id`. */
export function arrives(id: number, op: O.Op, nth = 1, more = ''): string[] {
  const imm = op.kind === 'writeImm' || op.kind === 'sendImm' ? ` imm ${id + 1000}` : '';
  if (op.kind === 'writeImm') return [`${100 + nth} SUCCESS RECV_RDMA_WITH_IMM ${total(op)}${imm}`];
  if (!O.isMessage(op.kind)) return [];
  return [`${100 + nth} SUCCESS RECV ${total(op)}${imm}${more}`];
}

function plain(name: string, op: O.Op, setup: Setup = {}): Case {
  const isSignaled = setup.sigAll === true || (op.flags & V.IBV_SEND_SIGNALED) !== 0;
  const expect: Expectation = { ...(isSignaled && { a: [done(1, op)] }), 'b recv': arrives(1, op) };
  return { name, setup, run: posts(op), expect };
}

const FLAGS: [string, number, Setup?][] = [
  ['signaled', O.SIGNALED],
  ['unsignaled', 0],
  ['unsignaled, sq_sig_all', 0, { sigAll: true }],
  ['fenced', O.SIGNALED | O.FENCE],
  ['solicited', O.SIGNALED | O.SOLICITED],
];

const flagged = OPS.flatMap(([opcode, make]) =>
  FLAGS.map(([what, flags, setup]) => plain(`RC ${opcode}, ${what}`, make({ flags }), setup)),
);

const INLINE = OPS.filter(([opcode]) => /WRITE|SEND/.test(opcode));
const INLINE_BYTES = 50;
const asInline = (flags: number) => ({ bytes: INLINE_BYTES, flags: flags | V.IBV_SEND_INLINE, inline: true });

const inlined = INLINE.flatMap(([opcode, make]) =>
  FLAGS.map(([what, flags, setup]) => plain(`RC ${opcode}, inline, ${what}`, make(asInline(flags)), setup)),
);

const gathered = OPS.slice(0, 5).flatMap(([opcode, make]) => [
  plain(`RC ${opcode}, elements that pieces cut across`, make({ sges: [1700, 100, 1, 900] })),
  plain(`RC ${opcode}, an element of length 0 between others`, make({ sges: [700, 0, 900] })),
  plain(`RC ${opcode}, no elements`, make({ sges: [] })),
  plain(`RC ${opcode}, one element of length 0`, make({ sges: [0] })),
]);

/** The queue is polled continuously: as soon as a completion can be polled, its message must have arrived. */
const watched = OPS.slice(0, 3).map(
  ([opcode, make]): Case => ({
    name: `RC ${opcode} completes when the whole message has arrived`,
    setup: {},
    async run(scene) {
      scene.post('a', make(), make());
      await scene.watch('a', 2);
      await scene.settle();
    },
    expect: {
      a: [done(1, make()), done(2, make())],
      'b recv': [...arrives(1, make()), ...arrives(2, make(), 2)],
    },
  }),
);

/** Each opcode behind an unsignaled message that is cut, and before a short signaled message. */
const ordered = OPS.map(([opcode, make]): Case => {
  const ops = [O.write({ flags: 0 }), make(), O.write({ bytes: 8 })];
  return {
    name: `RC ${opcode} between an unsignaled RDMA_WRITE and a short one`,
    setup: {},
    run: posts(...ops),
    expect: { a: [done(2, ops[1]), done(3, ops[2])], 'b recv': arrives(2, ops[1]) },
  };
});

const fencedBehind = OPS.map(([opcode, make]): Case => {
  const ops = [O.read(), make({ flags: O.SIGNALED | O.FENCE })];
  return {
    name: `RC ${opcode}, fenced, behind an RDMA_READ`,
    setup: {},
    run: posts(...ops),
    expect: { a: ops.map((op, i) => done(i + 1, op)), 'b recv': arrives(2, ops[1]) },
  };
});

const extended = OPS.flatMap(([opcode, make]) => [
  plain(`RC ${opcode} by ibv_wr_*`, make(), { extended: true }),
  plain(
    `RC ${opcode} by ibv_wr_*, elements as a list`,
    make(
      opcode.startsWith('F') || opcode.startsWith('C')
        ? { flags: O.SIGNALED | O.FENCE }
        : { sges: [10, 2000, 30] },
    ),
    { extended: true },
  ),
]);

const extendedInline = INLINE.map(([opcode, make]) =>
  plain(`RC ${opcode}, inline, by ibv_wr_*`, make(asInline(O.SIGNALED)), { extended: true }),
);

const rest: Case[] = [
  {
    name: 'RC unsignaled requests alone generate no completions',
    setup: {},
    run: posts(O.write({ flags: 0 }), O.read({ flags: 0 }), O.write({ flags: 0 })),
    expect: {},
  },
  {
    name: 'RC one signaled request of every three',
    setup: {},
    run: posts(...[0, 1, 2, 3, 4, 5].map((i) => O.write({ flags: i % 3 === 2 ? O.SIGNALED : 0 }))),
    expect: { a: ['3 SUCCESS RDMA_WRITE', '6 SUCCESS RDMA_WRITE'] },
  },
  {
    name: 'RC both directions at once',
    setup: {},
    async run(scene) {
      scene.recv('a');
      scene.post('a', O.send(), O.write());
      scene.post('b', O.send(), O.read());
      await scene.settle();
    },
    expect: {
      a: ['1 SUCCESS SEND', '2 SUCCESS RDMA_WRITE'],
      'a recv': ['109 SUCCESS RECV 3000'],
      b: ['3 SUCCESS SEND', '4 SUCCESS RDMA_READ 3000'],
      'b recv': ['101 SUCCESS RECV 3000'],
    },
  },
  {
    name: 'RC a message into a receive of two elements',
    setup: { recvs: 0 },
    async run(scene) {
      scene.recv('b', 1, { sges: [1000, 2500] });
      await posts(O.send())(scene);
    },
    expect: { a: ['1 SUCCESS SEND'], 'b recv': ['101 SUCCESS RECV 3000'] },
  },
  {
    name: 'RC a message of length 0 into a receive without elements',
    setup: { recvs: 0 },
    async run(scene) {
      scene.recv('b', 1, { sges: [] });
      await posts(O.sendImm({ sges: [] }))(scene);
    },
    expect: { a: ['1 SUCCESS SEND'], 'b recv': ['101 SUCCESS RECV 0 imm 1001'] },
  },
  {
    name: 'RC compare-and-swap that finds the compared value',
    setup: {},
    async run(scene) {
      const at = scene.sides.b.memory.take(8);
      scene.sides.b.memory.set(at, new Uint8Array(new BigUint64Array([O.COMPARE]).buffer));
      await posts(O.compareSwap({ at }), O.fetchAdd({ at }))(scene);
    },
    expect: { a: ['1 SUCCESS COMP_SWAP 8', '2 SUCCESS FETCH_ADD 8'] },
  },
  {
    name: 'RC a fenced RDMA_WRITE of the data that an RDMA_READ before it fetches',
    setup: {},
    async run(scene) {
      const from = scene.sides.a.memory.take(O.LONG);
      await posts(O.read({ from }), O.write({ from, flags: O.SIGNALED | O.FENCE }))(scene);
    },
    expect: { a: ['1 SUCCESS RDMA_READ 3000', '2 SUCCESS RDMA_WRITE'] },
  },
  {
    name: 'RC an RDMA_READ behind a fence reads what was just written',
    setup: {},
    async run(scene) {
      const at = scene.sides.b.memory.take(O.LONG);
      scene.post('a', O.write({ at }));
      await scene.settle();
      await posts(O.read({ at, flags: O.SIGNALED | O.FENCE }))(scene);
    },
    expect: { a: ['1 SUCCESS RDMA_WRITE', '2 SUCCESS RDMA_READ 3000'] },
  },
];

export const cases: Case[] = [
  ...flagged,
  ...inlined,
  ...gathered,
  ...watched,
  ...ordered,
  ...fencedBehind,
  ...extended,
  ...extendedInline,
  ...rest,
];
