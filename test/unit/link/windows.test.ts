// The ruler of palos: parts of the window that give processes what they are due of a link that they share.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Coordinator } from '../../../src/coordinator/coordinator.ts';
import {
  HEARTBEAT,
  type MemberPage,
  TENANT,
  WEIGHT,
  WRITTEN_NS,
} from '../../../src/coordinator/member-table.ts';
import { NEVER_NS } from '../../../src/coordinator/members.ts';
import { columnIndex } from '../../../src/coordinator/ruler.ts';
import { WINDOW_GRANTS, WINDOW_REPORTS } from '../../../src/policies/link/columns.ts';
import { palosOptions } from '../../../src/policies/palos/options.ts';
import { windowRulesOf, windows } from '../../../src/policies/palos/ruler.ts';

/** What the link carries in one step, in bytes on the wire. */
const STEP_BYTES = 250e6;
const STEP_NS = 20e6;
/** Steps in 2 s. */
const SOON = 100;

/** What a process has in one of its groups. */
interface Part {
  readonly group: number;
  readonly groupWeight?: number;
  readonly weight: number;
  readonly activeWeight?: number;
}

/** A process, whose throughput is proportional to its window. */
interface Process {
  readonly page: MemberPage;
  /** How well it uses its window, compared with others: short messages or a far peer use it less well. */
  efficiency: number;
  /** What it sends at most, as a part of the link; Infinity: always more. */
  demand: number;
  /** What it sent in the last step, as a part of the link. */
  share: number;
}

const grantOf = ({ page }: Process, name: string) =>
  page.columns(windows).grants[columnIndex(WINDOW_GRANTS, name)];

class Model {
  readonly coordinator: Coordinator;
  readonly processes = new Set<Process>();
  private readonly rules;
  nowNs = 0;

  constructor(sums: 'configured' | 'active' = 'configured', isRemote = true) {
    this.coordinator = new Coordinator(undefined, isRemote ? 'by owner' : 'by rules');
    this.rules = windowRulesOf(palosOptions.parse({ sums }));
    this.coordinator.membersOf(windows);
  }

  join(tenant: string, parts: readonly Part[], more: Partial<Process> = {}, tenantWeight = 1): Process {
    const page = this.coordinator.join(tenant) as MemberPage;
    page.columns(TENANT).reports[WEIGHT] = tenantWeight;
    const process = { page, efficiency: 1, demand: Number.POSITIVE_INFINITY, share: 0, ...more };
    this.say(process, { hasPolicy: 1 });
    for (const [i, { group, groupWeight = 1, weight, activeWeight = weight }] of parts.entries())
      this.say(process, {
        [`group${i}`]: group,
        [`groupWeight${i}`]: groupWeight,
        [`weight${i}`]: weight,
        [`activeWeight${i}`]: activeWeight,
      });
    this.processes.add(process);
    return process;
  }

  say({ page }: Process, reports: Readonly<Record<string, number>>): void {
    for (const [name, value] of Object.entries(reports))
      page.columns(windows).reports[columnIndex(WINDOW_REPORTS, name)] = value;
  }

  leave(process: Process): void {
    this.processes.delete(process);
    this.coordinator.leave(process.page);
    this.decide();
  }

  decide(): void {
    expect(this.coordinator.decide(windows, this.rules, this.nowNs)).toBe(true);
  }

  /** The link serves what is in the windows. What a process does not need goes to the others. */
  step(steps = 1): void {
    for (let n = 0; n < steps; n++) {
      this.send();
      this.nowNs += STEP_NS;
      for (const { page } of this.processes) {
        page.counters[WRITTEN_NS] = this.nowNs;
        page.counters[HEARTBEAT]++;
      }
      this.decide();
    }
  }

