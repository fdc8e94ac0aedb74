/** Messages that take a receive over shared queue pairs, on a device. */
import { setImmediate } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { createPolicy } from '../../src/policies/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, defined, skipReason, toInit } from './rig.ts';

const SIGNALED = V.IBV_SEND_SIGNALED;
const ROUNDS = 60;
const AREA_BYTES = 4096;
const ACCESS = V.IBV_ACCESS_LOCAL_WRITE | V.IBV_ACCESS_REMOTE_WRITE | V.IBV_ACCESS_REMOTE_READ;

/** Counts requests by queue pair. */
class Count {
  readonly posts = new Map<number, number>();

  readonly interceptor: Interceptor = {
    name: 'count',
    wrap: (next) => ({
      postSend: (qp, ring, start, count) => {
        const n = next.postSend(qp, ring, start, count);
        this.posts.set(qp, (this.posts.get(qp) ?? 0) + n);
        return n;
      },
    }),
  };

  of(qps: readonly number[]): number {
    return qps.reduce((sum, qp) => sum + (this.posts.get(qp) ?? 0), 0);
  }
}

describe.skipIf(skipReason !== '')('three connections of a device with itself', () => {
  test('messages, immediates and RDMA WRITEs with immediates go over one carrier', {
    timeout: 60_000,
  }, async () => {
    const { provider, name } = defined();
    const count = new Count();
    const v = compose(provider, [createPolicy('share', { connectionsPerQp: 3 }), count.interceptor]);
    const context = v.openDevice(name);
    const pd = v.allocPd(context);
    const mr = v.allocMr(pd, 16 * AREA_BYTES, ACCESS);
    const bytes = new Uint8Array(mr.memory, mr.byteOffset, 16 * AREA_BYTES);
    const cap = { maxSendWr: 32, maxRecvWr: 8, maxSendSge: 1, maxRecvSge: 1, maxInlineData: 0 };
    const ends = Array.from({ length: 6 }, () => {
      const cq = v.createCq(context, 64, 0).handle;
      const attr = { qpType: V.IBV_QPT_RC, sendCq: cq, recvCq: cq, cap, sqSigAll: false };
      return { cq, ...v.createQp(pd, attr) };
    });
    const pairs = [0, 1, 2].map((i) => [ends[2 * i], ends[2 * i + 1]] as const);
    for (const [a, b] of pairs) {
      for (const { handle } of [a, b]) toInit(v, handle, ACCESS);
      const [ofA, ofB] = [a, b].map(({ handle }) => v.describePeer?.(handle) ?? null);
      v.setPeer?.(a.handle, ofB);
      v.setPeer?.(b.handle, ofA);
      connect(v, context, a.handle, b.qpNum, { rnrRetry: 7 });
      connect(v, context, b.handle, a.qpNum, { rnrRetry: 7 });
    }
    const send = new V.SendBatch(v, { capacity: 8, sges: 1, inlineBytes: 0 });
    const recv = new V.RecvBatch(v, { capacity: 8, sges: 1 });
    const wc = new V.WcBatch(v, { capacity: 16 });
    const poll = async (cq: number): Promise<string> => {
      for (let tries = 0; tries < 100_000; tries++) {
        if (v.pollCq(cq, wc.ring, 0, 1) === 1) {
          const imm = wc.isRecv(0) && (wc.flags(0) & V.IBV_WC_WITH_IMM) !== 0 ? ` ${wc.imm(0)}` : '';
          return `${wc.wrId(0)} ${V.wcStatusName(wc.status(0))} ${wc.byteLen(0) * Number(wc.isRecv(0))}${imm}`;
        }
        if (tries % 16 === 15) await setImmediate();
      }
      return 'no completion';
    };
    for (let round = 0; round < ROUNDS; round++) {
      for (const [i, [a, b]] of pairs.entries()) {
        const id = 10 * round + i;
        const [from, to] = [mr.addr + i * AREA_BYTES, mr.addr + (4 + i) * AREA_BYTES];
        bytes.fill(id & 0xff, i * AREA_BYTES, (i + 1) * AREA_BYTES);
        recv.clear().recv(id, to, 2000, mr.lkey);
        expect(v.postRecv(b.handle, recv.ring, 0, 1)).toBe(1);
        const length = 100 + id;
        send.clear();
        if (round % 3 === 0) send.send(id, SIGNALED, from, length, mr.lkey);
        else if (round % 3 === 1) send.sendImm(id, SIGNALED, from, length, mr.lkey, id);
        else send.writeImm(id, SIGNALED, from, length, mr.lkey, to, mr.rkey, id);
        expect(v.postSend(a.handle, send.ring, 0, 1)).toBe(1);
        expect(await poll(b.cq)).toBe(`${id} SUCCESS ${length}${round % 3 === 0 ? '' : ` ${id}`}`);
        expect(await poll(a.cq)).toBe(`${id} SUCCESS 0`);
        const at = (4 + i) * AREA_BYTES;
        expect(bytes.subarray(at, at + length).every((byte) => byte === (id & 0xff))).toBe(true);
      }
    }
    expect(count.of(pairs.map(([a]) => a.handle))).toBeLessThan(0.1 * 3 * ROUNDS);
    for (const { handle } of ends) v.destroyQp(handle);
    for (const { cq } of ends) v.destroyCq(cq);
    v.deregMr(mr.handle);
    v.deallocPd(pd);
    v.closeDevice(context);
  });
});
