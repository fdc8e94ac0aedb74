/** Completion queues: shared, resized, extended, polled in parts; 64-bit wr_id; rdma_cm. */
import * as V from '../../../src/verbs/index.ts';
import { type Case, posts } from '../suite/case.ts';
import * as O from '../suite/op.ts';

const IDS: [string, bigint][] = [
  ['0', 0n],
  ['2^32', 2n ** 32n],
  ['2^63', 2n ** 63n],
  ['2^64 - 1', 2n ** 64n - 1n],
];

/** Flags without common bits. */
const other = (id: bigint) => id ^ (2n ** 64n - 1n);

const ids = IDS.flatMap(([what, id]): Case[] => [
  {
    name: `wr_id ${what}: of a long message, unchanged`,
    setup: {},
    run: posts(O.write({ id }), O.read({ id: id ^ 1n })),
    expect: { a: [`${id} SUCCESS RDMA_WRITE`, `${id ^ 1n} SUCCESS RDMA_READ 3000`] },
  },
  {
    name: `wr_id ${what}: of a request that fails, and of one that is flushed`,
    setup: { recvs: 0 },
    run: posts(O.write({ id, rkey: 0xdead01, isFaulty: true }), O.write({ id: other(id), flags: 0 })),
    expect: { a: [`${id} REM_ACCESS_ERR`, `${other(id)} WR_FLUSH_ERR`], events: ['b0 QP_ACCESS_ERR'] },
  },
]);

const rest: Case[] = [
  {
    name: 'completion queue: of three queue pairs, each in its own order',
    setup: { pairs: 3, recvs: 2 },
    async run(scene) {
      for (const name of ['a', 'a1', 'a2']) scene.post(name, O.write(), O.send());
      await scene.settle();
    },
    expect: {
      a: ['1 SUCCESS RDMA_WRITE', '2 SUCCESS SEND'],
      a1: ['3 SUCCESS RDMA_WRITE', '4 SUCCESS SEND'],
      a2: ['5 SUCCESS RDMA_WRITE', '6 SUCCESS SEND'],
      'b recv': ['101 SUCCESS RECV 3000'],
      'b1 recv': ['103 SUCCESS RECV 3000'],
      'b2 recv': ['105 SUCCESS RECV 3000'],
    },
  },
  {
    name: 'completion queue: polled one at a time',
    setup: {},
    async run(scene) {
      scene.post('a', O.write(), O.read(), O.write());
      // The device determines how long each transfer takes.
      for (let left = 3, tries = 0; left > 0 && tries < 1000; tries++) {
        const got = scene.poll('a', 1);
        if (got === 0) await scene.pass();
        else scene.note(`${got}`);
        left -= got;
      }
      scene.note(`${scene.poll('a', 1)}`);
    },
    expect: {
      a: ['1 SUCCESS RDMA_WRITE', '2 SUCCESS RDMA_READ 3000', '3 SUCCESS RDMA_WRITE'],
      calls: ['1', '1', '1', '0'],
    },
  },
  {
    name: 'completion queue: a poll for 0 completions',
    setup: {},
    async run(scene) {
      scene.note(`${scene.poll('a')}`);
      scene.post('a', O.write());
      await scene.pass();
      scene.note(`${scene.poll('a', 0)}`);
      await scene.settle();
    },
    expect: { a: ['1 SUCCESS RDMA_WRITE'], calls: ['0', '0'] },
  },
  {
    name: 'completion queue: with as many entries as completions',
    setup: { cqe: 4, recvs: 1 },
    async run(scene) {
      for (let i = 0; i < 3; i++) await posts(O.write(), O.read(), O.write(), O.write())(scene);
    },
    expect: {
      a: [0, 4, 8].flatMap((n) => [
        `${n + 1} SUCCESS RDMA_WRITE`,
        `${n + 2} SUCCESS RDMA_READ 3000`,
        `${n + 3} SUCCESS RDMA_WRITE`,
        `${n + 4} SUCCESS RDMA_WRITE`,
      ]),
    },
  },
  {
    name: 'completion queue: made larger while completions wait',
    setup: { cqe: 16 },
    async run(scene) {
      scene.post('a', O.write(), O.read());
      await scene.pass();
      scene.attempt('resizeCq', () => scene.p.resizeCq(scene.a.cq, 64));
      await posts(O.write())(scene);
    },
    expect: {
      a: ['1 SUCCESS RDMA_WRITE', '2 SUCCESS RDMA_READ 3000', '3 SUCCESS RDMA_WRITE'],
      calls: ['resizeCq: ok'],
    },
  },
  {
    name: 'completion queue: not made smaller than the completions that wait',
    setup: { cqe: 64 },
    async run(scene) {
      scene.post('a', ...Array.from({ length: 12 }, () => O.write()));
      await scene.pass();
      scene.attempt('resizeCq', () => scene.p.resizeCq(scene.a.cq, 4));
      await scene.settle();
      scene.attempt('resizeCq', () => scene.p.resizeCq(scene.a.cq, 16));
      await posts(O.write())(scene);
    },
    expect: {
      a: Array.from({ length: 13 }, (_, i) => `${i + 1} SUCCESS RDMA_WRITE`),
      calls: ['resizeCq: ISO_ERR_BUSY', 'resizeCq: ok'],
    },
  },
  {
    name: 'completion queue: an extended one, with timestamps',
    setup: { cqOptions: { wcFlags: V.IBV_WC_EX_WITH_COMPLETION_TIMESTAMP } },
    run: posts(O.write(), O.send(), O.read()),
    expect: {
      a: ['1 SUCCESS RDMA_WRITE', '2 SUCCESS SEND', '3 SUCCESS RDMA_READ 3000'],
      'b recv': ['101 SUCCESS RECV 3000'],
    },
    rxe: { why: 'it stamps no completions' },
  },
  {
    name: 'completion queue: an extended one, with the standard fields',
    setup: { cqOptions: { wcFlags: V.IBV_WC_STANDARD_FLAGS } },
    run: posts(O.write(), O.sendImm(), O.read(), O.fetchAdd()),
    expect: {
      a: ['1 SUCCESS RDMA_WRITE', '2 SUCCESS SEND', '3 SUCCESS RDMA_READ 3000', '4 SUCCESS FETCH_ADD 8'],
      'b recv': ['101 SUCCESS RECV 3000 imm 1002'],
    },
  },
  {
    name: 'completion queue: an extended one, with errors',
    setup: { cqOptions: { wcFlags: V.IBV_WC_STANDARD_FLAGS }, recvs: 1 },
    run: posts(O.write(), O.write({ rkey: 0xdead01, isFaulty: true }), O.read({ isFaulty: true })),
    expect: {
      a: ['1 SUCCESS RDMA_WRITE', '2 REM_ACCESS_ERR', '3 WR_FLUSH_ERR'],
      'b recv': ['101 WR_FLUSH_ERR'],
      events: ['b0 QP_ACCESS_ERR'],
    },
  },
  {
    name: 'completion queue: a poll after it was destroyed',
    setup: {},
    async run(scene) {
      const { handle } = scene.p.createCq(scene.a.context, 4, 0);
      scene.p.destroyCq(handle);
      const wcs = new V.WcBatch(scene.p, { capacity: 1 });
      scene.attempt('pollCq', () => scene.p.pollCq(handle, wcs.ring, 0, 1));
      wcs.close();
      await posts(O.write())(scene);
    },
    expect: { calls: ['pollCq: ISO_ERR_HANDLE'], a: ['1 SUCCESS RDMA_WRITE'] },
  },
];

export const cases: Case[] = [...ids, ...rest];