  private send(): void {
    let [left, pull] = [1, 0];
    const hungry = new Set(this.processes);
    const pullOf = (one: Process) => grantOf(one, 'part') * one.efficiency;
    for (const one of hungry) pull += pullOf(one);
    // Those that have enough first.
    const byNeed = [...hungry].sort((a, b) => a.demand / pullOf(a) - b.demand / pullOf(b));
    for (const one of byNeed) {
      one.share = Math.min(one.demand, pull > 0 ? (left * pullOf(one)) / pull : 0);
      left -= one.share;
      pull -= pullOf(one);
      const reports = one.page.columns(windows).reports;
      const isHungry = one.share < one.demand ? 1 : 0;
      this.say(one, {
        wireBytes: reports[columnIndex(WINDOW_REPORTS, 'wireBytes')] + one.share * STEP_BYTES,
        sampledNs: this.nowNs + STEP_NS,
        isHungry,
      });
    }
  }
}

/** What each process sends, compared with what it is due. */
const ratios = (processes: readonly Process[], due: readonly number[]) =>
  processes.map(({ share }, i) => share / due[i]);

function expectWithin(values: readonly number[], part: number): void {
  for (const value of values) {
    expect(value).toBeGreaterThan(1 - part);
    expect(value).toBeLessThan(1 + part);
  }
}

describe('within 2 s, each process sends what equation (1) gives it', () => {
  test('four programs in two groups, of weights 1 to 4', () => {
    const model = new Model();
    const all = [1, 2, 3, 4].map((weight, i) =>
      model.join('t', [{ group: 1 + (i % 2), groupWeight: 1 + (i % 2), weight }], { efficiency: 1 + i }),
    );
    model.step(SOON);
    // Groups of weights 1 and 2, with queue pairs of weights 1 and 3, and 2 and 4.
    expectWithin(ratios(all, [1 / 12, 2 / 9, 1 / 4, 4 / 9]), 0.01);
    const sum = all.reduce((total, one) => total + grantOf(one, 'part'), 0);
    expect(sum).toBeCloseTo(1, 6);
    for (const one of all) expect(grantOf(one, 'isSteered')).toBe(1);
  });

  test('random processes, groups and tenants that use their windows differently', () => {
    const one = fc.record({
      tenant: fc.constantFrom('a', 'b'),
      group: fc.integer({ min: 1, max: 3 }),
      weight: fc.integer({ min: 1, max: 8 }),
      efficiency: fc.double({ min: 0.5, max: 2, noNaN: true }),
    });
    const weights = fc.record({
      tenant: fc.integer({ min: 1, max: 4 }),
      group: fc.integer({ min: 1, max: 4 }),
    });
    const all = fc.array(one, { minLength: 2, maxLength: 8 });
    fc.assert(
      fc.property(all, weights, (programs, factors) => {
        const tenantWeight = { a: 1, b: factors.tenant };
        const groupWeight = (group: number) => (group === 1 ? factors.group : 1);
        const sum = (values: Iterable<number>) => [...values].reduce((a, b) => a + b, 0);
        const due = programs.map(({ tenant, group, weight }) => {
          const own = programs.filter((other) => other.tenant === tenant);
          const tenants = new Set(programs.map((other) => other.tenant));
          const groups = new Set(own.map((other) => other.group));
          const peers = own.filter((other) => other.group === group);
          return (
            (tenantWeight[tenant] / sum([...tenants].map((name) => tenantWeight[name]))) *
            (groupWeight(group) / sum([...groups].map(groupWeight))) *
            (weight / sum(peers.map((peer) => peer.weight)))
          );
        });
        // Of less, a process has the least part of the window.
        fc.pre(Math.min(...due) > 0.006);
        const model = new Model();
        const processes = programs.map(({ tenant, group, weight, efficiency }) => {
          const part = { group, groupWeight: groupWeight(group), weight };
          return model.join(tenant, [part], { efficiency }, tenantWeight[tenant]);
        });
        model.step(SOON);
        expectWithin(ratios(processes, due), 0.01);
      }),
      { numRuns: 50 },
    );
  });

  test('a program with queue pairs in several groups', () => {
    const model = new Model();
    const both = model.join('t', [
      { group: 1, groupWeight: 3, weight: 1 },
      { group: 2, weight: 3 },
    ]);
    const other = model.join('t', [{ group: 2, weight: 1 }], { efficiency: 2 });
    model.step(SOON);
    expectWithin(ratios([both, other], [3 / 4 + 3 / 16, 1 / 16]), 0.01);
  });

  test('weights that change', () => {
    const model = new Model();
    const all = [1, 1].map((weight) => model.join('t', [{ group: 1, weight }]));
    model.step(SOON);
    expectWithin(ratios(all, [1 / 2, 1 / 2]), 0.01);
    model.say(all[0], { weight0: 4, activeWeight0: 4 });
    model.step(SOON);
    expectWithin(ratios(all, [4 / 5, 1 / 5]), 0.01);
    for (const { page } of all) page.columns(TENANT).reports[WEIGHT] = 5;
    const late = model.join('other', [{ group: 1, weight: 9 }], {}, 5);
    model.step(SOON);
    expectWithin(ratios([...all, late], [0.4, 0.1, 0.5]), 0.01);
  });
});

