/** Captures of simulated cables: what the packets on them are as RoCEv2 packets. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { CableCapture } from '../../src/mix/record/cable-capture.ts';
import type { Fabric } from '../../src/providers/sim/index.ts';
import * as O from '../../src/roce/opcodes.ts';
import * as S from '../../src/roce/syndrome.ts';
import * as V from '../../src/verbs/index.ts';
import { packetOf, payloadOf, readPcapng } from '../support/pcapng.ts';
import { drain, type End, type EndOptions, fill, pair, post, postRecv, SIGNALED } from './helpers.ts';

const folder = mkdtempSync(join(tmpdir(), 'capture-'));
afterAll(() => rmSync(folder, { recursive: true }));
const file = join(folder, 'run.pcapng');

/** Runs `program` on two connected queue pairs, and returns what left their hosts, and what arrived. */
function captured(program: (a: End, b: End, fabric: Fabric) => void, options: EndOptions = {}, loss = 0) {
  const [a, b, fabric] = pair({ loss, seed: 3 }, options);
  const capture = new CableCapture(file, null);
  capture.begin(fabric.simulation.world);
  program(a, b, fabric);
  drain(fabric, a);
  capture.end();
  const { interfaces, frames } = readPcapng(file);
  expect(interfaces).toEqual(['host0', 'host1']);
  expect(frames.map(({ atNs }) => atNs)).toEqual(frames.map(({ atNs }) => atNs).sort((x, y) => x - y));
  const out = frames.filter(({ outbound }) => outbound);
  const packets = out.map((one) => ({ ...packetOf(one), at: one.at, atNs: one.atNs }));
  return { a, b, fabric, frames, out, packets, opcodes: packets.map(({ opcode }) => opcode) };
}

test('a WRITE, a SEND and a READ of several packets have their opcodes, headers and data', () => {
  const { a, b, packets, opcodes, frames, out } = captured((a, b) => {
    fill(a.bytes, 0, 9000);
    fill(b.bytes, 30000, 9000, 7);
    b.recv.recv(7, b.mr.addr + 20000, 10000, b.mr.lkey);
    postRecv(b);
    a.send.write(1, SIGNALED, a.mr.addr, 9000, a.mr.lkey, b.mr.addr + 100, b.mr.rkey);
    a.send.send(2, SIGNALED, a.mr.addr, 6001, a.mr.lkey);
    a.send.read(3, SIGNALED, a.mr.addr + 10000, 9000, a.mr.lkey, b.mr.addr + 30000, b.mr.rkey);
    post(a);
  });
  const from = (host: string) => packets.filter(({ at }) => at === host);
  expect(from('host0').map(({ opcode }) => opcode)).toEqual([
    O.WRITE_FIRST,
    O.WRITE_MIDDLE,
    O.WRITE_LAST,
    O.SEND_FIRST,
    O.SEND_LAST,
    O.READ_REQUEST,
  ]);
  const responses = [O.READ_RESPONSE_FIRST, O.READ_RESPONSE_MIDDLE, O.READ_RESPONSE_LAST];
  expect(opcodes.filter((one) => one >= O.READ_RESPONSE_FIRST && one <= O.READ_RESPONSE_ONLY)).toEqual(
    responses,
  );
  const data = (some: typeof packets) => Buffer.concat(some.map(payloadOf));
  const [write, send] = [from('host0').slice(0, 3), from('host0').slice(3, 5)];
  expect(data(write).equals(a.bytes.subarray(0, 9000))).toBe(true);
  expect(data(send).equals(a.bytes.subarray(0, 6001))).toBe(true);
  const read = from('host1').filter(({ payloadBytes }) => payloadBytes > 0);
  expect(data(read).equals(b.bytes.subarray(30000, 39000))).toBe(true);
  const address = ({ remoteAddrHi, remoteAddrLo }: (typeof packets)[0]) =>
    remoteAddrHi * 2 ** 32 + remoteAddrLo;
  expect(write[0]).toMatchObject({ rkey: b.mr.rkey, dmaLength: 9000, destQp: b.qpNum, psn: 0 });
  expect(address(write[0])).toBe(b.mr.addr + 100);
  expect(from('host0')[5]).toMatchObject({ dmaLength: 9000, psn: 5 });
  expect(address(from('host0')[5])).toBe(b.mr.addr + 30000);
  expect(from('host0').map(({ psn }) => psn)).toEqual([0, 1, 2, 3, 4, 5]);
  expect(read.map(({ psn }) => psn)).toEqual([5, 6, 7]);
  expect(read[2].msn).toBe(3);
  // Everything arrives, at the other end.
  expect(frames.length).toBe(2 * out.length);
});

