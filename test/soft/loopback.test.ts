// Two user-space RoCE devices of one process, over UDP sockets of the loopback interface.
import { afterEach, describe, expect, test } from 'vitest';
import { RandomStream } from '../../src/sim/kernel/random.ts';
import { IBV_SEND_SIGNALED } from '../../src/verbs/index.ts';
import { absent, type End, pairOf, twoDevices } from './rig.ts';

const NET = 71;
let ends: End[] = [];

afterEach(() => {
  for (const { context } of ends) context.close();
  ends = [];
});

function pair(options = {}, bytes?: number) {
  const network = twoDevices(NET, options);
  const [a, b] = pairOf(network, bytes);
  ends = [a, b];
  return { network, a, b };
}

function fill(bytes: Uint8Array, seed: number): void {
  for (let i = 0; i < bytes.length; i++) bytes[i] = (i * 31 + (i >> 8) * 7 + seed) & 0xff;
}

describe.skipIf(absent !== null)(
  `user-space RoCE over loopback${absent === null ? '' : `: ${absent}`}`,
  () => {
    test.each([0, 1, 2, 3, 4095, 4096, 4097, 100_000])('a WRITE of %i bytes arrives', async (length) => {
      const { a, b, network } = pair({}, 1 << 17);
      fill(a.mr.bytes, length);
      const batch = a.context.sendBatch({ capacity: 1 });
      batch.write(1, IBV_SEND_SIGNALED, a.mr.addr, length, a.mr.lkey, b.mr.addr, b.mr.rkey);
      a.qp.postSend(batch);
      expect((await a.cq.next()).statusText).toBe('SUCCESS');
      expect(Buffer.compare(b.mr.bytes.subarray(0, length), a.mr.bytes.subarray(0, length))).toBe(0);
      expect(b.mr.bytes.subarray(length).every((byte) => byte === 0)).toBe(true);
      expect(network.counters('soft1')).toMatchObject({ malformed: 0, badIcrc: 0, refused: 0 });
    });

    test('WRITEs and READs at changing places carry what is there now, also if packets are lost', async () => {
      const { a, b } = pair({ loss: 0.02 }, 1 << 20);
      const random = new RandomStream(1, 'places');
      const below = (limit: number) => Math.floor(random.next() * limit);
      for (let round = 0; round < 100; round++) {
        // Half of the places return, so that views of them are kept.
        const length = 1 + below(round % 2 === 0 ? 300 : 20_000);
        const [from, to] = [4096 * below(4) + below(2) * 64, 4096 * below(200) + below(64)];
        fill(a.mr.bytes.subarray(from, from + length), round);
        const batch = a.context.sendBatch({ capacity: 2 });
        batch.write(1, IBV_SEND_SIGNALED, a.mr.addr + from, length, a.mr.lkey, b.mr.addr + to, b.mr.rkey);
        batch.read(2, IBV_SEND_SIGNALED, a.mr.addr + 500_000, length, a.mr.lkey, b.mr.addr + to, b.mr.rkey);
        a.qp.postSend(batch);
        for (let i = 0; i < 2; i++) expect((await a.cq.next()).statusText).toBe('SUCCESS');
        const sent = a.mr.bytes.subarray(from, from + length);
        expect(Buffer.compare(b.mr.bytes.subarray(to, to + length), sent), `WRITE ${round}`).toBe(0);
        expect(Buffer.compare(a.mr.bytes.subarray(500_000, 500_000 + length), sent), `READ ${round}`).toBe(0);
      }
    });

    test('SENDs arrive in order and complete receives with their lengths', async () => {
      const { a, b } = pair();
      fill(a.mr.bytes, 3);
      const receives = b.context.recvBatch({ capacity: 8 });
      for (let i = 0; i < 8; i++) receives.recv(i, b.mr.addr + i * 8192, 8192, b.mr.lkey);
      b.qp.postRecv(receives);
      const batch = a.context.sendBatch({ capacity: 8 });
      for (let i = 0; i < 8; i++) batch.send(i, IBV_SEND_SIGNALED, a.mr.addr, i * 1000, a.mr.lkey);
      a.qp.postSend(batch);
      for (let i = 0; i < 8; i++) {
        expect(await b.cq.next()).toMatchObject({
          wrId: BigInt(i),
          statusText: 'SUCCESS',
          byteLen: i * 1000,
        });
        const got = b.mr.bytes.subarray(i * 8192, i * 8192 + i * 1000);
        expect(Buffer.compare(got, a.mr.bytes.subarray(0, i * 1000))).toBe(0);
      }
    });

    test('a READ that is repeated after its region is gone ends with REM_ACCESS_ERR', async () => {
      const { a, b } = pair();
      const batch = a.context.sendBatch({ capacity: 1 });
      batch.read(1, IBV_SEND_SIGNALED, a.mr.addr, 64, a.mr.lkey, b.mr.addr, b.mr.rkey);
      a.qp.postSend(batch);
      expect((await a.cq.next()).statusText).toBe('SUCCESS');
      b.mr.close();
      // Connected anew, the queue pair gives the READ the same number, as if its response had been lost.
      a.qp.reset();
      a.qp.connectTo(b.qp.endpoint());
      a.qp.postSend(batch);
      expect((await a.cq.next()).statusText).toBe('REM_ACCESS_ERR');
    });

    test('packets are late, others overtake them, and every byte arrives', async () => {
      const { a, b } = pair({ delayMs: 3, reorder: 0.1, seed: 7 }, 1 << 18);
      fill(a.mr.bytes, 5);
      const batch = a.context.sendBatch({ capacity: 1 });
      batch.write(1, IBV_SEND_SIGNALED, a.mr.addr, 1 << 18, a.mr.lkey, b.mr.addr, b.mr.rkey);
      const began = performance.now();
      a.qp.postSend(batch);
      expect((await a.cq.next()).statusText).toBe('SUCCESS');
      // Of 64 packets in two windows, hardly all overtake.
      expect(performance.now() - began).toBeGreaterThan(2.9);
      expect(Buffer.compare(b.mr.bytes, a.mr.bytes)).toBe(0);
    });

    test('with losses, every byte arrives', async () => {
      const { a, b } = pair({ loss: 0.05, seed: 7 }, 1 << 20);
      fill(a.mr.bytes, 9);
      const batch = a.context.sendBatch({ capacity: 1 });
      batch.write(1, IBV_SEND_SIGNALED, a.mr.addr, 1 << 20, a.mr.lkey, b.mr.addr, b.mr.rkey);
      a.qp.postSend(batch);
      expect((await a.cq.next()).statusText).toBe('SUCCESS');
      expect(Buffer.compare(b.mr.bytes, a.mr.bytes)).toBe(0);
    });
  },
);
