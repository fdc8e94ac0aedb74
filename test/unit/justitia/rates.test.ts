// The ruler of justitia: R_min in closed form, SafeUtil over time, and what members are granted.
import { describe, expect, test } from 'vitest';
import { Coordinator } from '../../../src/coordinator/coordinator.ts';
import type { MemberPage } from '../../../src/coordinator/member-table.ts';
import { TENANT, WEIGHT } from '../../../src/coordinator/member-table.ts';
import { columnIndex } from '../../../src/coordinator/ruler.ts';
import {
  RATE_GRANTS,
  RATE_REPORTS,
  UNPACED_GBPS,
  WORST_GID_COLUMNS,
} from '../../../src/policies/justitia/columns.ts';
import { type JustitiaOptions, justitiaOptions } from '../../../src/policies/justitia/options.ts';
import { type RateRules, rateRulesOf, rates } from '../../../src/policies/justitia/rates.ts';
import { gidToWords } from '../../../src/verbs/gid.ts';

const LINK_GBPS = 100;
/** MaxRate next to latency applications. */
const MAX_GBPS = 0.97 * LINK_GBPS;
const PERIOD_NS = 20_000;
const TARGET_NS = 2000;
/** 8 Mbit/s for each period. */
const STEP_GBPS = 0.008;

type Options = Partial<JustitiaOptions>;

/** A device's coordinator with the rules of these options. @param isRemote whether members are in other processes */
function device(options: Options = {}, more: Partial<RateRules> = {}, isRemote = false) {
  const rules = { ...rateRulesOf(justitiaOptions.parse({ maxGbps: LINK_GBPS, ...options }), null), ...more };
  const coordinator = isRemote ? new Coordinator(undefined, 'by owner') : new Coordinator();
  const view = coordinator.membersOf(rates);
  let nowNs = 0;
  let probes = 0;
  const agent = { isAlive: true };
  const decide = (atNs = nowNs) => {
    nowNs = atNs;
    if (agent.isAlive) view.grant('probes').set(view.device, ++probes);
    expect(coordinator.decide(rates, rules, nowNs)).toBe(true);
  };
  return {
    coordinator,
    decide,
    /** Adds a member that reports this. */
    join(reports: Readonly<Record<string, number>>, tenant = ''): MemberPage {
      const page = coordinator.join(tenant) as MemberPage;
      say(page, reports);
      return page;
    },
    /** Decides once per RefPeriod. */
    pass(periods: number): void {
      for (let i = 0; i < periods; i++) decide(nowNs + PERIOD_NS);
    },
    get nowNs() {
      return nowNs;
    },
    /** What the agent writes. */
    agent(column: string, value: number): void {
      view.grant(column).set(view.device, value);
    },
    /** The agent measures nothing any more. */
    killAgent(): void {
      agent.isAlive = false;
    },
    /** What the ruler writes for the device, and what members see of it. */
    shown: (column: string) => view.grant(column).of(view.device),
  };
}

function say(page: MemberPage, reports: Readonly<Record<string, number>>): void {
  for (const [name, value] of Object.entries(reports))
    page.columns(rates).reports[columnIndex(RATE_REPORTS, name)] = value;
}
const granted = (page: MemberPage, name: string) =>
  page.columns(rates).grants[columnIndex(RATE_GRANTS, name)];
const ratesOf = (pages: readonly MemberPage[]) => pages.map((page) => granted(page, 'rateGbps'));

const B = (weight = 1) => ({ hungryWeight: weight, sendsBulk: 1 });
const M = (weight = 1) => ({ hungryWeight: weight });
const L = (weight = 1) => ({ latencyWeight: weight });

