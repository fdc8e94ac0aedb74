/** Random programs over lossy links: everything arrives once and in order. A failing run prints its seed. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import * as sim from '../../src/providers/sim/index.ts';
import { RandomStream } from '../../src/sim/kernel/random.ts';
import * as V from '../../src/verbs/index.ts';
import { drain, pair, post, SIGNALED } from './helpers.ts';
import { lossyRun } from './lossy-run.mjs';
import { runProgram, steps } from './programs.ts';

test('random programs on links that lose up to 10 % of packets and acknowledgements', {
  tags: ['long'],
}, () => {
  fc.assert(
    fc.property(
      steps,
      fc.integer({ min: 0, max: 1e9 }),
      fc.constantFrom(0, 0.01, 0.1),
      fc.constantFrom(V.IBV_MTU_256, V.IBV_MTU_1024, V.IBV_MTU_4096),
      fc.constantFrom(1, 2, 16),
      (program, seed, loss, pathMtu, maxRdAtomic) =>
        runProgram(program, { seed, loss }, pathMtu, maxRdAtomic),
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
  const [sent, lost] = fabric.simulation.world.packetCount;
  expect(lost).toBeGreaterThan(0.005 * sent);
});

test('a loss is detected at once and only costs the packets in flight', () => {
  for (const op of ['write', 'read'] as const) {
    const [a, b, fabric] = pair({ seed: 3, loss: 0.002 }, { bytes: 1 << 20, timeout: 14 });
    for (let i = 0; i < 8; i++) a.send[op](i, SIGNALED, a.mr.addr, 1 << 20, a.mr.lkey, b.mr.addr, b.mr.rkey);
    post(a);
    expect(drain(fabric, a).map((wc) => wc.status)).toEqual(Array(8).fill('SUCCESS'));
    const [sent, lost] = fabric.simulation.world.packetCount;
    expect(lost).toBeGreaterThan(3);
    // 12 packets of 4 KiB in the FIFO and on the wire, and as many responses to a repeated READ.
    expect(sent).toBeLessThan(8 * 257 + lost * 25);
    // A timeout is 67 ms; only the loss of a last packet costs one.
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
