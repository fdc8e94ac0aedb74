/**
 * Schedulers with classes against closed forms. The expected values and their tolerances were written down before
 * the first run.
 *
 * The NIC is the minimal one: a small message takes a step of 80.6 ns, then the port; a full packet takes g = 333.92 ns
 * on the wire (4096 + 78 bytes at 100 Gbps).
 */
import { describe, expect, test } from 'vitest';
import { brokenInvariants } from '../../src/sim/invariants.ts';
import { override } from '../../src/sim/profile/overrides.ts';
import type { NicParams } from '../../src/sim/profile/params.ts';
import { PROFILES } from '../../src/sim/profile/profiles.ts';
import { eachShort, tagsIf } from '../support/variants.ts';
import { type App, type AppOptions, B, D, Lab, M } from './apps.ts';

const STEP_NS = 80.6;
const PACKET_NS = (4096 + 78) * 0.08;
const WIRE_GBPS = (100 * 4096) / (4096 + 78);
/** Sparse enough that the phases of all senders are random at each message. */
const SPARSE_D: AppOptions = { ...D, thinkNs: 10_000 };

interface Ran {
  lab: Lab;
  apps: App[];
  /** Payload rate of application i, including unfinished messages. */
  gbps(i: number): number;
}

function run(changes: Record<string, unknown>, options: AppOptions[], durationNs: number, seed = 1): Ran {
  const params = override(PROFILES.minimal, changes);
  const lab = new Lab({ params, seed });
  const apps = options.map((o) => lab.add(o));
  const { world } = lab.sim;
  // Each application created two queue pairs; data arrives at the second.
  const delivered = () => options.map((_, i) => world.qps[2 * i + 2]!.deliveredBytes);
  lab.run(0);
  const before = delivered();
  lab.sim.runUntil(lab.warmupNs + durationNs);
  const after = delivered();
  expect(brokenInvariants(lab.sim), `seed ${seed}`).toEqual([]);
  return { lab, apps, gbps: (i) => ((after[i] - before[i]) * 8) / durationNs };
}

function within(value: number, expected: number, tolerance: number): void {
  expect(value).toBeGreaterThan(expected * (1 - tolerance));
  expect(value).toBeLessThan(expected * (1 + tolerance));
}

for (const seed of [1, 2, 3])
  describe(`strict priority, seed ${seed}`, { tags: tagsIf(seed === 1) }, () => {
    const aloneNs = () => run({ scheduler: 'sp' }, [SPARSE_D], 50e6, seed).apps[0].meanLatencyNs;

    test('D waits for the rest of one packet, minus its own step: 20 % more than alone at most', () => {
      const both = run({ scheduler: 'sp' }, [SPARSE_D, { ...B, sl: 1 }], 100e6, seed);
      const extraNs = both.apps[0].meanLatencyNs - aloneNs();
      // No other packet starts after its doorbell. It waits max(0, R - step) for a packet with remainder R,
      // uniform in 0 .. g.
      within(extraNs, (PACKET_NS - STEP_NS) ** 2 / (2 * PACKET_NS), 0.05);
      expect(both.apps[0].meanLatencyNs / aloneNs()).toBeLessThan(1.2);
      // B loses D's packet and the idle time during D's step: below 1 % in 11 us.
      within(both.gbps(1), WIRE_GBPS, 0.01);
    });

    test('M always has a posted request: B gets nothing', () => {
      const both = run({ scheduler: 'sp' }, [M, { ...B, sl: 1 }], 5e6, seed);
      within(both.apps[0].mmps, 1000 / STEP_NS, 0.01);
      expect(both.gbps(1)).toBeLessThan(0.1);
    });

    test('conversely, M in the lower class gets nothing next to B', () => {
      const both = run({ scheduler: 'sp' }, [{ ...M, sl: 1 }, B], 5e6, seed);
      expect(both.gbps(0)).toBeLessThan(0.01);
      within(both.gbps(1), WIRE_GBPS, 0.01);
    });
  });