describe('R_min', () => {
  test.each([
    ['1 B', [1], 0.5],
    ['8 B', Array(8).fill(1), 0.889],
    ['4 B of weight 1', Array(4).fill(1), 0.8],
    ['4 B of weight 2', Array(4).fill(2), 0.889],
    ['4 B of weight 4', Array(4).fill(4), 0.941],
  ])('%s next to a latency application', (_, weights, part) => {
    const { join, decide } = device();
    const pages = (weights as number[]).map((weight) => join(B(weight)));
    join(L());
    decide();
    const [one] = pages;
    expect(granted(one, 'rMinGbps') / MAX_GBPS).toBeCloseTo(part, 3);
    // The first latency application finds the lowest rate in force, in equal shares.
    expect(ratesOf(pages).reduce((sum, rate) => sum + rate) / MAX_GBPS).toBeCloseTo(part, 3);
    expect(new Set(ratesOf(pages)).size).toBe(1);
  });

  test('without latency applications, B share the whole MaxRate by weight, and use the longer token', () => {
    const { join, decide } = device();
    const pages = [join(B(1)), join(B(3))];
    decide();
    expect(ratesOf(pages)).toEqual([25, 75]);
    expect(granted(pages[0], 'tokenBytes')).toBe(1_000_000);
    join(L());
    decide();
    expect(granted(pages[0], 'tokenBytes')).toBe(5000);
  });

  test('latency applications count together as one, or each by its weight', () => {
    for (const [latencyCounts, part] of [
      ['one', 1 / 2],
      ['weight', 1 / 6],
    ] as const) {
      const { join, decide } = device({ latencyCounts });
      const b = join(B());
      join(L(2));
      join(L(3));
      decide();
      expect(granted(b, 'rMinGbps')).toBeCloseTo(part * MAX_GBPS, 9);
    }
  });

  test('with granularity tenant, a tenant has its weight once, whatever the number of its contexts', () => {
    for (const [granularity, expected] of [
      ['tenant', [1 / 6, 1 / 6, 1 / 3]],
      ['application', [1 / 4, 1 / 4, 1 / 4]],
    ] as const) {
      const { join, decide } = device({ granularity });
      const pages = [join(B(), 'a'), join(B(), 'a'), join(B(), 'b')];
      join(L());
      decide();
      expect(ratesOf(pages).map((rate) => rate / MAX_GBPS)).toEqual(
        expected.map((part) => expect.closeTo(part, 9)),
      );
    }
  });

  test('latency applications and READs of other hosts count', () => {
    const { join, decide, agent } = device();
    const b = join(B());
    agent('remoteLatency', 1);
    agent('readWeight', 2);
    decide();
    expect(granted(b, 'rMinGbps')).toBeCloseTo((3 / 4) * MAX_GBPS, 9);
    expect(granted(b, 'rateGbps')).toBeCloseTo(MAX_GBPS / 4, 9);
  });

  test('the share of a member with nothing to send goes to the others, and it is granted what it would get', () => {
    const { join, decide, coordinator } = device();
    const [a, b, c] = [join(B()), join(B()), join({})];
    decide();
    expect(ratesOf([a, b, c])).toEqual([50, 50, expect.closeTo(LINK_GBPS / 3, 9)]);
    coordinator.takeChanges();
    say(a, M(0));
    decide();
    expect(ratesOf([a, b])).toEqual([50, 100]);
    // Members that must change their pace are notified.
    expect(coordinator.takeChanges()).toContain(b.row);
    coordinator.leave(b);
    say(a, B());
    decide();
    expect(ratesOf([a])).toEqual([100]);
  });

  test.each([Number.NaN, -1, Number.NEGATIVE_INFINITY])('a report of %d counts as nothing to send', (odd) => {
    const { join, decide } = device();
    const [a, b] = [join(B()), join(B(odd))];
    join(L(odd));
    decide();
    expect(ratesOf([a, b])[0]).toBe(LINK_GBPS);
  });

  test.each([1e300, Number.POSITIVE_INFINITY])('a report of %d leaves the grants finite', (odd) => {
    const { join, decide } = device();
    const pages = [join(B()), join(B(odd)), join(L(odd))];
    decide();
    for (const page of pages) {
      for (const value of page.columns(rates).grants) expect(Number.isFinite(value)).toBe(true);
    }
    expect(ratesOf(pages.slice(0, 2)).reduce((sum, rate) => sum + rate)).toBeLessThanOrEqual(MAX_GBPS);
  });
});

