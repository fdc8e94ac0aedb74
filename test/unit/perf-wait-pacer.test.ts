import { describe, expect, it } from 'vitest';
import { nicOf, pieceBytes } from '../../src/policies/perf/nic.ts';
import { perfOptions } from '../../src/policies/perf/options.ts';
import { type ActiveTenants, ALONE, WaitPacer } from '../../src/policies/perf/wait-pacer.ts';
import type { Actions, ContextView, QpView } from '../../src/shim/policy.ts';
import { PROFILES } from '../../src/sim/profile/profiles.ts';

/** A stub of the shim: WaitPacer needs only a clock and the bytes in flight. */
function ground(profile: string | null, options: Record<string, unknown> = {}) {
  const time = { nowNs: 0, inflightBytes: 0 };
  const out = {
    wait: 'simulated',
    nowNs: () => time.nowNs,
    inflightBytes: () => time.inflightBytes,
  } as unknown as Actions;
  const context = { index: 0, nic: profile === null ? null : PROFILES[profile] } as unknown as ContextView;
  const qp = { index: 70, context } as QpView;
  const parsed = perfOptions.parse(options);
  const waits = new WaitPacer({ ...parsed, waits: parsed.waits ?? 'adaptive', nic: parsed });
  waits.reset(qp);
  const mean = (tenants: ActiveTenants, pieces = 400) => {
    let sum = 0;
    for (let i = 0; i < pieces; i++) {
      waits.select(qp, tenants, out);
      sum += waits.waitsPerPiece(waits.pieceBytes, 1);
    }
    return sum / pieces;
  };
  return { time, out, context, qp, waits, mean };
}

const beside = (busyLargeQps: number, smallGbps = 0, queueTenants = 1): ActiveTenants => ({
  busyLargeQps,
  smallGbps,
  queueTenants,
});