describe('a process that needs less than its share', () => {
  test('has what it needs, and the others divide the rest by weight', () => {
    const model = new Model();
    const modest = model.join('t', [{ group: 1, weight: 2 }], { demand: 0.1 });
    const others = [1, 3].map((weight) => model.join('t', [{ group: 1, weight }], { efficiency: weight }));
    model.step(SOON);
    expect(modest.share).toBeCloseTo(0.1, 3);
    expectWithin(ratios(others, [0.9 / 4, (0.9 * 3) / 4]), 0.01);
    modest.demand = Number.POSITIVE_INFINITY;
    model.step(SOON);
    expectWithin(ratios([modest, ...others], [1 / 3, 1 / 6, 1 / 2]), 0.01);
  });

  test('and sends nothing is granted the whole window to begin with', () => {
    const model = new Model();
    const idle = model.join('t', [{ group: 1, weight: 1, activeWeight: 0 }], { demand: 0 });
    const busy = model.join('t', [{ group: 1, weight: 1 }]);
    model.step(10);
    expect([grantOf(idle, 'part'), grantOf(busy, 'part')]).toEqual([1, expect.closeTo(1, 6)]);
  });
});

describe('half of a group idle', () => {
  test.each([
    ['configured', 1 / 3],
    ['active', 1 / 2],
  ] as const)('with sums over %s queue pairs', (sums, part) => {
    const model = new Model(sums);
    // Two groups of the same weight.
    const half = model.join('t', [{ group: 1, weight: 2, activeWeight: 1 }], { efficiency: 3 });
    const whole = model.join('t', [{ group: 2, weight: 1 }]);
    model.step(SOON);
    // The link is never idle, so what half a group leaves goes to all.
    expectWithin(ratios([half, whole], [part, 1 - part]), 0.01);
  });
});