describe('members in other processes', () => {
  const isOwner = true;
  const weigh = (page: MemberPage, weight: number) => {
    page.columns(TENANT).reports[WEIGHT] = weight;
  };

  test.each(['application', 'tenant'] as const)(
    'with granularity %s, a member counts for no more than the weight of its tenant',
    (granularity) => {
      const { join, decide } = device({ granularity }, {}, isOwner);
      const [liar, honest] = [join({ ...B(1e9), ...L(1e9) }, 'a'), join(B(2), 'b')];
      weigh(honest, 2);
      decide();
      expect(ratesOf([liar, honest]).map((rate) => rate / MAX_GBPS)).toEqual([
        expect.closeTo(1 / 4, 9),
        expect.closeTo(2 / 4, 9),
      ]);
      weigh(liar, 3);
      decide();
      expect(ratesOf([liar, honest])[0] / MAX_GBPS).toBeCloseTo(3 / 6, 9);
    },
  );

  test('with latencyCounts=weight, a latency application counts for no more than the weight of its tenant', () => {
    const { join, decide } = device({ latencyCounts: 'weight' }, {}, isOwner);
    const b = join(B());
    weigh(join(L(1e9)), 3);
    decide();
    expect(granted(b, 'rMinGbps')).toBeCloseTo(MAX_GBPS / 4, 9);
  });

  test.each(['flow', 'group'] as const)(
    'with granularity %s, a member has as many shares as it says',
    (granularity) => {
      const { join, decide } = device({ granularity }, {}, isOwner);
      const pages = [join(B(3)), join(B(1))];
      decide();
      expect(ratesOf(pages)).toEqual([75, 25]);
    },
  );
});

describe('the price of a message', () => {
  const facts = { qpMmps: 5, maxMmps: 50 };

  test('next to bandwidth applications, tokens carry the message rate of one queue pair', () => {
    const { join, decide } = device({}, facts);
    const pages = [join(B()), join(M())];
    decide();
    // 100 Gbit/s are 12,500 bytes per microsecond.
    for (const page of pages) expect(granted(page, 'messageBytes')).toBeCloseTo(12_500 / 5, 9);
    expect(ratesOf(pages)).toEqual([50, 50]);
  });

  test('without bandwidth applications, message rates alone are not paced', () => {
    const { join, decide } = device({}, facts);
    const pages = [join(M()), join(M())];
    decide();
    expect(ratesOf(pages)).toEqual([UNPACED_GBPS, UNPACED_GBPS]);
    join(L());
    decide();
    for (const page of pages) expect(granted(page, 'messageBytes')).toBeCloseTo(12_500 / 50, 9);
    expect(ratesOf(pages)[0]).toBeCloseTo(MAX_GBPS / 3, 9);
  });

  test('tokenMessages says how many messages a token of bulkChunkBytes has', () => {
    const { join, decide } = device({ tokenMessages: 1100 });
    const b = join(B());
    decide();
    expect(granted(b, 'messageBytes')).toBeCloseTo(1_000_000 / 1100, 6);
  });

  test('tokenMessages holds for message-rate applications alone, unless maxMmps says otherwise', () => {
    for (const [maxMmps, bytes] of [
      [undefined, 1_000_000 / 1100],
      [50, 12_500 / 50],
    ] as const) {
      const { join, decide } = device({ tokenMessages: 1100, maxMmps });
      const m = join(M());
      decide();
      expect(granted(m, 'messageBytes')).toBeCloseTo(bytes, 6);
      expect(ratesOf([m])[0]).toBeCloseTo(100, 9);
    }
  });
});

