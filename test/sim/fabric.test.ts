/**
 * Switches: latency through them, and no losses, or recovery of every loss. Expected values
 * were written down before the first run.
 */
import { describe, expect, test } from 'vitest';
import { runMix } from '../../src/mix/run.ts';
import { createFabric, type Fabric, type FabricOptions } from '../../src/providers/sim/index.ts';
import { cableStats } from '../../src/sim/network/switch-checks.ts';
import { PAUSES } from '../../src/sim/network/switch-port.ts';
import type { SwitchNetwork as Switches } from '../../src/sim/network/switches.ts';
import { Layout } from '../../src/sim/network/topology.ts';
import { connect, drain, type End, type EndOptions, fill, makeEnd, post, SIGNALED } from './helpers.ts';

const LONG = 1 << 20;

function switches(fabric: Fabric): Switches {
  return fabric.simulation.world.switchNetwork as Switches;
}

/** A queue pair on each of `from`, all of them connected to one host. */
function pairs(fabric: Fabric, from: number[], to: number, o: EndOptions = {}): [End, End][] {
  return from.map((host) => {
    const ends: [End, End] = [makeEnd(fabric, host, o), makeEnd(fabric, to, o)];
    connect(...ends);
    return ends;
  });
}

function write(a: End, b: End, bytes: number, count = 1): void {
  for (let i = 0; i < count; i++)
    a.send.write(i, SIGNALED, a.mr.addr, bytes, a.mr.lkey, b.mr.addr, b.mr.rkey);
  expect(post(a)).toBe(count);
}

/** All hosts write `bytes` to the same host; the received data is compared. */
function burst(
  options: FabricOptions,
  senders: number[],
  to: number,
  bytes: number,
  timeout?: number,
): Fabric {
  const fabric = createFabric({ autoAdvance: false, ...options });
  const all = pairs(fabric, senders, to, { bytes, timeout });
  for (const [i, [a]] of all.entries()) fill(a.bytes, 0, bytes, i + 1);
  for (const [a, b] of all) write(a, b, bytes);
  fabric.simulation.run();
  for (const [a, b] of all) {
    expect(drain(fabric, a).map(({ status }) => status)).toEqual(['SUCCESS']);
    expect(Buffer.compare(a.bytes, b.bytes)).toBe(0);
  }
  expect(fabric.brokenInvariants()).toEqual([]);
  return fabric;
}

describe('latency', () => {
  // The minimal NIC: doorbell 350, step 80.6, 94 bytes at 0.08 ns; a cable 200, a switch 270; 78 bytes come back;
  // the completion takes 150.
  const nanoseconds = (cables: number) =>
    350 + 80.6 + cables * (94 * 0.08 + 200) + cables * (78 * 0.08 + 200) + 2 * (cables - 1) * 270 + 150;

  test.each([
    ['star', 2, 1, 2],
    ['star', 8, 5, 2],
    ['dumbbell', 4, 1, 2],
    ['dumbbell', 4, 2, 3],
    ['leaf-spine', 8, 3, 2],
    ['leaf-spine', 8, 4, 4],
    ['leaf-spine', 11, 10, 4],
  ] as const)(
    'of a small message through a %s of %i hosts to host %i: %i cables',
    (topology, hosts, to, cables) => {
      const fabric = createFabric({ hosts, topology, autoAdvance: false });
      const [[a, b]] = pairs(fabric, [0], to);
      write(a, b, 16);
      fabric.simulation.run();
      expect(fabric.nowNs).toBeCloseTo(nanoseconds(cables), 6);
      expect(fabric.brokenInvariants()).toEqual([]);
    },
  );

  test('loopback never leaves the NIC', () => {
    const times = (['direct', 'star'] as const).map((topology) => {
      const fabric = createFabric({ topology, profile: { ackBytes: 86 }, autoAdvance: false });
      const [[a, b]] = pairs(fabric, [0], 0);
      write(a, b, 5000);
      fabric.simulation.run();
      return fabric.nowNs;
    });
    expect(times[1]).toBe(times[0]);
  });
});

