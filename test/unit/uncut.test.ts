// Held requests that a policy would have cut, but that go whole: their counts, and what a trace says about them.
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parsePolicies } from '../../src/config.ts';
import { policyInterceptors } from '../../src/drivers/index.ts';
import { readTrace, trace } from '../../src/interceptors/index.ts';
import { shimCounters, treatmentText } from '../../src/shim/counters.ts';
import { type Pair, pairOn, scratch, simUnder } from './interceptors-rig.ts';

const folder = scratch();
const LONG_BYTES = 1000;

/** A queue pair whose messages are reliable, but not those of RC. */
function shared({ a, b }: Pair) {
  const receiver = a.context.openXrcd().createQp();
  const sender = b.pd.createQp({ type: 'XRC_SEND', sendCq: b.cq });
  sender.connectTo(receiver.endpoint());
  receiver.connectTo(sender.endpoint());
  return sender;
}

/** A queue pair whose shim has no agreement with the peer's. */
function strangers({ a, b }: Pair, qpType: 'RC' | 'UC', maxInlineData = 0) {
  const cap = { maxInlineData };
  const [qp, peer] = [b, a].map(({ pd, cq }) => pd.createQp({ type: qpType, sendCq: cq, cap }));
  qp.connectTo(peer.endpoint());
  peer.connectTo(qp.endpoint());
  return { qp, peer };
}

async function run(pair: Pair): Promise<void> {
  const { a, b } = pair;
  const remote = { addr: a.mr.addr, rkey: a.mr.rkey };
  const sgList = [{ mr: b.mr, length: LONG_BYTES }];
  b.qp.post({ wrId: 1, opcode: 'RDMA_WRITE', sgList, remote });
  await b.cq.next();
  b.qp.post({ wrId: 2, opcode: 'RDMA_WRITE', inlineData: Buffer.alloc(300), remote });
  await b.cq.next();
  const unreliable = strangers(pair, 'UC');
  unreliable.qp.post({ wrId: 3, opcode: 'RDMA_WRITE', sgList, remote });
  await b.cq.next();
  shared(pair).post({ wrId: 6, opcode: 'RDMA_WRITE', sgList, remote });
  await b.cq.next();
  const reliable = strangers(pair, 'RC');
  reliable.peer.receive({ sgList: [{ mr: a.mr, length: LONG_BYTES }] });
  reliable.qp.post({ wrId: 4, opcode: 'SEND', sgList });
  await b.cq.next();
  a.qp.receive({ sgList: [{ mr: a.mr, length: LONG_BYTES }] });
  b.qp.post({ wrId: 5, opcode: 'SEND', sgList });
  await b.cq.next();
  a.qp.receive({ sgList: [{ mr: a.mr, length: 8 }] });
  b.qp.post({ wrId: 2n ** 64n - 1n, opcode: 'SEND', sgList });
  await b.cq.next();
}

test('counters and a trace say which long requests were not cut, and why', async () => {
  const interceptor = trace({ file: join(folder, 'uncut.trace') });
  const provider = simUnder(
    interceptor,
    ...policyInterceptors('inline', parsePolicies('chunk:chunkBytes=256,chunks=8', 'test')),
  );
  const pair = await pairOn(provider, { maxInlineData: 512 });
  await run(pair);
  interceptor.close();
  const counters = shimCounters(provider);
  pair.close();
  expect(counters.split).toBe(2);
  expect(counters.uncut).toEqual({
    'not RC': 2,
    inline: 1,
    'not agreed with the peer': 1,
    'short SEND or immediate': 0,
    'no receive that fits': 1,
  });
  expect(treatmentText(counters)).toBe(
    '2 split, 7 held, 0 emulated; 5 not cut: 2 not RC, 1 inline, 1 not agreed with the peer, 1 no receive that fits',
  );
  const records = [...readTrace(interceptor.files[0]).records()];
  const uncut = records.filter(({ verb }) => verb === 'uncut');
  expect(uncut.map(({ wrId, bytes, status }) => [wrId, bytes, status])).toEqual([
    ['2', 300, 'chunk: inline'],
    ['3', LONG_BYTES, 'chunk: not RC'],
    ['6', LONG_BYTES, 'chunk: not RC'],
    ['4', LONG_BYTES, 'chunk: not agreed with the peer'],
    ['18446744073709551615', LONG_BYTES, 'chunk: no receive that fits'],
  ]);
  // Each follows the post of its request.
  for (const { wrId } of uncut) {
    const ofRequest = records.filter((record) => record.wrId === wrId).map(({ verb }) => verb);
    expect(ofRequest.slice(0, 2)).toEqual(['postSend', 'uncut']);
  }
  expect(records.at(-2)).toMatchObject({ verb: 'counters', args: ['chunk'], result: { held: 7, split: 2 } });
});

test('short requests at the end of a turn count as such, not as uncut', async () => {
  const policy = 'perf:isolation=always,qpIsolation=always,turnBytes=1000';
  const provider = simUnder(...policyInterceptors('inline', parsePolicies(policy, 'test')));
  const pair = await pairOn(provider, { maxInlineData: 512 });
  const { a, b } = pair;
  const remote = { addr: a.mr.addr, rkey: a.mr.rkey };
  const { qp } = strangers(pair, 'RC', 512);
  const request = { opcode: 'RDMA_WRITE', inlineData: Buffer.alloc(300), remote } as const;
  for (let i = 0; i < 20; i++) for (const one of [b.qp, qp]) one.post({ wrId: i, ...request });
  for (let i = 0; i < 40; i++) await b.cq.next();
  const { held, uncut } = shimCounters(provider);
  pair.close();
  expect(held).toBe(40);
  expect(uncut.inline).toBe(0);
});
