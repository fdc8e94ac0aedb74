/** Properties that stoppable ports must preserve: data, order, lossless pauses, and every kind of packet. */
import { describe, expect, test } from 'vitest';
import type { Fabric, FabricOptions } from '../../src/providers/sim/index.ts';
import { RandomStream } from '../../src/sim/kernel/random.ts';
import { override } from '../../src/sim/profile/overrides.ts';
import { PROFILES } from '../../src/sim/profile/profiles.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, drain, type End, fill, makeEnd, pair, post, SIGNALED, take } from './helpers.ts';

const profileOf = (name: string, changes: Record<string, unknown>) =>
  override(PROFILES[name], changes) as FabricOptions['profile'];

/** One more connection between the hosts of two ends, of this service level. */
function another(a: End, b: End, fabric: Fabric, sl: number): [End, End] {
  const ends: [End, End] = [makeEnd(fabric, 0, { ...a.o, sl }), makeEnd(fabric, 1, { ...b.o, sl })];
  connect(...ends);
  return ends;
}

const PACKETS = 16 * 16;
const WIRE_BYTES = PACKETS * (4096 + 78);

describe('a pause', () => {
  const start = (scheduler: string) => {
    const bytes = 1 << 20;
    const [a, b, fabric] = pair({ profile: profileOf('minimal', { scheduler }) }, { bytes, timeout: 14 });
    fill(a.bytes, 0, bytes);
    for (let i = 0; i < 16; i++) {
      a.send.write(i, SIGNALED, a.mr.addr + i * 65536, 65536, a.mr.lkey, b.mr.addr + i * 65536, b.mr.rkey);
    }
    post(a);
    return { a, b, fabric, sim: fabric.simulation, port: fabric.simulation.world.ports[0] };
  };

  test('lets only the packet on the wire out and loses nothing', { tags: ['long'] }, () => {
    const { a, b, fabric, sim, port } = start('ets');
    sim.runUntil(20_000);
    const before = port.bytesOut[0];
    const wireNs = port.busyUntil;
    // A packet in progress ends on time.
    expect(wireNs).toBeGreaterThan(20_000);
    sim.setPaused(0, true);
    sim.runUntil(120_000);
    expect(port.busyUntil).toBe(wireNs);
    expect(port.bytesOut[0] - before).toBe(4096 + 78);
    expect(port.used).toBeGreaterThan(0);
    sim.setPaused(0, false);
    expect(port.busyUntil).toBeCloseTo(120_000 + (4096 + 78) * 0.08, 6);
    expect(drain(fabric, a).map((wc) => wc.status)).toEqual(Array(16).fill('SUCCESS'));
    expect(port.bytesOut[0]).toBe(WIRE_BYTES);
    expect(sim.world.packetCount[1]).toBe(0);
    expect(b.bytes).toEqual(a.bytes);
    expect(fabric.brokenInvariants()).toEqual([]);
  });

  test('costs exactly its length minus the rest of the packet on the wire', () => {
    const plain = start('ets');
    drain(plain.fabric, plain.a);
    const paused = start('ets');
    paused.sim.runUntil(20_000);
    const leftNs = paused.port.busyUntil - 20_000;
    paused.sim.setPaused(0, true);
    paused.sim.runUntil(120_000);
    paused.sim.setPaused(0, false);
    drain(paused.fabric, paused.a);
    expect(paused.fabric.nowNs - plain.fabric.nowNs).toBeCloseTo(100_000 - leftNs, 6);
  });

  test('changes nothing when resumed at once', () => {
    const plain = start('ets');
    drain(plain.fabric, plain.a);
    const paused = start('ets');
    paused.sim.runUntil(20_000);
    paused.sim.setPaused(0, true);
    paused.sim.setPaused(0, false);
    drain(paused.fabric, paused.a);
    expect(paused.fabric.nowNs).toBe(plain.fabric.nowNs);
    expect(paused.fabric.traceHash()).toBe(plain.fabric.traceHash());
  });

  test.each(['sp', 'ets'])(
    'of a class lets the others continue (%s), even below a paused class under strict priority',
    (scheduler) => {
      const { a, b, fabric, sim, port } = start(scheduler);
      const [c, d] = another(a, b, fabric, 1);
      fill(c.bytes, 0, 65536, 9);
      sim.runUntil(20_000);
      sim.setPaused(0, true, 0);
      c.send.write(99, SIGNALED, c.mr.addr, 65536, c.mr.lkey, d.mr.addr, d.mr.rkey);
      post(c);
      sim.runUntil(60_000);
      expect(take(c)).toMatchObject([{ wrId: 99, status: 'SUCCESS' }]);
      expect(d.bytes.subarray(0, 65536)).toEqual(c.bytes.subarray(0, 65536));
      const held = take(a).length;
      expect(held).toBeLessThan(16);
      sim.setPaused(0, false, 0);
      expect(drain(fabric, a)).toHaveLength(16 - held);
      expect(port.used).toBe(0);
      expect(fabric.brokenInvariants()).toEqual([]);
    },
  );

  test('of the responder stops READ responses, and acknowledgements that are packets', () => {
    const bytes = 1 << 18;
    const [a, b, fabric] = pair(
      { profile: profileOf('ideal', { scheduler: 'ets' }) },
      { bytes, timeout: 14 },
    );
    const { simulation: sim } = fabric;
    fill(b.bytes, 0, bytes);
    a.send.read(1, SIGNALED, a.mr.addr, bytes, a.mr.lkey, b.mr.addr, b.mr.rkey);
    post(a);
    sim.runUntil(5_000);
    // Each host has two ports: its link and its loopback.
    sim.setPaused(2, true);
    a.send.write(2, SIGNALED, a.mr.addr, 16, a.mr.lkey, b.mr.addr, b.mr.rkey);
    sim.runUntil(50_000);
    expect(take(a)).toEqual([]);
    sim.setPaused(2, false);
    expect(drain(fabric, a)).toMatchObject([{ wrId: 1, status: 'SUCCESS' }]);
    expect(a.bytes).toEqual(b.bytes);
    post(a);
    // The WRITE has arrived after 108 ns, but its acknowledgement has not left yet.
    sim.runUntil(fabric.nowNs + 50);
    sim.setPaused(2, true);
    sim.runUntil(fabric.nowNs + 20_000);
    expect(take(a)).toEqual([]);
    sim.setPaused(2, false);
    expect(drain(fabric, a)).toMatchObject([{ wrId: 2, status: 'SUCCESS' }]);
    expect(fabric.brokenInvariants()).toEqual([]);
  });
});

