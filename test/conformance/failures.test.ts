/** A queue pair fails while it holds requests: they are flushed in order, as on a device. */
import { describe, expect, test } from 'vitest';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import { emulateWait } from '../../src/shim/wait/emulate-wait.ts';
import * as V from '../../src/verbs/index.ts';
import type { Ground } from '../verbs/ground.ts';
import {
  addressHandle,
  type ConnectOptions,
  connectedPair,
  eventsOf,
  modify,
  type Pair,
  pass,
  polled,
  postRecv,
  postSend,
  QKEY,
} from '../verbs/rig.ts';

const { IBV_SEND_SIGNALED: SIGNALED } = V;

function groundUnder(chain: Interceptor[]): Ground {
  const fabric = createFabric({ hosts: 2, seed: 1, autoAdvance: false });
  const turn = () => fabric.advance(50_000);
  const provider = compose(fabric.provider, chain);
  return { name: 'sim', provider, devices: ['sim0', 'sim1'], fabric, gidIndex: 1, turn };
}

/** At b, posts a WAIT (id 1) for a completion that never arrives, and a SEND (id 2) behind it. */
function holdAtB(pair: Pair, ah = 0): void {
  const { b, qpA, qpB } = pair;
  const never = b.p.createCq(b.context, 16, 0).handle;
  postSend(b, qpB.handle, (batch) => {
    batch.wait(1, SIGNALED, never, 1);
    batch.send(2, SIGNALED, b.mr.addr, 8, b.mr.lkey);
    if (ah !== 0) batch.datagramTo(1, ah, qpA.qpNum, QKEY);
  });
}

async function statuses(end: Pair['b'], count: number) {
  return (await polled(end, count)).map(({ wrId, status }) => [wrId, status]);
}

const FLUSHED = [
  [1, 'WR_FLUSH_ERR'],
  [2, 'WR_FLUSH_ERR'],
];

const sides: [string, () => Interceptor[]][] = [
  ['bare', () => []],
  ['with WAIT emulated', () => [emulateWait()]],
];

