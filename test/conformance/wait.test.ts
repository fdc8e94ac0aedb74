/** WAIT means the same whether the device executes it or the shim does. */
import { describe, expect, test } from 'vitest';
import { createPolicy } from '../../src/policies/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import { emulateWait } from '../../src/shim/emulate-wait.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, type End, makeEnd, modify, SIGNALED } from '../sim/helpers.ts';

const PERF = { subMsgSizeBytes: 256, zeroWaitUnitBytes: 64 };

const kinds: Record<string, { wait: boolean; chain: () => Interceptor[] }> = {
  simulated: { wait: true, chain: () => [] },
  emulated: { wait: false, chain: () => [emulateWait()] },
  'simulated, under perf': { wait: true, chain: () => [createPolicy('perf', PERF)] },
  'emulated, under perf': { wait: false, chain: () => [createPolicy('perf', PERF)] },
};

async function open(kind: string, count: number) {
  const { wait, chain } = kinds[kind];
  const fabric = createFabric({ autoAdvance: false, wait });
  const provider = compose(fabric.provider, chain());
  const wrapped = { ...fabric, provider };
  const ends = Array.from({ length: count }, () => makeEnd(wrapped, 0));
  const peers = ends.map((end) => {
    const peer = makeEnd(wrapped, 1);
    connect(end, peer);
    return peer;
  });
  const ids: Record<number, number[]> = {};
  /** Runs to the end, polling every queue; returns the wr_ids that `end` completed so far. */
  const completed = async (end: End) => {
    for (let idle = 0; idle < 3; idle++) {
      await fabric.run();
      for (const { v, sendCq, wc, qp } of ends) {
        const n = v.pollCq(sendCq, wc.ring, 0, 64);
        ids[qp] ??= [];
        for (let i = 0; i < n; i++) ids[qp].push(wc.status(i) === 0 ? wc.wrId(i) : -wc.wrId(i));
        if (n > 0) idle = 0;
      }
    }
    return ids[end.qp];
  };
  return { provider, ends, peers, completed };
}

function write(end: End, id: number): void {
  end.send.write(id, SIGNALED, 0, 0, 0, 0, 0);
}

function post(end: End): number {
  const n = end.v.postSend(end.qp, end.send.ring, 0, end.send.length);
  end.send.clear();
  return n;
}

describe.each(Object.keys(kinds))('WAIT, %s', (kind) => {
  test('the provider says how', async () => {
    const { provider } = await open(kind, 1);
    expect(provider.wait).toBe(kind.split(',')[0]);
  });

  test('0_WAITs complete in order when signaled', async () => {
    const { ends, completed } = await open(kind, 1);
    const [a] = ends;
    write(a, 1);
    a.send.wait(2, SIGNALED, a.sendCq, 0, 4).wait(3, 0, a.sendCq, 0);
    write(a, 4);
    expect(post(a)).toBe(4);
    expect(await completed(a)).toEqual([1, 2, 4]);
  });

  test('a WAIT holds what is behind it until the CQ has seen that many more', async () => {
    const { ends, completed } = await open(kind, 2);
    const [a, b] = ends;
    a.send.wait(1, 0, b.sendCq, 2);
    write(a, 2);
    post(a);
    expect(await completed(a)).toEqual([]);
    write(b, 1);
    post(b);
    expect(await completed(a)).toEqual([]);
    write(b, 2);
    post(b);
    expect(await completed(a)).toEqual([2]);
  });

  test('WAITs on one CQ count on from each other', async () => {
    const { ends, completed } = await open(kind, 3);
    const [a, b, c] = ends;
    for (const [i, end] of [a, b].entries()) {
      end.send.wait(0, 0, c.sendCq, 1);
      write(end, i + 1);
      post(end);
    }
    write(c, 9);
    post(c);
    expect(await completed(a)).toEqual([1]);
    expect(await completed(b)).toEqual([]);
    write(c, 10);
    post(c);
    expect(await completed(b)).toEqual([2]);
  });

  test('a WAIT counts messages, not their pieces', async () => {
    const { ends, peers, completed } = await open(kind, 2);
    const [a, b] = ends;
    const { addr, rkey } = peers[1].mr;
    a.send.wait(1, 0, b.sendCq, 2);
    write(a, 2);
    post(a);
    b.send.write(1, SIGNALED, b.mr.addr, 4096, b.mr.lkey, addr, rkey);
    post(b);
    expect(await completed(b)).toEqual([1]);
    expect(await completed(a)).toEqual([]);
    b.send.write(2, SIGNALED, b.mr.addr, 4096, b.mr.lkey, addr, rkey);
    post(b);
    expect(await completed(a)).toEqual([2]);
  });

  test('what waits is flushed when the queue pair fails', async () => {
    const { ends, completed } = await open(kind, 2);
    const [a, b] = ends;
    a.send.wait(1, 0, b.sendCq, 1);
    write(a, 2);
    post(a);
    expect(await completed(a)).toEqual([]);
    modify(a, { qpState: V.IBV_QPS_ERR });
    expect(await completed(a)).toEqual([-1, -2]);
  });
});

test('without emulation, a device that has no WAIT refuses it', async () => {
  const fabric = createFabric({ autoAdvance: false, wait: false });
  const end = makeEnd(fabric, 0);
  connect(end, makeEnd(fabric, 1));
  end.send.wait(1, 0, end.sendCq, 0);
  expect(post(end)).toBe(0);
  expect(end.send.errno).toBe(V.EOPNOTSUPP);
});