const GROUNDS = ['minimal', 'ideal', 'cx6-100g', 'cx3-56g'].flatMap((name) =>
  ['sp', 'ets'].flatMap((scheduler) =>
    ['tail', 'fixed'].map((rrOrder) => ({ name, scheduler, rrOrder, egressFifoBytes: 8192 })),
  ),
);

describe.each(GROUNDS)('$name, $scheduler, $rrOrder', ({ name, ...changes }) => {
  test.each([0, 0.02])(
    'writes, reads and atomics of three classes arrive once and in order, loss %f',
    (loss) => {
      const seed = 7;
      const random = new RandomStream(seed, 'egress test');
      const [a, b, fabric] = pair(
        { profile: profileOf(name, changes), loss, seed },
        { bytes: 65536, timeout: 6 },
      );
      const ends: [End, End][] = [[a, b], another(a, b, fabric, 1), another(a, b, fabric, 2)];
      const expected = ends.map(() => [] as number[]);
      for (let round = 0; round < 8; round++) {
        for (const [i, [x, y]] of ends.entries()) {
          for (let k = 0; k < 5; k++) {
            const id = round * 5 + k;
            const size = 1 + (random.u32() % 9000);
            const kind = random.u32() % 3;
            if (kind === 0)
              x.send.write(id, SIGNALED, x.mr.addr + 8192, size, x.mr.lkey, y.mr.addr + 8192, y.mr.rkey);
            else if (kind === 1)
              x.send.read(id, SIGNALED, x.mr.addr + 32768, size, x.mr.lkey, y.mr.addr + 32768, y.mr.rkey);
            else x.send.fetchAdd(id, SIGNALED, x.mr.addr, x.mr.lkey, y.mr.addr, y.mr.rkey, 1n);
            expected[i].push(id);
          }
          post(x);
        }
        fabric.simulation.runUntil(fabric.nowNs + 3000);
      }
      for (const [i, [x]] of ends.entries()) {
        const wcs = drain(fabric, x);
        expect(
          wcs.map((wc) => wc.wrId),
          `seed ${seed}`,
        ).toEqual(expected[i]);
        expect(new Set(wcs.map((wc) => wc.status))).toEqual(new Set(['SUCCESS']));
      }
      expect(fabric.brokenInvariants()).toEqual([]);
    },
  );
});

describe.each(['sp', 'ets'])('%s', (scheduler) => {
  test('packets of a reset or destroyed queue pair disappear from the port', () => {
    const [a, b, fabric] = pair(
      { profile: profileOf('cx6-100g', { scheduler, rrOrder: 'fixed' }) },
      { bytes: 65536 },
    );
    const [c, d] = another(a, b, fabric, 1);
    for (const [x, y] of [
      [a, b],
      [c, d],
    ]) {
      for (let i = 0; i < 8; i++)
        x.send.write(i, SIGNALED, x.mr.addr, 65536, x.mr.lkey, y.mr.addr, y.mr.rkey);
      post(x);
    }
    fabric.simulation.runUntil(fabric.nowNs + 8_000);
    const reset: V.QpAttr = { qpState: V.IBV_QPS_RESET };
    a.v.modifyQp(a.qp, reset, V.maskOf(reset));
    c.v.destroyQp(c.qp);
    fabric.simulation.run();
    expect(fabric.brokenInvariants()).toEqual([]);
    const [e, f] = another(a, b, fabric, 1);
    e.send.write(5, SIGNALED, e.mr.addr, 65536, e.mr.lkey, f.mr.addr, f.mr.rkey);
    post(e);
    expect(drain(fabric, e)).toMatchObject([{ wrId: 5, status: 'SUCCESS' }]);
    expect(fabric.brokenInvariants()).toEqual([]);
  });

  test('packets in the ports of a host that dies vanish, and its peer is notified', () => {
    const profile = profileOf('cx6-100g', { scheduler });
    const [a, b, fabric] = pair({ profile }, { bytes: 65536, timeout: 6 });
    const [c, d] = another(a, b, fabric, 1);
    for (const [x, y] of [
      [a, b],
      [c, d],
      [d, c],
    ]) {
      for (let i = 0; i < 8; i++)
        x.send.write(i, SIGNALED, x.mr.addr, 65536, x.mr.lkey, y.mr.addr, y.mr.rkey);
      post(x);
    }
    fabric.simulation.runUntil(fabric.nowNs + 8_000);
    fabric.fault({ kill: 0 });
    // The first request may have been acknowledged in time; the others were not.
    const statuses = drain(fabric, d).map((wc) => wc.status);
    expect(statuses).toHaveLength(8);
    expect(statuses.filter((status) => status === 'RETRY_EXC_ERR')).toHaveLength(1);
    expect(statuses.at(-1)).toBe('WR_FLUSH_ERR');
    expect(fabric.simulation.world.ports[0].used).toBe(0);
    expect(fabric.brokenInvariants()).toEqual([]);
  });
});
