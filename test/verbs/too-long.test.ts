// Unreliable messages that are longer than their receive.
import { expect } from 'vitest';
import * as V from '../../src/verbs/index.ts';
import { feature } from './ground.ts';
import {
  addressHandle,
  closeEnd,
  connect,
  createQp,
  type End,
  openEnd,
  pass,
  polled,
  postRecv,
  postSend,
  postShared,
  QKEY,
} from './rig.ts';

const { IBV_SEND_SIGNALED: SIGNALED } = V;
const NOTES = { group: 'qp', others: 'every InfiniBand and RoCE device' };

interface Way {
  a: End;
  b: End;
  srq: V.SrqInfo | null;
  receive(wrId: number, bytes: number): void;
  send(wrId: number, bytes: number): Promise<void>;
  stateOfReceiver(): number | undefined;
  close(): void;
}

function open(a: End, b: End, qpType: number, shared: boolean): Way {
  const srq = shared ? b.p.createSrq(b.pd, { maxWr: 8, maxSge: 1 }) : null;
  const sender = createQp(a, { qpType });
  const receiver = createQp(b, { qpType, ...(srq !== null && { srq: srq.handle }) });
  connect(a, sender.handle, b, receiver.qpNum, { qpType });
  connect(b, receiver.handle, a, sender.qpNum, { qpType });
  const ah = qpType === V.IBV_QPT_UD ? addressHandle(a, b) : 0;
  return {
    a,
    b,
    srq,
    receive(wrId, bytes) {
      if (srq === null) postRecv(b, receiver.handle, wrId, 4096, bytes);
      else postShared(b, srq.handle, wrId, 4096, bytes);
    },
    async send(wrId, bytes) {
      postSend(a, sender.handle, (batch) => {
        batch.send(wrId, SIGNALED, a.mr.addr, bytes, a.mr.lkey);
        if (ah !== 0) batch.datagramTo(0, ah, receiver.qpNum, QKEY);
      });
      expect(await polled(a, 1)).toMatchObject([{ wrId, status: 'SUCCESS' }]);
    },
    stateOfReceiver: () => b.p.queryQp(receiver.handle).attr.qpState,
    close() {
      if (ah !== 0) a.p.destroyAh(ah);
      a.p.destroyQp(sender.handle);
      b.p.destroyQp(receiver.handle);
      if (srq !== null) b.p.destroySrq(srq.handle);
      closeEnd(a);
      closeEnd(b);
    },
  };
}

feature('unreliable messages longer than their receive', NOTES, (it) => {
  for (const [name, qpType, headerBytes] of [
    ['UC', V.IBV_QPT_UC, 0],
    ['UD', V.IBV_QPT_UD, 40],
  ] as const) {
    it(`${name}: dropped, the receive stays (soft-RoCE: fails the queue pair)`, async (ground) => {
      const way = open(openEnd(ground, 0), openEnd(ground, 1), qpType, false);
      way.receive(1, headerBytes + 99);
      await way.send(2, 100);
      if (ground.name === 'rxe') {
        expect(await polled(way.b, 1)).toMatchObject([{ wrId: 1, status: 'LOC_QP_OP_ERR' }]);
        expect(way.stateOfReceiver()).toBe(V.IBV_QPS_ERR);
      } else {
        await pass(ground);
        await way.send(3, 99);
        expect(await polled(way.b, 1)).toMatchObject([
          { wrId: 1, status: 'SUCCESS', byteLen: headerBytes + 99 },
        ]);
        expect(way.stateOfReceiver()).toBe(V.IBV_QPS_RTS);
      }
      way.close();
    });

    it(`${name}: a shared receive fails (soft-RoCE: and the queue pair)`, async (ground) => {
      const way = open(openEnd(ground, 0), openEnd(ground, 1), qpType, true);
      way.receive(1, headerBytes + 99);
      way.receive(4, headerBytes + 99);
      await way.send(2, 100);
      const status = ground.name === 'rxe' ? 'LOC_QP_OP_ERR' : 'LOC_LEN_ERR';
      expect(await polled(way.b, 1)).toMatchObject([{ wrId: 1, status }]);
      if (ground.name === 'rxe') {
        expect(way.stateOfReceiver()).toBe(V.IBV_QPS_ERR);
      } else {
        await way.send(3, 99);
        expect(await polled(way.b, 1)).toMatchObject([{ wrId: 4, status: 'SUCCESS' }]);
        expect(way.stateOfReceiver()).toBe(V.IBV_QPS_RTS);
      }
      way.close();
    });
  }
});
