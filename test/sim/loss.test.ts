/** Random programs over lossy links: everything arrives, once, in order. A failing run prints its seed. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import * as sim from '../../src/providers/sim/index.ts';
import { RandomStream } from '../../src/sim/random.ts';
import * as V from '../../src/verbs/index.ts';
import { drain, type End, fill, pair, post, postRecv, SIGNALED, take } from './helpers.ts';
import { lossyRun } from './lossy-run.mjs';

const BYTES = 1 << 18;

interface Step {
  op: 'write' | 'writeImm' | 'send' | 'sendImm' | 'read' | 'fetchAdd' | 'wait';
  bytes: number;
  flags: number;
}

const steps = fc.array(
  fc.record({
    op: fc.constantFrom<Step['op']>('write', 'writeImm', 'send', 'sendImm', 'read', 'fetchAdd', 'wait'),
    bytes: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 64 }), fc.integer({ min: 1, max: 20000 })),
    flags: fc.constantFrom(SIGNALED, SIGNALED | V.IBV_SEND_FENCE),
  }),
  { minLength: 1, maxLength: 12 },
);

/** Where step i reads and writes: nobody else does. */
const place = (i: number) => i * 20480;
const COUNTER = BYTES - 8;

function postStep(a: End, b: End, i: number, step: Step): void {
  const { op, bytes, flags } = step;
  const [from, to] = [a.mr.addr + place(i), b.mr.addr + place(i)];
  const { lkey } = a.mr;
  const { rkey } = b.mr;
  if (op === 'write') a.send.write(i, flags, from, bytes, lkey, to, rkey);
  else if (op === 'writeImm') a.send.writeImm(i, flags, from, bytes, lkey, to, rkey, i);
  else if (op === 'send') a.send.send(i, flags, from, bytes, lkey);
  else if (op === 'sendImm') a.send.sendImm(i, flags, from, bytes, lkey, i);
  else if (op === 'read') a.send.read(i, flags, from, bytes, lkey, to, rkey);
  else if (op === 'fetchAdd') a.send.fetchAdd(i, flags, from, lkey, b.mr.addr + COUNTER, rkey, 1n);
  else a.send.wait(i, flags, a.sendCq, 0, 2);
}

const takesReceive = (op: Step['op']) => op === 'send' || op === 'sendImm' || op === 'writeImm';

function check(a: End, b: End, program: Step[], initial: Uint8Array): void {
  let added = 0;
  for (const [i, { op, bytes }] of program.entries()) {
    const at = place(i);
    if (op === 'read')
      expect(Buffer.compare(a.bytes.subarray(at, at + bytes), b.bytes.subarray(at, at + bytes))).toBe(0);
    else if (op === 'fetchAdd')
      expect(new DataView(a.mr.memory as ArrayBuffer).getBigUint64(at, true)).toBe(BigInt(added++));
    else if (op !== 'wait')
      expect(Buffer.compare(b.bytes.subarray(at, at + bytes), initial.subarray(at, at + bytes))).toBe(0);
  }
  expect(new DataView(b.mr.memory as ArrayBuffer).getBigUint64(COUNTER, true)).toBe(BigInt(added));
}

/** Packets of a program that loses none: each request's, and the responses. */
function packetsOf(program: Step[], pathMtu: number): number {
  const packets = (bytes: number) => Math.max(1, Math.ceil(bytes / V.mtuBytes(pathMtu)));
  const cost = { wait: () => 0, fetchAdd: () => 2, read: (bytes: number) => 1 + packets(bytes) } as const;
  return program.reduce((sum, { op, bytes }) => sum + (op in cost ? cost[op as 'read'] : packets)(bytes), 0);
}

function runProgram(program: Step[], seed: number, loss: number, pathMtu: number, maxRdAtomic: number): void {
  const options = {
    bytes: BYTES,
    timeout: 4,
    retryCnt: 7,
    pathMtu,
    maxRdAtomic,
    maxDestRdAtomic: maxRdAtomic,
    psn: 0xfffff0,
  };
  const [a, b, fabric] = pair({ seed, loss }, options);
  fill(a.bytes, 0, BYTES, seed);
  fill(b.bytes, 0, BYTES - 8, seed + 1);
  const initial = a.bytes.slice();
  for (const [i, { op }] of program.entries()) {
    if (takesReceive(op)) b.recv.recv(i, b.mr.addr + place(i), 20480, b.mr.lkey);
  }
  if (b.recv.length > 0) postRecv(b);
  for (const [i, step] of program.entries()) postStep(a, b, i, step);
  expect(post(a)).toBe(program.length);
  const done = drain(fabric, a);
  expect(fabric.brokenInvariants()).toEqual([]);
  const gaveUp = done.findIndex((wc) => wc.status !== 'SUCCESS');
  if (gaveUp >= 0) {
    // Eight losses in a row do happen at 10 %: then, and only then, it may give up.
    expect([done[gaveUp].status, loss > 0]).toEqual(['RETRY_EXC_ERR', true]);
    return;
  }
  expect(done.map((wc) => wc.wrId)).toEqual(program.map((_, i) => i));
  const received = program.map((step, i) => ({ ...step, i })).filter(({ op }) => takesReceive(op));
  expect(take(b, b.recvCq).map((wc) => [wc.wrId, wc.byteLen])).toEqual(
    received.map(({ i, bytes }) => [i, bytes]),
  );
  check(a, b, program, initial);
  // Nothing is sent twice without a reason.
  if (loss === 0) expect(fabric.simulation.net.packetCount[0]).toBe(packetsOf(program, pathMtu));
}

