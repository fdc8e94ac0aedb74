/** Memory that a member writes is not believed: whatever stands there, the others are as beside an honest one. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Coordinator } from '../../src/coordinator/coordinator.ts';
import * as M from '../../src/coordinator/member-table.ts';

const RUNS = Number(process.env.ISOVERBS_RUNS ?? 5000);
const SEED = Number(process.env.ISOVERBS_SEED ?? 20_261_204);
const RULES = { qNumAllow: 1, qNumCapa: 9, selective: false, rotateFrom: 9 };
const TURN_NS = 1000;

function ground(rules = RULES) {
  const coordinator = new Coordinator(new M.MemberTable(new ArrayBuffer(M.memberTableBytes(4)), 4));
  const [evil, b, d] = ['evil', 'b', 'd'].map((tenant) => coordinator.join(tenant)!);
  b.counters[M.CLASS] = M.BANDWIDTH;
  b.counters[M.ACTIVE_QPS] = 1;
  b.counters[M.LARGE_QPS] = 1;
  b.counters[M.MEAN_BYTES] = 1 << 20;
  b.counters[M.QUEUE_LENGTH] = 4;
  b.counters[M.SLOT_DEMAND] = M.HELD_DEMAND;
  d.counters[M.CLASS] = M.DELAY;
  d.counters[M.ACTIVE_QPS] = 1;
  d.counters[M.WIRE_GBPS] = 1;
  coordinator.runPass(rules, 0);
  return { coordinator, evil, b, d, rules };
}

/** Any bits, and the numbers that rules turn on. */
const words = fc.array(
  fc.oneof(
    fc.double(),
    fc.constantFrom(0, 1, 2, 3, -1, 0.5, 200, 2 ** 31, 2 ** 53, 1e300, Number.NaN, Number.POSITIVE_INFINITY),
  ),
  { minLength: M.COUNTERS, maxLength: M.COUNTERS },
);

test('what others are granted is what an honest tenant could cause', () => {
  const { coordinator, evil, b, d, rules } = ground();
  fc.assert(
    fc.property(words, (values) => {
      evil.counters.set(values);
      coordinator.runPass(rules, 0);
      for (const { grants } of [b, d]) {
        expect(grants.every((value) => Number.isFinite(value) && value >= 0)).toBe(true);
        // Its own queue pair, and the one that the rules let send of a tenant of several.
        expect(grants[M.BUSY_LARGE_QPS]).toBeLessThanOrEqual(2);
        expect(grants[M.QNUM_ALLOW]).toBe(0);
        expect(grants[M.SLOT_STATE]).toBe(M.NO_ROTATION);
      }
      expect(b.grants[M.SPLIT]).toBe(1);
      expect(b.grants[M.D_TENANTS] + b.grants[M.M_TENANTS] + b.grants[M.B_TENANTS]).toBeLessThanOrEqual(3);
    }),
    { numRuns: RUNS, seed: SEED },
  );
});

test('in rotation, the others have their slots in time', () => {
  const { coordinator, evil, b, rules } = ground({ ...RULES, rotateFrom: 0 });
  let nowNs = 0;
  fc.assert(
    fc.property(words, (values) => {
      evil.counters.set(values);
      coordinator.runPass(rules, 0);
      let hadNs = 0;
      // It may keep a slot for twice its time, and have every second one.
      for (let n = 0; n < 40; n++) {
        nowNs += TURN_NS / 10;
        coordinator.rotate(nowNs, TURN_NS);
        if (b.grants[M.SLOT_STATE] === M.OTHERS_SLOT) continue;
        hadNs += TURN_NS / 10;
        if (nowNs >= b.grants[M.SLOT_END_NS]) b.counters[M.DRAINED_SLOT] = b.grants[M.SLOT_NUMBER];
      }
      expect(hadNs).toBeGreaterThanOrEqual(TURN_NS);
    }),
    { numRuns: RUNS, seed: SEED },
  );
});