describe('routes', () => {
  test.each([
    [1, 1, 0],
    [7, 3, 2],
    [33, 4, 3],
    [4, 2, 0],
    [5, 3, 0],
  ])(
    '%i hosts, %i on a leaf, %i spines: every cable has two ends, and every route reaches its host',
    (hosts, perLeaf, spines) => {
      const layout = new Layout(hosts, perLeaf, spines);
      for (let sw = 0; sw < layout.switches; sw++) {
        for (let port = 0; port < layout.portsOf(sw); port++) {
          const end = layout.endOf(sw, port);
          if (end.host >= 0) expect(layout.leafOf(end.host)).toBe(sw);
          else expect(layout.endOf(end.switch, end.port)).toEqual({ host: -1, switch: sw, port });
        }
      }
      for (let from = 0; from < hosts; from++) {
        for (let to = 0; to < hosts; to++) {
          let [sw, host, passed] = [layout.leafOf(from), -1, 0];
          while (host < 0) {
            const end = layout.endOf(sw, layout.route(sw, from, to));
            passed++;
            [sw, host] = [end.switch, end.host];
          }
          expect([host, passed]).toEqual([to, layout.switchesBetween(from, to)]);
        }
      }
    },
  );

  test('pairs of hosts spread over the spines', () => {
    const layout = new Layout(64, 8, 4);
    const uses = [0, 0, 0, 0];
    for (let from = 0; from < 8; from++) {
      for (let to = 8; to < 64; to++) uses[layout.route(0, from, to) - 8]++;
    }
    // 448 pairs over 4: within five standard deviations of 112.
    for (const use of uses) expect(Math.abs(use - 112)).toBeLessThan(5 * Math.sqrt(448 * 0.25 * 0.75));
  });
});

describe('without PFC', () => {
  /** 4.096 us x 2^14, as in perftest. A timeout shorter than the incast costs a retry each time. */
  const TIMEOUT_67_MS = 14;
  const NONE = { pfcXoffBytes: 0, pfcXonBytes: 0 };

  test.each([
    [2, LONG, 100_000],
    [8, LONG, 200_000],
  ])('%i into 1: packets are lost, and sent again until every byte is there', (senders, bytes, buffer) => {
    const profile = { ...NONE, switchBufferBytes: buffer };
    const from = Array.from({ length: senders }, (_, i) => i);
    const options: FabricOptions = { hosts: senders + 1, topology: 'star', profile };
    const fabric = burst(options, from, senders, bytes, TIMEOUT_67_MS);
    const hot = cableStats(switches(fabric))[senders];
    expect(hot.drops).toBeGreaterThan(0);
    expect(hot.packets).toBeGreaterThanOrEqual((senders * bytes) / 4096);
    // A queue may grow to the free buffer: half of the buffer when it is the only queue.
    expect(hot.maxQueueBytes).toBeLessThanOrEqual(buffer / 2);
    expect(hot.maxQueueBytes).toBeGreaterThan(buffer / 2 - 2 * 4174);
  });
});

describe('with PFC', () => {
  const profile = { pfcXoffBytes: 20_000, pfcXonBytes: 16_000 };

  test('nothing is lost, and queues stay within thresholds and headroom', () => {
    const fabric = burst({ hosts: 5, topology: 'star', profile }, [0, 1, 2, 3], 4, LONG);
    const { ports } = switches(fabric);
    expect(fabric.simulation.world.packetCount[1]).toBe(0);
    for (const port of ports.slice(0, 4)) expect(port.counts[PAUSES]).toBeGreaterThan(0);
    expect(ports[4].maxQueuedBytes).toBeGreaterThan(4 * 16_000);
  });

  test('pauses propagate from switch to switch and to the sending host', () => {
    // Hosts 0 and 1 on the left, 2 and 3 on the right: 0 and 3 write to 2.
    const fabric = burst({ hosts: 4, topology: 'dumbbell', profile }, [0, 3], 2, LONG);
    const { ports } = switches(fabric);
    const [host0, host1, , host2, host3, rightTrunk] = ports;
    expect(fabric.simulation.world.packetCount[1]).toBe(0);
    expect(rightTrunk.counts[PAUSES]).toBeGreaterThan(0);
    expect(host0.counts[PAUSES]).toBeGreaterThan(0);
    expect(host3.counts[PAUSES]).toBeGreaterThan(0);
    expect([host1.counts[PAUSES], host2.counts[PAUSES]]).toEqual([0, 0]);
  });

  test('a small buffer lowers the thresholds; one smaller than the headroom is rejected', () => {
    const small = { ...profile, switchBufferBytes: 5 * 24_000 };
    const fabric = burst({ hosts: 5, topology: 'star', profile: small }, [0, 1, 2, 3], 4, LONG);
    expect(switches(fabric).switches[0].pause?.xoffBytes).toBeLessThan(20_000);
    expect(() =>
      createFabric({ hosts: 5, topology: 'star', profile: { switchBufferBytes: 5 * 20_000 } }),
    ).toThrow(
      /switchBufferBytes \(100000\) is too small for PFC on 5 ports: each requires \d+ bytes of headroom/,
    );
    expect(() => createFabric({ topology: 'star', profile: { pfcXonBytes: 1.5e6 } })).toThrow(
      'pfcXonBytes (1500000) must not be above pfcXoffBytes (1000000)',
    );
  });

  test('repeated pauses lose no packet of any class', async () => {
    const run = await runMix({
      profile: 'cx6-100g',
      set: { scheduler: 'sp', ...profile },
      policy: 'none',
      durationNs: 3e6,
      warmupNs: 1e6,
      seed: 1,
      hosts: 3,
      apps: [
        { kind: 'B', host: 0, to: 2, class: 1 },
        { kind: 'B', host: 1, to: 2, class: 1 },
        { kind: 'D', host: 0, to: 2, class: 0 },
      ],
    });
    expect(run.invariants).toEqual([]);
    expect(run.apps.map(({ errors }) => errors)).toEqual([0, 0, 0]);
    expect(run.links.filter(({ from, pauses }) => from.startsWith('host') && pauses > 0).length).toBe(2);
  });
});