describe('processes that come and go', () => {
  test('one that leaves gives its part back in one step', () => {
    const model = new Model();
    const [a, b, c] = [1, 1, 2].map((weight) => model.join('t', [{ group: 1, weight }]));
    model.step(SOON);
    expect(grantOf(c, 'part')).toBeCloseTo(1 / 2, 2);
    model.leave(c);
    expect(grantOf(a, 'part') + grantOf(b, 'part')).toBeCloseTo(1, 6);
    model.step();
    expectWithin(ratios([a, b], [1 / 2, 1 / 2]), 0.01);
  });

  test('so does one that is silent', () => {
    const model = new Model();
    const [a, b] = [1, 1].map((weight) => model.join('t', [{ group: 1, weight }]));
    model.step(SOON);
    b.page.counters[WRITTEN_NS] = NEVER_NS;
    model.decide();
    expect(grantOf(a, 'part')).toBeCloseTo(1, 6);
    model.step(SOON);
    expectWithin(ratios([a, b], [1 / 2, 1 / 2]), 0.01);
  });

  test('one that takes the place of one that left while it was silent begins with its own part', () => {
    const model = new Model();
    const [light, heavy] = [1, 99].map((weight) => model.join('t', [{ group: 1, weight }]));
    model.step(SOON);
    light.page.counters[WRITTEN_NS] = NEVER_NS;
    model.decide();
    model.leave(light);
    const next = model.join('t', [{ group: 1, weight: 99 }]);
    expect(next.page.row).toBe(light.page.row);
    model.step(6);
    expectWithin(ratios([next, heavy], [1 / 2, 1 / 2]), 0.1);
  });

  test('the one that is left has the whole window', () => {
    const model = new Model();
    const [a, b] = [1, 9].map((weight) => model.join(`${weight}`, [{ group: 1, weight }]));
    model.step(SOON);
    model.leave(b);
    model.step(2);
    expect(grantOf(a, 'part')).toBe(1);
  });

  test('parts change at most once in 15 ms otherwise', () => {
    const model = new Model();
    const all = [1, 3].map((weight) => model.join('t', [{ group: 1, weight }]));
    model.step(2);
    const parts = () => all.map((one) => grantOf(one, 'part'));
    const before = parts();
    for (let i = 0; i < 10; i++) {
      model.say(all[0], { weight0: 10 + i, activeWeight0: 10 + i });
      model.nowNs += 1e6;
      model.decide();
    }
    expect(parts()).toEqual(before);
  });
});

test('a part is never less than one piece', () => {
  const model = new Model();
  const all = [1, 1000].map((weight) => model.join('t', [{ group: 1, weight }]));
  for (const one of all) model.say(one, { leastPart: 0.1 });
  model.step(SOON);
  for (const one of all) expect(grantOf(one, 'part')).toBeGreaterThanOrEqual(0.1 - 1e-9);
  for (const one of all) expect(grantOf(one, 'part')).toBeLessThanOrEqual(1);
});

test('members in one process are not steered: they keep one order', () => {
  const model = new Model('configured', false);
  const all = [1, 3].map((weight) => model.join('t', [{ group: 1, weight }]));
  model.step(10);
  for (const one of all) expect([grantOf(one, 'part'), grantOf(one, 'isSteered')]).toEqual([1, 0]);
});

describe('a process that always waits', () => {
  test('and can send nothing, because its peer has stopped, leaves the others what they are due', () => {
    const model = new Model();
    const stopped = model.join('stopped', [{ group: 1, weight: 1 }], { efficiency: 0 });
    const others = [9, 1].map((weight) => model.join(`${weight}`, [{ group: 1, weight }], {}, weight));
    const parts = () => others.map((one) => grantOf(one, 'part'));
    let sums = [0, 0];
    for (let i = 0; i < 1000; i++) {
      model.step();
      sums = parts().map((part, k) => part + sums[k]);
    }
    // On average, the time included in which it is tried whether the process can send more.
    expectWithin([sums[0] / 1000 / (9 / 11), sums[1] / 1000 / (1 / 11)], 0.05);
    stopped.efficiency = 1;
    model.step(3 * SOON);
    expectWithin(ratios([stopped, ...others], [1 / 11, 9 / 11, 1 / 11]), 0.01);
  });

  test.each([
    ['a whole window as its smallest part', { leastPart: 1 }],
    ['more than the link carries', { wireBytes: 1e15 }],
  ])('and claims %s leaves the weights of the others in force', (_, lies) => {
    const model = new Model();
    const liar = model.join('liar', [{ group: 1, weight: 1 }]);
    const others = [9, 1].map((weight) => model.join(`${weight}`, [{ group: 1, weight }], {}, weight));
    for (const one of others) model.say(one, { leastPart: 0.01 });
    let [heavy, light] = [0, 0];
    for (let i = 1; i <= SOON + 1000; i++) {
      if ('leastPart' in lies) model.say(liar, lies);
      else model.say(liar, { wireBytes: lies.wireBytes * i });
      model.step();
      // Shares hold after 2 s.
      if (i <= SOON) continue;
      heavy += others[0].share / 1000;
      light += others[1].share / 1000;
    }
    expectWithin([heavy / light / 9], 0.05);
    // It has at most half of the link, even if it uses a whole window.
    expect(heavy + light).toBeGreaterThan(0.45);
  });
});