test('atomics carry their operands, and their responses the old value', () => {
  const { packets, b } = captured((a, b) => {
    new BigUint64Array(b.mr.memory)[2] = 0xffff_ffffn;
    a.send.fetchAdd(1, SIGNALED, a.mr.addr, a.mr.lkey, b.mr.addr + 16, b.mr.rkey, 0x2_0000_0001n);
    a.send.compareSwap(2, SIGNALED, a.mr.addr, a.mr.lkey, b.mr.addr + 16, b.mr.rkey, 0x3_0000_0000n, 77n);
    post(a);
  });
  const by = (opcode: number) => packets.filter((one) => one.opcode === opcode);
  const fetchAdd = { swapAddHi: 2, swapAddLo: 1, compareHi: 0, compareLo: 0, rkey: b.mr.rkey };
  expect(by(O.FETCH_ADD)).toMatchObject([fetchAdd]);
  expect(by(O.COMPARE_SWAP)).toMatchObject([{ swapAddHi: 0, swapAddLo: 77, compareHi: 3, compareLo: 0 }]);
  expect(by(O.ATOMIC_ACKNOWLEDGE)).toMatchObject([
    { originalHi: 0, originalLo: 0xffff_ffff, psn: 0 },
    { originalHi: 3, originalLo: 0, psn: 1 },
  ]);
});

test('immediates, invalidation and solicited events are in the last packet', () => {
  const { packets } = captured((a, b) => {
    for (let i = 0; i < 3; i++) b.recv.recv(i, b.mr.addr, 8192, b.mr.lkey);
    postRecv(b);
    a.send.sendImm(1, SIGNALED | V.IBV_SEND_SOLICITED, a.mr.addr, 5000, a.mr.lkey, 0xdeadbeef);
    a.send.writeImm(2, SIGNALED, a.mr.addr, 3, a.mr.lkey, b.mr.addr, b.mr.rkey, 42);
    a.send.sendInv(3, SIGNALED, a.mr.addr, 5, a.mr.lkey, 0x1234);
    post(a);
  });
  const [, last, writeImm, sendInv] = packets.filter(({ at }) => at === 'host0');
  expect(last).toMatchObject({ opcode: O.SEND_LAST_IMM, immediate: 0xdeadbeef, solicited: true });
  expect(writeImm).toMatchObject({ opcode: O.WRITE_ONLY_IMM, immediate: 42, padCount: 1 });
  expect(sendInv).toMatchObject({ opcode: O.SEND_ONLY_INVALIDATE, invalidateKey: 0x1234 });
});

test('an ACK counts messages; a SEND without a receive gets an RNR NAK with the timer of the peer', () => {
  const { packets } = captured(
    (a, b, fabric) => {
      a.send.write(1, SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
      a.send.send(2, SIGNALED, a.mr.addr, 8, a.mr.lkey);
      post(a);
      fabric.simulation.runUntil(20_000);
      b.recv.recv(1, b.mr.addr, 8, b.mr.lkey);
      postRecv(b);
    },
    { minRnrTimer: 14 },
  );
  const acks = packets.filter(({ opcode }) => opcode === O.ACKNOWLEDGE);
  expect(acks[0]).toMatchObject({ syndrome: S.ackSyndrome(S.NO_CREDITS), msn: 1, psn: 0 });
  expect(acks[1]).toMatchObject({ syndrome: S.rnrSyndrome(14), psn: 1 });
  expect(acks.at(-1)).toMatchObject({ syndrome: S.ackSyndrome(S.NO_CREDITS), msn: 2, psn: 1 });
});

test('a key that does not fit gets a NAK', () => {
  const { packets } = captured((a, b) => {
    a.send.write(1, SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey + 1);
    post(a);
  });
  expect(packets.at(-1)).toMatchObject({ syndrome: S.nakSyndrome(S.NAK_REMOTE_ACCESS), msn: 0 });
});

test('a lost packet leaves one end and does not arrive at the other', () => {
  const { frames, out, fabric, packets } = captured(
    (a, b) => {
      for (let i = 0; i < 40; i++)
        a.send.write(i, SIGNALED, a.mr.addr, 4096, a.mr.lkey, b.mr.addr, b.mr.rkey);
      post(a);
    },
    {},
    0.05,
  );
  const { packetCount } = fabric.simulation.world;
  const data = packets.filter(({ opcode }) => opcode !== O.ACKNOWLEDGE);
  expect(data).toHaveLength(packetCount[0]);
  expect(packetCount[1]).toBeGreaterThan(0);
  const arrived = frames.length - out.length;
  const acks = frames.filter((one) => packetOf(one).opcode === O.ACKNOWLEDGE);
  const arrivedAcks = acks.filter(({ outbound }) => !outbound).length;
  expect(arrived - arrivedAcks).toBe(packetCount[0] - packetCount[1]);
  const naks = packets.filter(({ syndrome, opcode }) => opcode === O.ACKNOWLEDGE && syndrome >= 0x60);
  expect(naks.length).toBeGreaterThan(0);
});