test('two pairs of hosts share a trunk', async () => {
  const run = await runMix({
    profile: 'ideal',
    set: {},
    policy: 'none',
    durationNs: 4e6,
    warmupNs: 1e6,
    seed: 1,
    hosts: 4,
    topology: 'dumbbell',
    payload: false,
    apps: [
      { kind: 'B', host: 0, to: 2 },
      { kind: 'B', host: 1, to: 3 },
    ],
  });
  expect(run.invariants).toEqual([]);
  // 4096 of 4178 bytes, shared by two.
  for (const app of run.apps) expect(Math.abs(app.throughputGbps / 49.02 - 1)).toBeLessThan(0.01);
  const trunk = run.links.find(({ from, to }) => from === 'switch0.2' && to === 'switch1.2');
  expect(trunk?.utilisation).toBeGreaterThan(0.99);
});

describe('faults', () => {
  test.each(['star', 'dumbbell', 'leaf-spine'] as const)(
    'lossy links to a %s: every byte arrives',
    (topology) => {
      const fabric = burst({ hosts: 6, topology, loss: 0.01, seed: 3 }, [0, 1, 2, 4], 5, 1 << 18);
      expect(fabric.simulation.world.packetCount[1]).toBeGreaterThan(0);
    },
  );

  test('links that reorder and duplicate, before a switch that marks and pauses', () => {
    const profile = { pfcXoffBytes: 20_000, pfcXonBytes: 16_000 };
    burst({ hosts: 3, topology: 'star', reorder: 0.02, duplicate: 0.02, profile }, [0, 1], 2, 1 << 18);
  });

  test('a dead host leaves nothing in the switch, and its peers are notified', () => {
    const fabric = createFabric({ hosts: 4, topology: 'star', autoAdvance: false });
    const all = pairs(fabric, [0, 1], 3, { bytes: LONG });
    for (const [a, b] of all) write(a, b, LONG);
    const [[toDead, dead]] = pairs(fabric, [0], 2, { bytes: LONG });
    write(toDead, dead, LONG);
    fabric.simulation.runUntil(50_000);
    fabric.fault({ kill: 2 });
    fabric.fault({ kill: 1 });
    fabric.simulation.run();
    expect(drain(fabric, all[0][0]).map(({ status }) => status)).toEqual(['SUCCESS']);
    expect(drain(fabric, toDead).map(({ status }) => status)).toEqual(['RETRY_EXC_ERR']);
    expect(fabric.brokenInvariants()).toEqual([]);
  });

  test('transfers continue when an unplugged cable is plugged in again', () => {
    const fabric = createFabric({ hosts: 3, topology: 'star', autoAdvance: false });
    const [[a, b]] = pairs(fabric, [0], 2, { bytes: LONG });
    fill(a.bytes, 0, LONG);
    write(a, b, LONG);
    fabric.simulation.runUntil(20_000);
    fabric.fault({ linkDown: 2 });
    fabric.simulation.runUntil(2e6);
    fabric.fault({ linkUp: 2 });
    expect(drain(fabric, a).map(({ status }) => status)).toEqual(['SUCCESS']);
    expect(Buffer.compare(a.bytes, b.bytes)).toBe(0);
    expect(fabric.brokenInvariants()).toEqual([]);
  });
});

test('impossible topologies are rejected', () => {
  const make = (options: object) => () => createFabric(options as FabricOptions);
  expect(make({ hosts: 3, topology: 'cable' })).toThrow('topology cable joins two hosts, not 3');
  expect(make({ hosts: 1, topology: 'star' })).toThrow('topology star needs at least two hosts, got 1');
  expect(make({ topology: 'ring' })).toThrow(
    "topology must be one of cable, direct, star, dumbbell, leaf-spine, got 'ring'",
  );
  expect(make({ topology: { kind: 'leaf-spine', spines: 0 } })).toThrow(
    'topology: spines must be a whole number above 0, got 0',
  );
  expect(make({ topology: { kind: 'star', rings: 1 } })).toThrow("topology: no option 'rings'");
});
