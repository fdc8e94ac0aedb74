// WAIT, ENABLE and managed queue pairs, emulated on a real device that lacks them: alone and under perf.
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { type CompletionQueue, type Context, openDevice, type QueuePair } from '../../src/index.ts';
import { createPolicy, emulateWait } from '../../src/policies/index.ts';
import type { Interceptor } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';
import { device } from './ground.ts';

const SIGNALED = V.IBV_SEND_SIGNALED;
const BYTES = 3000;
const PERF = { isolation: 'always', subMsgSizeBytes: 1024, zeroWaitUnitBytes: 512 };

const chains: Record<string, () => Interceptor> = {
  '0_WAIT yields': () => emulateWait(),
  '0_WAIT writes': () => emulateWait({ zeroWait: 'write' }),
  'under perf': () => createPolicy('perf', PERF),
  'under perf, 0_WAIT writes': () => createPolicy('perf', { ...PERF, zeroWait: 'write' }),
};

/** A queue pair connected to itself, with its own CQ. */
function loopback(context: Context, pd: ReturnType<Context['allocPd']>, managed = false) {
  const cq = context.createCq({ cqe: 64 });
  const qp = pd.createQp({ sendCq: cq, managed, cap: { maxSendWr: 16 } });
  qp.connectTo(qp.endpoint());
  return { qp, cq };
}

/** Polls [id, status] until there are `count`, then a little longer to catch unexpected completions. */
async function completions(
  context: Context,
  cq: CompletionQueue,
  count: number,
): Promise<[number, number][]> {
  const seen: [number, number][] = [];
  const wcs = context.wcBatch({ capacity: 16 });
  for (let late = 0, tries = 0; late < 3 && tries < 400; tries++) {
    const n = cq.poll(wcs);
    for (let i = 0; i < n; i++) seen.push([wcs.wrId(i), wcs.status(i)]);
    if (seen.length >= count) late++;
    await delay(5);
  }
  wcs.close();
  return seen;
}

describe.skipIf(device === '')('WAIT and ENABLE on a real device', () => {
  test.each(Object.keys(chains))('a managed queue pair goes as far as it is enabled: %s', async (name) => {
    using context = openDevice(device, { policy: chains[name]() });
    expect(context.provider.wait).toBe('emulated');
    const pd = context.allocPd();
    const mr = pd.allocate(8 * BYTES, { access: { remoteWrite: true } });
    const [a, m, paused] = [loopback(context, pd), loopback(context, pd, true), loopback(context, pd)];
    for (let i = 0; i < 3; i++) mr.bytes.fill(i + 1, i * BYTES, (i + 1) * BYTES);
    const batch = context.sendBatch({ capacity: 8 });
    const post = (qp: QueuePair) => {
      qp.postSend(batch);
      batch.clear();
    };
    for (let i = 0; i < 3; i++) {
      batch.write(i, SIGNALED, mr.addr + i * BYTES, BYTES, mr.lkey, mr.addr + (4 + i) * BYTES, mr.rkey);
    }
    post(m.qp);
    batch.wait(8, 0, m.cq.handle, 3).write(9, SIGNALED, mr.addr, 8, mr.lkey, mr.addr + 7 * BYTES, mr.rkey);
    post(paused.qp);
    expect(await completions(context, m.cq, 0)).toEqual([]);
    batch.wait(1, SIGNALED, a.cq.handle, 0, 2).enable(2, SIGNALED, m.qp.handle, 2);
    post(a.qp);
    expect(await completions(context, a.cq, 2)).toEqual([1, 2].map((id) => [id, 0]));
    expect(await completions(context, m.cq, 2)).toEqual([0, 1].map((id) => [id, 0]));
    expect([4, 5, 6].map((i) => mr.bytes[(i + 1) * BYTES - 1])).toEqual([1, 2, 0]);
    expect(await completions(context, paused.cq, 0)).toEqual([]);
    batch.enable(3, 0, m.qp.handle, 0);
    post(a.qp);
    expect(await completions(context, m.cq, 1)).toEqual([[2, 0]]);
    expect(mr.bytes[7 * BYTES - 1]).toBe(3);
    expect(await completions(context, paused.cq, 1)).toEqual([[9, 0]]);
    batch.enable(4, 0, m.qp.handle, 1);
    expect(() => a.qp.postSend(batch)).toThrow(expect.objectContaining({ errno: V.EINVAL }));
    batch.close();
  });

  test('held requests are flushed, and a queue pair with held requests may be destroyed', async () => {
    using context = openDevice(device, { policy: emulateWait() });
    const pd = context.allocPd();
    const [m, gone] = [loopback(context, pd, true), loopback(context, pd, true)];
    const batch = context.sendBatch({ capacity: 8 });
    batch.write(1, SIGNALED, 0, 0, 0, 0, 0).write(2, 0, 0, 0, 0, 0, 0);
    m.qp.postSend(batch);
    gone.qp.postSend(batch);
    m.qp.modify({ qpState: V.IBV_QPS_ERR });
    expect(await completions(context, m.cq, 2)).toEqual([1, 2].map((id) => [id, V.IBV_WC_WR_FLUSH_ERR]));
    gone.qp.close();
    expect(await completions(context, gone.cq, 0)).toEqual([]);
    batch.close();
  });
});