describe('0_WAITs behind a piece', () => {
  it('fixed: one per unit, regardless of other tenants', () => {
    for (const [unit, waits] of [
      [1024, 16],
      [900, 18],
      [16384, 1],
    ]) {
      const { mean } = ground('cx6-100g', { waits: 'fixed', zeroWaitUnitBytes: unit });
      expect(mean(ALONE)).toBe(waits);
      expect(mean(beside(8))).toBe(waits);
    }
  });

  it.each([
    ['cx6-100g', 1],
    ['cx6-100g', 2],
    ['cx6-100g', 4],
    ['cx6-100g', 16],
    ['cx5-40g', 1],
    ['cx5-40g', 3],
  ])('%s, %d bandwidth queue pairs: together they take their permitted share of the link', (profile, n) => {
    const { mean, waits, context } = ground(profile, { utilisation: 0.9 });
    const nic = nicOf(context, {})!;
    const periodNs = mean(beside(n)) * nic.waitStepNs + nic.wqeGapNs;
    const packets = Math.ceil(waits.pieceBytes / nic.mtuBytes);
    const wire = waits.pieceBytes + packets * nic.headerBytes;
    expect((n * wire * 8) / periodNs / nic.linkGbps).toBeCloseTo(0.9, 2);
  });

  it('small tenants keep their rate, up to half of the link, if one of them waits for each response', () => {
    const { mean } = ground('cx6-100g');
    const alone = mean(beside(1));
    expect((mean(beside(1, 20)) + 1) / (alone + 1)).toBeCloseTo(1 / 0.8, 2);
    expect((mean(beside(1, 99)) + 1) / (alone + 1)).toBeCloseTo(2, 2);
    // Next to one queue pair of large messages, a message-rate tenant gets its rate anyway.
    expect(mean(beside(1, 20, 0))).toBeCloseTo(alone, 1);
  });

  it('whole messages are charged together, like pieces of the same total size', () => {
    for (const options of [{ waits: 'fixed' }, { waits: 'adaptive' }]) {
      const { waits, qp, out } = ground('cx6-100g', options);
      waits.select(qp, ALONE, out);
      let sum = 0;
      for (let i = 0; i < 800; i++) sum += waits.waitsAfterWhole(3000);
      const each = options.waits === 'fixed' ? 3000 / 1024 : ((3098 * 8) / 99 - 80.6) / 80.6;
      expect(sum / 800).toBeCloseTo(each, 2);
    }
  });

  it('options override facts of the device; without a step, the number is fixed', () => {
    const given = ground('cx6-100g', { waitStepNs: 161.2 });
    const own = ground('cx6-100g');
    expect(given.mean(ALONE) * 2).toBeCloseTo(own.mean(ALONE), 1);
    expect(ground(null).mean(beside(9))).toBe(16);
    expect(ground(null, { linkGbps: 100, waitStepNs: 80.6 }).mean(ALONE)).toBeCloseTo(own.mean(ALONE), 5);
  });

  it('emulated WAITs have no known time: the number is fixed', () => {
    const { waits, qp, out } = ground('cx6-100g');
    waits.select(qp, beside(9), { ...out, wait: 'emulated' } as Actions);
    expect(waits.waitsPerPiece(waits.pieceBytes, 1)).toBe(16);
  });

  it('none while a queue pair is held back far below its share, some once it is not', () => {
    const { waits, qp, out, time } = ground('cx6-100g');
    const run = (gbps: number, pieces: number) => {
      for (let i = 0; i < pieces; i++) {
        waits.select(qp, ALONE, out);
        const n = waits.waitsPerPiece(waits.pieceBytes, 1);
        time.nowNs += (waits.pieceBytes * 8) / gbps;
        if (i === pieces - 1) return n;
      }
    };
    expect(run(90, 200)).toBeGreaterThan(0);
    expect(run(20, 200)).toBe(0);
    // Still held back: 0_WAITs would reduce it to below half again.
    expect(run(60, 200)).toBe(0);
    expect(run(95, 200)).toBeGreaterThan(0);
    // Pauses do not count as congestion.
    waits.markIdle(qp);
    time.nowNs += 1e9;
    expect(run(95, 200)).toBeGreaterThan(0);
  });

  describe('0_WAITs of a queue that runs dry between messages', () => {
    const PERIOD_NS = 20_000;
    /** Messages of `pieces`, each posted `answerNs` after the device finishes the previous one. */
    function periods(tenants: ActiveTenants, answerNs: number, messages: number, pieces = 4) {
      const { waits, qp, out, time, context } = ground('cx6-100g', { utilisation: 0.975 });
      const nic = nicOf(context, {})!;
      let last = 0;
      for (let i = 0; i < messages; i++) {
        const fromNs = time.nowNs;
        time.inflightBytes = 0;
        waits.select(qp, tenants, out);
        let steps = waits.leadingWaits();
        time.inflightBytes = pieces * waits.pieceBytes;
        steps += (pieces - 1) * waits.waitsPerPiece(waits.pieceBytes, pieces - 1);
        steps += waits.waitsAfterWhole(waits.pieceBytes, true);
        time.nowNs += pieces * nic.wqeGapNs + steps * nic.waitStepNs + answerNs;
        last = time.nowNs - fromNs;
      }
      const wire = pieces * (waits.pieceBytes + Math.ceil(waits.pieceBytes / nic.mtuBytes) * nic.headerBytes);
      return { periodNs: last, shareNs: (8 * wire * tenants.busyLargeQps) / (nic.linkGbps * 0.975) };
    }

    it.each([
      [2, 1200],
      [4, 2000],
      [8, 3000],
    ])('%d queue pairs get their share, though answers take %d ns', (sharers, answerNs) => {
      const { periodNs, shareNs } = periods(beside(sharers), answerNs, 20);
      expect(periodNs / shareNs).toBeGreaterThan(0.97);
      expect(periodNs / shareNs).toBeLessThan(1.03);
    });

    it('a queue pair alone does not catch up: its 0_WAITs are those of a queue that never runs dry', () => {
      const { periodNs, shareNs } = periods(beside(1), 3000, 20);
      expect(periodNs - shareNs).toBeGreaterThan(1500);
    });

    it('a long pause earns only a few microseconds of credit, and time outside its tenant slot none', () => {
      const { waits, qp, out, time } = ground('cx6-100g');
      const message = () => {
        waits.select(qp, beside(4), out);
        expect(waits.leadingWaits()).toBe(0);
        const each = waits.waitsPerPiece(waits.pieceBytes, 8);
        waits.markIdle(qp);
        return each;
      };
      const usual = message();
      time.nowNs += 1e9;
      const after = message();
      expect(after).toBeLessThan(usual);
      expect((usual - after) * 8 * 80.6).toBeLessThan(2000 + 8 * 80.6);
      time.nowNs += PERIOD_NS;
      waits.pause(qp);
      time.nowNs += 1e9;
      waits.select(qp, beside(4), out);
      expect(Math.abs(waits.waitsPerPiece(waits.pieceBytes, 8) - usual)).toBeLessThanOrEqual(1);
    });
  });

  it('traffic of small tenants does not count as congestion, even if the 0_WAITs leave no room for it', () => {
    const { waits, qp, out, time } = ground('cx6-100g');
    for (let i = 0; i < 300; i++) {
      waits.select(qp, beside(1, 60, 0), out);
      expect(waits.waitsPerPiece(waits.pieceBytes, 1)).toBeGreaterThan(0);
      time.nowNs += (waits.pieceBytes * 8) / 45;
    }
  });
});

