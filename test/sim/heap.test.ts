/** Memory of a connected, unused queue pair: JavaScript heap and memory outside the heap. */
import v8 from 'node:v8';
import vm from 'node:vm';
import { expect, test } from 'vitest';
import { createFabric } from '../../src/providers/sim/index.ts';
import * as V from '../../src/verbs/index.ts';
import { toRts } from '../support/to-rts.ts';

const QPS = 10_000;
const MOST_HEAP_BYTES = 2048;

v8.setFlagsFromString('--expose-gc');
const collect: () => void = vm.runInNewContext('gc');

interface Used {
  heap: number;
  outside: number;
}

function used(): Used {
  collect();
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return { heap: heapUsed, outside: external };
}

test('10,000 connected queue pairs take less than 2 KB of heap each', () => {
  const { provider: v } = createFabric({ autoAdvance: false });
  const ends = [0, 1].map((host) => {
    const context = v.openDevice(`sim${host}`);
    const cq = v.createCq(context, 1024, 0).handle;
    return { pd: v.allocPd(context), cq, gid: v.queryGid(context, 1, 0).gid };
  });
  const cap = { maxSendWr: 64, maxRecvWr: 64, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
  const handles = ends.map(() => new Uint32Array(QPS / 2));
  const numbers = ends.map(() => new Uint32Array(QPS / 2));
  const before = used();
  ends.forEach(({ pd, cq }, side) => {
    for (let i = 0; i < QPS / 2; i++) {
      const init = { qpType: V.IBV_QPT_RC, sendCq: cq, recvCq: cq, cap, sqSigAll: false };
      const { handle, qpNum } = v.createQp(pd, init);
      handles[side][i] = handle;
      numbers[side][i] = qpNum;
    }
  });
  ends.forEach((_, side) => {
    const { gid: dgid } = ends[1 - side];
    for (let i = 0; i < QPS / 2; i++) {
      const destQpNum = numbers[1 - side][i];
      toRts(v, handles[side][i], { destQpNum, ah: { dgid } });
    }
  });
  const after = used();
  expect((after.heap - before.heap) / QPS).toBeLessThan(MOST_HEAP_BYTES);
  // Queues allocate nothing before the first request.
  expect((after.outside - before.outside) / QPS).toBeLessThan(64);
  expect(v.queryQp(handles[0][0]).attr.qpState).toBe(V.IBV_QPS_RTS);
});