describe('a process that lies', () => {
  const ODD = [Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -1, 0, 1, 1e-300, 1e12, 1e300];
  const columns = WINDOW_REPORTS.map(({ name }) => name);

  test.each(columns)('about %s leaves the parts of all within bounds', (column) => {
    for (const value of ODD) {
      const model = new Model();
      const liar = model.join('liar', [{ group: 1, weight: 1 }]);
      const honest = [1, 3].map((weight) => model.join('t', [{ group: 1, weight }]));
      const check = () => {
        for (const one of model.processes) {
          const part = grantOf(one, 'part');
          expect(part, `${column} ${value}`).toBeGreaterThanOrEqual(1e-3);
          expect(part, `${column} ${value}`).toBeLessThanOrEqual(1);
        }
      };
      for (let i = 0; i < 30; i++) {
        model.say(liar, { [column]: value });
        model.step();
        check();
      }
      model.leave(liar);
      model.step(SOON);
      check();
      // The lies are forgotten with the process.
      expectWithin(ratios(honest, [1 / 4, 3 / 4]), 0.01);
    }
  });

  test('at random leaves the parts of all within bounds, and the others recover', () => {
    const value = fc.oneof(fc.constantFrom(...ODD), fc.double(), fc.double({ min: 0, max: 1 }));
    const lies = fc.array(fc.record({ column: fc.constantFrom(...columns), value }), { maxLength: 40 });
    fc.assert(
      fc.property(lies, fc.constantFrom<'configured' | 'active'>('configured', 'active'), (all, sums) => {
        const model = new Model(sums);
        const liar = model.join('t', [{ group: 1, weight: 1 }]);
        const honest = [1, 3].map((weight) => model.join('t', [{ group: 1, weight }]));
        for (const { column, value: said } of all) {
          model.say(liar, { [column]: said });
          model.step();
          for (const one of model.processes) expect(grantOf(one, 'part')).toBeGreaterThanOrEqual(1e-3);
        }
        model.leave(liar);
        model.step(SOON);
        expectWithin(ratios(honest, [1 / 4, 3 / 4]), 0.01);
      }),
    );
  });

  test('for minutes about what it sends and needs does not run away', () => {
    const model = new Model();
    const liar = model.join('liar', [{ group: 1, weight: 1 }]);
    const honest = model.join('t', [{ group: 1, weight: 1 }]);
    for (let i = 0; i < 5000; i++) {
      model.say(liar, { wireBytes: 1e12 * (1 + i), leastPart: 1 });
      model.step();
    }
    expect(grantOf(honest, 'part')).toBeGreaterThan(0.4);
    model.say(liar, { leastPart: 0 });
    model.step(SOON);
    expect(grantOf(liar, 'part') + grantOf(honest, 'part')).toBeCloseTo(1, 6);
    expectWithin(ratios([liar, honest], [1 / 2, 1 / 2]), 0.01);
  });

  test('about how much of its weight is active gets no more than the share of its tenant', () => {
    for (const sums of ['configured', 'active'] as const) {
      const model = new Model(sums);
      const liar = model.join('liar', [{ group: 1, weight: 1, activeWeight: 1e12 }]);
      const honest = [1, 1].map((weight) => model.join('t', [{ group: 1, weight }]));
      model.step(SOON);
      expectWithin(ratios([liar, ...honest], [1 / 2, 1 / 4, 1 / 4]), 0.01);
    }
  });

  test('about the weight of its group harms no other tenant', () => {
    const model = new Model();
    model.join('liar', [{ group: 1, groupWeight: 0, weight: 1 }]);
    const honest = [1, 3].map((weight) => model.join('t', [{ group: 1, weight }]));
    model.step(SOON);
    expect(honest[1].share / honest[0].share).toBeCloseTo(3, 1);
    expect(honest[0].share + honest[1].share).toBeGreaterThan(0.45);
  });
});