describe('SafeUtil', () => {
  /** A B and a latency application: R_min is half of MaxRate. */
  function mixed(options: Options = {}) {
    const one = device(options);
    const b = one.join(B());
    const latency = one.join(L());
    one.decide(1000);
    const safeUtil = () => granted(b, 'safeUtilGbps');
    return { ...one, b, latency, safeUtil, rMin: granted(b, 'rMinGbps') };
  }

  test('rises by 8 Mbit/s a period on an estimate below the target, and on nothing else', () => {
    const { pass, agent, safeUtil, rMin } = mixed();
    pass(100);
    expect(safeUtil()).toBe(rMin);
    agent('estimateNs', TARGET_NS);
    pass(100);
    expect(safeUtil()).toBeCloseTo(rMin + 100 * STEP_GBPS, 9);
    agent('estimateNs', 0);
    pass(100);
    expect(safeUtil()).toBeCloseTo(rMin + 100 * STEP_GBPS, 9);
  });

  test('people see the worst receiver and what reference flows take, until the last latency application leaves', () => {
    const { agent, pass, coordinator, decide, b, latency, join } = mixed();
    const GID = '::ffff:10.0.0.3';
    const described = () => coordinator.describe(rates, b.row);
    expect(described()).not.toHaveProperty('worstPeer');
    agent('estimateNs', 1500);
    agent('probesPerS', 50_000);
    for (const [i, word] of gidToWords(GID).entries()) agent(WORST_GID_COLUMNS[i], word);
    pass(1);
    // 10 bytes, with the headers of a WRITE.
    const referenceShare = (50_000 * (10 + 82 + 16) * 8e-9) / LINK_GBPS;
    expect(described()).toMatchObject({ worstPeer: GID, estimateUs: 1.5, referenceShare });
    const says = `SafeUtil is 48.5 Gbit/s, and R_min is 48.5; the longest tail is 1.5 us to ${GID}; reference flows take 0.0432 % of the link`;
    expect(described().why).toBe(says);
    // A member that comes later sees it, too.
    const late = join(B());
    decide();
    const words = (page: MemberPage) => WORST_GID_COLUMNS.map((name) => granted(page, name));
    expect([words(b), words(late)]).toEqual([gidToWords(GID), gidToWords(GID)]);
    say(latency, { latencyWeight: 0 });
    decide();
    expect(described()).not.toHaveProperty('worstPeer');
    expect([described().referenceShare, ...words(late)]).toEqual([0, 0, 0, 0, 0]);
  });

  test('returns to R_min when the reference flows have been silent for 100 ms', () => {
    const { join, pass, agent, killAgent, decide } = device();
    join({ ...B(), ...L() });
    decide();
    agent('estimateNs', 500);
    pass(1000);
    const page = join(B(0));
    killAgent();
    pass(4999);
    expect(granted(page, 'safeUtilGbps')).toBeGreaterThan(MAX_GBPS / 2);
    pass(100);
    expect(granted(page, 'safeUtilGbps')).toBe(MAX_GBPS / 2);
  });

  test('does not rise while nothing is sent, because the estimate says nothing about it', () => {
    const { pass, agent, safeUtil, rMin, b } = mixed();
    agent('estimateNs', 500);
    say(b, { hungryWeight: 0, sendsBulk: 0 });
    pass(100);
    expect(safeUtil()).toBe(rMin);
  });

  test('decisions within a period change nothing, and late ones are made up for, up to 100 periods', () => {
    const { decide, agent, safeUtil, rMin } = mixed();
    agent('estimateNs', 500);
    for (let ns = 1000; ns < 1000 + PERIOD_NS; ns += 1000) decide(ns);
    expect(safeUtil()).toBe(rMin);
    decide(1000 + 7.5 * PERIOD_NS);
    expect(safeUtil()).toBeCloseTo(rMin + 7 * STEP_GBPS, 9);
    decide(1000 + 8 * PERIOD_NS);
    expect(safeUtil()).toBeCloseTo(rMin + 8 * STEP_GBPS, 9);
    decide(1e12);
    expect(safeUtil()).toBeCloseTo(rMin + 108 * STEP_GBPS, 9);
  });

  test('reaches MaxRate and no more', () => {
    const { decide, agent, safeUtil } = mixed();
    agent('estimateNs', 500);
    for (let i = 1; i <= 100; i++) decide(1000 + i * 100 * PERIOD_NS);
    expect(safeUtil()).toBe(MAX_GBPS);
  });

  test('falls by a tenth, and the reference flows begin a new window', () => {
    const { decide, pass, agent, shown, safeUtil } = mixed();
    agent('estimateNs', 500);
    for (let i = 1; i <= 100; i++) decide(1000 + i * 100 * PERIOD_NS);
    const falls = shown('falls');
    agent('estimateNs', TARGET_NS + 1);
    pass(1);
    expect(safeUtil()).toBeCloseTo(0.9 * MAX_GBPS, 9);
    expect([shown('falls') - falls, shown('estimateNs')]).toEqual([1, 0]);
    pass(50);
    expect(safeUtil()).toBeCloseTo(0.9 * MAX_GBPS, 9);
    for (let i = 0; i < 50; i++) {
      agent('estimateNs', TARGET_NS + 1);
      pass(1);
    }
    expect(safeUtil()).toBe(MAX_GBPS / 2);
  });

  test('with paper, falls by half down to R_min, and the window stays', () => {
    const { decide, pass, agent, shown, join, safeUtil } = mixed({ paper: true, latencyCounts: 'weight' });
    join(L(2));
    agent('estimateNs', 500);
    for (let i = 1; i <= 100; i++) decide(1000 + i * 100 * PERIOD_NS);
    expect(safeUtil()).toBe(MAX_GBPS);
    agent('estimateNs', TARGET_NS + 1);
    const falling = Array.from({ length: 3 }, () => {
      pass(1);
      return safeUtil() / MAX_GBPS;
    });
    expect(falling).toEqual([0.5, 0.25, 0.25]);
    expect([shown('falls'), shown('estimateNs'), shown('refLeast')]).toEqual([0, TARGET_NS + 1, 1]);
  });

  test('a clock that jumps back begins a new period, and one that jumps forward counts as one late decision', () => {
    const { decide, pass, agent, safeUtil, rMin } = mixed();
    agent('estimateNs', 500);
    decide(1e9);
    const before = safeUtil();
    expect(before).toBeCloseTo(rMin + 100 * STEP_GBPS, 9);
    decide(5000);
    expect(safeUtil()).toBe(before);
    pass(3);
    expect(safeUtil()).toBeCloseTo(before + 3 * STEP_GBPS, 9);
    agent('estimateNs', TARGET_NS + 1);
    decide(1e15);
    expect(safeUtil()).toBe(Math.max(rMin, 0.9 * (before + 3 * STEP_GBPS)));
    for (const odd of [Number.NaN, Number.POSITIVE_INFINITY]) {
      decide(odd);
      expect(Number.isFinite(safeUtil())).toBe(true);
    }
  });

  test('follows receivers that allow less at once, and rises only by steps when they allow more', () => {
    const { decide, agent, safeUtil, b } = mixed();
    agent('estimateNs', 500);
    for (let i = 1; i <= 100; i++) decide(1000 + i * 100 * PERIOD_NS);
    agent('receiverPart', 1 / 33);
    agent('estimateNs', 0);
    decide();
    expect(safeUtil()).toBeCloseTo(MAX_GBPS / 33, 9);
    expect(granted(b, 'rateGbps')).toBeCloseTo(MAX_GBPS / 33, 9);
    agent('receiverPart', 1);
    decide();
    expect(safeUtil()).toBeCloseTo(MAX_GBPS / 2, 9);
  });

  test('a receiver never raises R_min above what this host alone computes', () => {
    const { decide, agent, safeUtil, rMin } = mixed();
    agent('receiverPart', 1);
    decide();
    expect(safeUtil()).toBe(rMin);
  });

  test('begins at R_min again when latency applications come back', () => {
    const { decide, agent, join, coordinator } = device();
    const b = join(B());
    const safeUtil = () => granted(b, 'safeUtilGbps');
    const d = join(L());
    decide();
    agent('estimateNs', 500);
    decide(1e9);
    expect(safeUtil()).toBeGreaterThan(MAX_GBPS / 2);
    coordinator.leave(d);
    decide();
    expect(safeUtil()).toBe(LINK_GBPS);
    join(L());
    decide();
    expect(safeUtil()).toBe(MAX_GBPS / 2);
  });

  test('a target that the lowest rate does not meet is reported after 1,000 periods, until it is met', () => {
    const { pass, agent, b } = mixed();
    const miss = (periods: number) => {
      for (let i = 0; i < periods; i++) {
        agent('estimateNs', TARGET_NS + 1);
        pass(1);
      }
    };
    miss(1000);
    expect(granted(b, 'isUnmet')).toBe(0);
    miss(2);
    expect(granted(b, 'isUnmet')).toBe(1);
    agent('estimateNs', TARGET_NS);
    pass(2);
    expect(granted(b, 'isUnmet')).toBe(0);
  });

  test('without an estimate, no target is reported as unmet', () => {
    const { pass, b } = mixed();
    pass(3000);
    expect(granted(b, 'isUnmet')).toBe(0);
  });

  test('after a clock has jumped back, an unmet target is reported as late as before', () => {
    const { pass, agent, decide, b } = mixed();
    const isUnmet = () => granted(b, 'isUnmet') === 1;
    decide(1e12);
    decide(5000);
    for (const [periods, expected] of [
      [1000, false],
      [2, true],
    ] as const) {
      for (let i = 0; i < periods; i++) {
        agent('estimateNs', TARGET_NS + 1);
        pass(1);
      }
      expect(isUnmet()).toBe(expected);
    }
  });
});