describe.each(sides)('%s', (_, chain) => {
  const pairOf = (options: ConnectOptions) => connectedPair(groundUnder(chain()), options);

  test.each([
    ['RC', V.IBV_QPT_RC],
    ['UC', V.IBV_QPT_UC],
    ['UD', V.IBV_QPT_UD],
  ])('%s: by a receive with a key for other memory', async (_type, qpType) => {
    const pair = pairOf({ qpType });
    const { a, b, qpA, qpB } = pair;
    const isDatagram = qpType === V.IBV_QPT_UD;
    holdAtB(pair, isDatagram ? addressHandle(b, a) : 0);
    postRecv({ ...b, mr: { ...b.mr, lkey: 12345 } }, qpB.handle, 7, 0, 200);
    const ah = isDatagram ? addressHandle(a, b) : 0;
    postSend(a, qpA.handle, (batch) => {
      batch.send(3, SIGNALED, a.mr.addr, 8, a.mr.lkey);
      if (isDatagram) batch.datagramTo(0, ah, qpB.qpNum, QKEY);
    });
    expect(await statuses(b, 3)).toEqual([[7, 'LOC_PROT_ERR'], ...FLUSHED]);
  });

  test.each([true, false])('by an error that only an event reports (listening: %s)', async (listening) => {
    const pair = pairOf({});
    const { a, b, qpA, qpB } = pair;
    const before = listening ? eventsOf(b) : null;
    holdAtB(pair);
    postSend(a, qpA.handle, (batch) =>
      batch.write(3, SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey ^ 2),
    );
    expect(await statuses(b, 2)).toEqual(FLUSHED);
    const heard = before ?? eventsOf(b);
    await pass(a.ground);
    expect(heard).toEqual([{ event: V.IBV_EVENT_QP_ACCESS_ERR, element: qpB.handle }]);
  });

  test('UD: a failed send moves to SQE; the next one is sent after RTS', async () => {
    const pair = pairOf({ qpType: V.IBV_QPT_UD });
    const { a, b, qpA, qpB } = pair;
    const ah = addressHandle(b, a);
    postRecv(a, qpA.handle, 9, 0, 200);
    postSend(b, qpB.handle, (batch) => {
      batch.send(0, SIGNALED, b.mr.addr, 8, 12345);
      batch.datagramTo(0, ah, qpA.qpNum, QKEY);
    });
    holdAtB(pair, ah);
    expect(await statuses(b, 3)).toEqual([[0, 'LOC_PROT_ERR'], ...FLUSHED]);
    modify(b, qpB.handle, { qpState: V.IBV_QPS_RTS });
    postSend(b, qpB.handle, (batch) => {
      batch.send(4, SIGNALED, b.mr.addr, 8, b.mr.lkey);
      batch.datagramTo(0, ah, qpA.qpNum, QKEY);
    });
    expect(await statuses(b, 1)).toEqual([[4, 'SUCCESS']]);
    expect(await statuses(a, 1)).toEqual([[9, 'SUCCESS']]);
    b.p.destroyQp(qpB.handle);
    b.p.destroyAh(ah);
    b.p.deregMr(b.mr.handle);
    b.p.deallocPd(b.pd);
  });

  describe.each([
    ['UC', V.IBV_QPT_UC],
    ['UD', V.IBV_QPT_UD],
  ])('%s: RTS again before the failure is polled', (_type, qpType) => {
    /**
     * A SEND (id 0) that fails behind `before`; returns when the queue pair is in SQE and its completions are on their
     * way.
     */
    async function toSqe(pair: Pair, before: () => void): Promise<(wrId: number) => void> {
      const { a, b, qpA, qpB } = pair;
      const ah = qpType === V.IBV_QPT_UD ? addressHandle(b, a) : 0;
      const send = (wrId: number, lkey = b.mr.lkey) =>
        postSend(b, qpB.handle, (batch) => {
          batch.send(wrId, SIGNALED, b.mr.addr, 8, lkey);
          if (ah !== 0) batch.datagramTo(0, ah, qpA.qpNum, QKEY);
        });
      send(0, 12345);
      before();
      const isSqe = () => b.p.queryQp(qpB.handle).attr.qpState === V.IBV_QPS_SQE;
      for (let i = 0; i < 1000 && !isSqe(); i++) await pair.a.ground.fabric?.advance(20);
      expect(isSqe()).toBe(true);
      return send;
    }

    test.each([0, 50_000])('%d ns later: requests held after it are sent', async (laterNs) => {
      const pair = pairOf({ qpType });
      const { a, b, qpA, qpB } = pair;
      const send = await toSqe(pair, () => {});
      await a.ground.fabric?.advance(laterNs);
      modify(b, qpB.handle, { qpState: V.IBV_QPS_RTS });
      const other = b.p.createCq(b.context, 16, 0).handle;
      const never = b.p.createCq(b.context, 16, 0).handle;
      postRecv(a, qpA.handle, 9, 0, 200);
      postSend(b, qpB.handle, (batch) => batch.wait(1, SIGNALED, other, 0));
      send(2);
      postSend(b, qpB.handle, (batch) => batch.wait(3, SIGNALED, never, 1));
      expect(await statuses(b, 3)).toEqual([
        [0, 'LOC_PROT_ERR'],
        [1, 'SUCCESS'],
        [2, 'SUCCESS'],
      ]);
      const [{ wrId, status, byteLen }] = await polled(a, 1);
      expect([wrId, status, byteLen]).toEqual([9, 'SUCCESS', qpType === V.IBV_QPT_UD ? 48 : 8]);
      expect(b.p.queryQp(qpB.handle).attr.qpState).toBe(V.IBV_QPS_RTS);
    });

    test.each([0, 50_000])('%d ns later: requests held before it are flushed', async (laterNs) => {
      const pair = pairOf({ qpType });
      const { a, b, qpA, qpB } = pair;
      const never = b.p.createCq(b.context, 16, 0).handle;
      let send: (wrId: number) => void = () => {};
      const isHeld = () => {
        postSend(b, qpB.handle, (batch) => {
          batch.wait(1, 0, never, 1);
          batch.wait(2, SIGNALED, never, 1);
        });
      };
      send = await toSqe(pair, isHeld);
      await a.ground.fabric?.advance(laterNs);
      modify(b, qpB.handle, { qpState: V.IBV_QPS_RTS });
      postRecv(a, qpA.handle, 9, 0, 200);
      send(4);
      expect(await statuses(b, 4)).toEqual([[0, 'LOC_PROT_ERR'], ...FLUSHED, [4, 'SUCCESS']]);
      expect(await statuses(a, 1)).toEqual([[9, 'SUCCESS']]);
    });
  });
});