test('random programs on links that lose up to 10 % of packets and acknowledgements', () => {
  fc.assert(
    fc.property(
      steps,
      fc.integer({ min: 0, max: 1e9 }),
      fc.constantFrom(0, 0.01, 0.1),
      fc.constantFrom(V.IBV_MTU_256, V.IBV_MTU_1024, V.IBV_MTU_4096),
      fc.constantFrom(1, 2, 16),
      (program, seed, loss, pathMtu, maxRdAtomic) => runProgram(program, seed, loss, pathMtu, maxRdAtomic),
    ),
    { numRuns: 200 },
  );
});

test('1 MiB messages at 1 % loss arrive whole', () => {
  const [a, b, fabric] = pair({ seed: 7, loss: 0.01 }, { bytes: 1 << 20, timeout: 6 });
  const random = new RandomStream(7, 'data');
  for (let i = 0; i < a.bytes.length; i++) a.bytes[i] = random.u32();
  for (let i = 0; i < 4; i++) a.send.write(i, SIGNALED, a.mr.addr, 1 << 20, a.mr.lkey, b.mr.addr, b.mr.rkey);
  a.send.read(9, SIGNALED, a.mr.addr, 1 << 20, a.mr.lkey, b.mr.addr, b.mr.rkey);
  post(a);
  expect(drain(fabric, a).map((wc) => wc.status)).toEqual(Array(5).fill('SUCCESS'));
  expect(Buffer.compare(a.bytes, b.bytes)).toBe(0);
  const [sent, lost] = fabric.simulation.net.packetCount;
  expect(lost).toBeGreaterThan(0.005 * sent);
});

test('going back is cheap: a loss is noticed at once, and costs what was in flight', () => {
  for (const op of ['write', 'read'] as const) {
    const [a, b, fabric] = pair({ seed: 3, loss: 0.002 }, { bytes: 1 << 20, timeout: 14 });
    for (let i = 0; i < 8; i++) a.send[op](i, SIGNALED, a.mr.addr, 1 << 20, a.mr.lkey, b.mr.addr, b.mr.rkey);
    post(a);
    expect(drain(fabric, a).map((wc) => wc.status)).toEqual(Array(8).fill('SUCCESS'));
    const [sent, lost] = fabric.simulation.net.packetCount;
    expect(lost).toBeGreaterThan(3);
    // 12 packets of 4 KiB in the FIFO and on the wire, and as many responses to a READ that is repeated.
    expect(sent).toBeLessThan(8 * 257 + lost * 25);
    // One timeout is 67 ms: at most the loss of a last packet costs one.
    expect(fabric.nowNs).toBeLessThan(op === 'write' ? 2e6 : 150e6);
  }
});

describe('determinism', () => {
  const script = new URL('./lossy-run.mjs', import.meta.url).pathname;
  const built = existsSync(new URL('../../dist/providers/sim/index.js', import.meta.url));
  const inOtherProcess = (seed: number) => {
    const { stdout, stderr } = spawnSync(process.execPath, [script, String(seed)], { encoding: 'utf8' });
    return stdout.trim() || stderr;
  };

  test('the same seed gives the same trace, another seed another', () => {
    const [first, again, other] = [1, 1, 2].map((seed) => lossyRun(sim, V, seed));
    expect(first).toMatch(/^[0-9a-f]{16}$/);
    expect(first).toBe(again);
    expect(first).not.toBe(other);
  });

  test.skipIf(!built)('two processes, on the built package (skipped when it is not built)', () => {
    const first = inOtherProcess(1);
    expect(first).toMatch(/^[0-9a-f]{16}$/);
    expect(inOtherProcess(1)).toBe(first);
    expect(inOtherProcess(2)).not.toBe(first);
  });
});