describe('ETS', () => {
  test('two backlogged senders with weights 16 and 1 share bytes 16 to 1', () => {
    const both = run({ scheduler: 'ets' }, [B, { ...B, sl: 1 }], 20e6);
    within(both.gbps(0), (WIRE_GBPS * 16) / 17, 0.01);
    within(both.gbps(1), WIRE_GBPS / 17, 0.01);
  });

  test('any ratio works, also for classes beyond the last weight', () => {
    const three = run(
      { scheduler: 'ets', etsWeights: [3, 0.5] },
      [B, { ...B, sl: 1 }, { ...B, sl: 7 }],
      20e6,
    );
    for (const [i, weight] of [3, 0.5, 0.5].entries()) within(three.gbps(i), (WIRE_GBPS * weight) / 4, 0.01);
  });

  test('it counts bytes on the wire, not packets: 512 B messages get half of the wire, headers included', () => {
    const small: AppOptions = { size: 512, batch: 32, depth: 128 };
    const both = run({ scheduler: 'ets', etsWeights: [1, 1] }, [small, { ...B, sl: 1 }], 20e6);
    within(both.gbps(0), (50 * 512) / (512 + 78), 0.01);
    within(both.gbps(1), WIRE_GBPS / 2, 0.01);
  });

  test('it is work conserving: a class alone has the whole wire', () => {
    within(run({ scheduler: 'ets' }, [{ ...B, sl: 1 }], 5e6).gbps(0), WIRE_GBPS, 0.01);
  });

  test("D next to B waits for the rest of B's turn", () => {
    const d: AppOptions = { ...D, thinkNs: 100_000, sl: 1 };
    const both = run({ scheduler: 'ets' }, [d, B], 200e6);
    const alone = run({ scheduler: 'ets' }, [d], 50e6);
    // A quantum of B is 65,536 bytes, 15.70 packets of 4,174; D arrives at a uniform point within it.
    const turnNs = (65_536 / 4174) * PACKET_NS;
    within(both.apps[0].meanLatencyNs - alone.apps[0].meanLatencyNs, turnNs / 2, 0.05);
  });
});

describe('the order of the round', () => {
  // Two bandwidth senders, a rarely ready one and a FIFO of one packet: only the round decides.
  const APPS = [B, B, SPARSE_D];

  eachShort(1, ['rr', 'ets'])(
    'tail (%s): a newcomer waits for all others and the packet on the wire',
    (scheduler) => {
      const changes = { scheduler, rrOrder: 'tail', egressFifoBytes: 1 };
      const alone = run(changes, [SPARSE_D], 50e6).apps[0].meanLatencyNs;
      const extraNs = run(changes, APPS, 200e6).apps[2].meanLatencyNs - alone;
      within(extraNs, 2.5 * PACKET_NS, 0.03);
    },
  );

  eachShort(1, ['rr', 'ets'])(
    'fixed (%s): a newcomer has its position among the others, at any distance',
    (scheduler) => {
      const changes = { scheduler, rrOrder: 'fixed', egressFifoBytes: 1 };
      const alone = run(changes, [SPARSE_D], 50e6).apps[0].meanLatencyNs;
      const extraNs = run(changes, APPS, 200e6).apps[2].meanLatencyNs - alone;
      // Half a packet, plus none or one of the two others.
      within(extraNs, PACKET_NS, 0.03);
    },
  );

  test('always-ready senders get the same share in both', () => {
    for (const rrOrder of ['tail', 'fixed']) {
      const three = run({ rrOrder }, [B, B, B], 20e6);
      for (const i of [0, 1, 2]) within(three.gbps(i), WIRE_GBPS / 3, 0.001);
    }
  });
});

eachShort(1, [1, 2])(
  'with one class in use, the port that decides at departures does what the plain one does, seed %i',
  (seed) => {
    const of = (scheduler: string) => {
      const { apps } = run({ scheduler }, [B, M, D, B], 2e6, seed);
      return apps.map(({ completed, firstNs, lastNs, latenciesNs }) => ({
        completed,
        firstNs,
        lastNs,
        latenciesNs,
      }));
    };
    const plain = of('rr');
    expect(of('ets')).toEqual(plain);
    expect(of('sp')).toEqual(plain);
  },
);

eachShort(1, ['sp', 'ets', 'rr'])(
  'the trace does not depend on whether bytes are copied (%s, fixed round, cx6-100g)',
  (scheduler) => {
    const hashes = [true, false].map((payload) => {
      const params: NicParams = override(PROFILES['cx6-100g'], { scheduler, rrOrder: 'fixed' });
      const lab = new Lab({ payload, params });
      for (const app of [{ ...B, sl: 2 }, M, D]) lab.add(app);
      lab.run(0.3e6);
      expect(brokenInvariants(lab.sim)).toEqual([]);
      return lab.sim.world.trace.hash();
    });
    expect(hashes[0]).toBe(hashes[1]);
  },
);
