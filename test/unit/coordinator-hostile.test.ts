/**
 * The coordinator does not trust the memory that a member writes: whatever it contains, the other members are treated
 * as if that member were honest.
 */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Coordinator } from '../../src/coordinator/coordinator.ts';
import * as M from '../../src/coordinator/member-table.ts';
import * as C from '../../src/policies/perf/columns.ts';
import { master } from '../../src/policies/perf/master.ts';
import { slots } from '../../src/policies/perf/slot-rotation.ts';
import { allGrants, granted, RULERS, report } from '../support/columns.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 5000);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_204);
const RULES = {
  qNumAllow: 1,
  qNumCapa: 9,
  selective: false,
  rotateFrom: 9,
  silentNs: Number.POSITIVE_INFINITY,
};
const TURN_NS = 1000;

function ground(rules = RULES) {
  const coordinator = new Coordinator(new M.MemberTable(new ArrayBuffer(M.memberTableBytes(4)), 4));
  const [evil, b, d] = ['evil', 'b', 'd'].map((tenant) => coordinator.join(tenant)!);
  report(b, { class: C.BANDWIDTH });
  report(b, { activeQps: 1 });
  report(b, { largeQps: 1 });
  report(b, { meanBytes: 1 << 20 });
  report(b, { queueLength: 4 });
  report(b, { slotDemand: C.HELD_DEMAND });
  report(d, { class: C.DELAY });
  report(d, { activeQps: 1 });
  report(d, { wireGbps: 1 });
  coordinator.decide(master, rules, 0);
  return { coordinator, evil, b, d, rules };
}

/** Columns of all rulers. */
const COUNT = RULERS.reduce((sum, { reports }) => sum + reports.length, 0);

function reportAll(page: M.MemberPage, values: readonly number[]): void {
  let at = 0;
  for (const ruler of RULERS) {
    const { reports } = page.columns(ruler);
    for (let i = 0; i < reports.length; i++) reports[i] = values[at++];
  }
}

/** Arbitrary numbers, and the values at which rules decide differently. */
const words = fc.array(
  fc.oneof(
    fc.double(),
    fc.constantFrom(0, 1, 2, 3, -1, 0.5, 200, 2 ** 31, 2 ** 53, 1e300, Number.NaN, Number.POSITIVE_INFINITY),
  ),
  { minLength: COUNT, maxLength: COUNT },
);

test("a hostile tenant affects the others' grants no more than an honest one could", {
  tags: ['long'],
}, () => {
  const { coordinator, evil, b, d, rules } = ground();
  fc.assert(
    fc.property(words, (values) => {
      reportAll(evil, values);
      coordinator.decide(master, rules, 0);
      for (const page of [b, d]) {
        expect(allGrants(page).every((value) => Number.isFinite(value) && value >= 0)).toBe(true);
        // b's own queue pair, and the one queue pair at a time that the rules allow the hostile tenant.
        expect(granted(page, 'busyLargeQps')).toBeLessThanOrEqual(2);
        expect(granted(page, 'qNumAllow')).toBe(0);
        expect(granted(page, 'slotState')).toBe(C.NO_ROTATION);
      }
      expect(granted(b, 'split')).toBe(1);
      expect(granted(b, 'dTenants') + granted(b, 'mTenants') + granted(b, 'bTenants')).toBeLessThanOrEqual(3);
    }),
    { numRuns: RUNS, seed: SEED },
  );
});

test('in rotation, a hostile tenant does not keep the others from their slots', () => {
  const { coordinator, evil, b, rules } = ground({ ...RULES, rotateFrom: 0 });
  let nowNs = 0;
  fc.assert(
    fc.property(words, (values) => {
      reportAll(evil, values);
      coordinator.decide(master, rules, 0);
      let hadNs = 0;
      // The hostile tenant may keep a slot for twice its time and get every second slot.
      for (let n = 0; n < 40; n++) {
        nowNs += TURN_NS / 10;
        coordinator.decide(slots, { slotNs: TURN_NS }, nowNs);
        if (granted(b, 'slotState') === C.OTHERS_SLOT) continue;
        hadNs += TURN_NS / 10;
        if (nowNs >= granted(b, 'slotEndNs')) report(b, { drainedSlot: granted(b, 'slotNumber') });
      }
      expect(hadNs).toBeGreaterThanOrEqual(TURN_NS);
    }),
    { numRuns: RUNS, seed: SEED },
  );
});