describe('READs request enough bytes to fill the round trip', () => {
  /** The final rate and mean request size, if data arrives after `rttUs` and at no more than `mostGbps`. */
  function settled(rttUs: number, mostGbps: number) {
    const { waits, qp, out, time } = ground('cx6-100g');
    const tick = 1000;
    let bytes = 0;
    let asked = 0;
    const ticks = 40_000;
    for (let i = 0; i < ticks; i++) {
      waits.select(qp, ALONE, out, false, true);
      const gbps = Math.min(mostGbps, 0.975 * 98, (8 * waits.readBytes) / (1000 * rttUs));
      waits.waitsPerPiece((gbps * tick) / 8, 1);
      time.nowNs += tick;
      if (i < ticks / 2) continue;
      bytes += (gbps * tick) / 8;
      asked += waits.readBytes;
    }
    return { gbps: (8 * bytes) / (tick * (ticks / 2)), asked: asked / (ticks / 2), waits };
  }
  const usual = 0.67 * 48 * 1024;

  it('no more than the usual part of the FIFO if that is enough', () => {
    const { asked, waits } = settled(2, 100);
    expect(asked).toBeCloseTo(usual, 0);
    expect(waits.readPieceBytes).toBe(4096);
  });

  it.each([4, 8, 16])(
    '%d us: more, so that the READs reach their share, in no more than 16 pieces',
    (rttUs) => {
      const { gbps, asked, waits } = settled(rttUs, 100);
      expect(gbps).toBeGreaterThan(92);
      expect(asked).toBeLessThan(1.3 * ((95.6 * 1000 * rttUs) / 8));
      expect(waits.readBytes / waits.readPieceBytes).toBeLessThanOrEqual(16);
    },
  );

  it('little more if something else is the limit, because more would only queue up', () => {
    const { asked } = settled(2, 40);
    expect(asked).toBeLessThan(1.1 * usual);
  });
});

describe('largest piece size', () => {
  it.each([
    ['cx6-100g', 16384, 16384],
    ['cx6-100g', 65536, 24576],
    ['cx5-40g', 16384, 8192],
    ['cx4-40g', 16384, 8192],
    ['cx3-56g', 16384, 4096],
  ])('%s, %d: %d bytes, at most half of the FIFO', (profile, asked, bytes) => {
    const { context } = ground(profile);
    expect(pieceBytes(nicOf(context, {})!, asked)).toBe(bytes);
  });

  it.each([
    [1, 16384],
    [2, 8192],
    [3, 4096],
    [100, 4096],
  ])('of %d queue pairs: %d bytes, together one piece, but at least a packet', (n, bytes) => {
    const { context } = ground('cx6-100g');
    expect(pieceBytes(nicOf(context, {})!, 16384, n)).toBe(bytes);
    expect(pieceBytes(nicOf(context, {})!, 1000, n)).toBe(1000);
  });

  it('fixed: as large as configured, as in the paper', () => {
    const { waits, qp, out } = ground('cx6-100g', { waits: 'fixed', subMsgSizeBytes: 65536 });
    waits.select(qp, ALONE, out);
    expect(waits.pieceBytes).toBe(65536);
  });
});
