// Entities, against a plain model.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { byContext, byQueuePair, byTenant, Entities } from '../../../src/policies/kit/entities.ts';
import { NONE } from '../../../src/policies/kit/run-queue.ts';
import type { QpView } from '../../../src/shim/policy.ts';

const qpOf = (index: number, tenant: string, context = index, device = 'sim0') =>
  ({ index, handle: index + 1, context: { device, tenant, handle: context } }) as QpView;

const membersOf = (entities: Entities, entity: number) => {
  const found: number[] = [];
  for (let qp = entities.firstQp(entity); qp !== NONE; qp = entities.nextQp(qp)) found.push(qp);
  return found;
};

test('queue pairs of one key are one entity, and indices of forgotten entities are used again', () => {
  const step = fc.record({ qp: fc.nat(90), tenant: fc.constantFrom('a', 'b', 'c', 'd'), owes: fc.boolean() });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const owing = new Set<number>();
      const created: string[] = [];
      const entities = new Entities({
        keyOf: byTenant,
        onNew: (_entity, qp) => created.push(qp.context.tenant),
        mayForget: (entity) => !owing.has(entity),
      });
      const model = new Map<number, string>();
      for (const { qp, tenant, owes } of steps) {
        const view = qpOf(qp, tenant);
        const known = model.get(qp);
        const before = entities.of({ index: qp });
        if (known === undefined) {
          const entity = entities.join(view);
          model.set(qp, tenant);
          if (owes) owing.add(entity);
          else owing.delete(entity);
        } else {
          expect(entities.leave({ index: qp })).toBe(before);
          model.delete(qp);
        }
        for (const one of ['a', 'b', 'c', 'd']) {
          const qps = [...model].filter(([, tenant]) => tenant === one).map(([index]) => index);
          const entity = entities.find(`sim0 ${one}`);
          if (qps.length === 0) {
            expect(entity === NONE || (owing.has(entity) && entities.count(entity) === 0)).toBe(true);
            continue;
          }
          expect(entities.count(entity)).toBe(qps.length);
          expect(membersOf(entities, entity)).toEqual(qps);
          for (const index of qps) expect(entities.of({ index })).toBe(entity);
        }
        expect(entities.limit).toBeLessThanOrEqual(4);
      }
    }),
  );
});

test('an entity that owes something is kept until a new one of its device comes and it no longer does', () => {
  let owes = true;
  const entities = new Entities({ keyOf: byTenant, mayForget: (_entity, nowNs) => !owes && nowNs > 10 });
  const a = entities.join(qpOf(0, 'a'));
  entities.leave({ index: 0 });
  expect(entities.find('sim0 a')).toBe(a);
  owes = false;
  entities.join(qpOf(1, 'b', 1, 'sim1'), 20);
  expect(entities.find('sim0 a')).toBe(a);
  entities.join(qpOf(2, 'c'), 5);
  expect(entities.find('sim0 a')).toBe(a);
  expect(entities.join(qpOf(3, 'd'), 20)).toBe(a);
  expect(entities.find('sim0 a')).toBe(NONE);
  expect(entities.join(qpOf(4, 'a'), 20)).not.toBe(a);
});

test('of the entities that may never be forgotten, at most 1,024 are kept', () => {
  const entities = new Entities({ keyOf: byTenant, mayForget: () => false });
  for (let i = 0; i < 5000; i++) {
    entities.join(qpOf(0, `tenant ${i}`));
    entities.leave({ index: 0 });
  }
  expect(entities.limit).toBeLessThanOrEqual(1025);
  expect(entities.find('sim0 tenant 4999')).not.toBe(NONE);
  expect(entities.find('sim0 tenant 3975')).toBe(NONE);
});

test('keys tell devices, contexts and queue pairs apart', () => {
  expect(byTenant(qpOf(0, 'a', 1))).toBe(byTenant(qpOf(1, 'a', 2)));
  expect(byTenant(qpOf(0, '', 1))).not.toBe(byTenant(qpOf(1, '', 2)));
  expect(byTenant(qpOf(0, 'a', 1))).not.toBe(byTenant(qpOf(0, 'a', 1, 'sim1')));
  expect(byContext(qpOf(0, 'a', 1))).toBe(byContext(qpOf(1, 'a', 1)));
  expect(byContext(qpOf(0, 'a', 1))).not.toBe(byContext(qpOf(1, 'a', 2)));
  expect(byQueuePair(qpOf(0, 'a', 1))).not.toBe(byQueuePair(qpOf(1, 'a', 1)));
});

test('a queue pair that never joined is in no entity', () => {
  const entities = new Entities({ keyOf: byTenant });
  expect(entities.of({ index: 1000 })).toBe(NONE);
  expect(entities.leave({ index: 1000 })).toBe(NONE);
});

test('a queue pair that rejoins moves only if its key has changed', () => {
  const entities = new Entities({ keyOf: ({ labels }) => labels.group, onNew: () => created++ });
  let created = 0;
  const labelled = (index: number, group: string) => ({ ...qpOf(index, 'a'), labels: { group } }) as QpView;
  const first = entities.rejoin(labelled(0, 'x'));
  expect(entities.rejoin(labelled(0, 'x'))).toBe(first);
  expect([created, entities.count(first)]).toEqual([1, 1]);
  const second = entities.rejoin(labelled(1, 'y'));
  expect(entities.rejoin(labelled(0, 'y'))).toBe(second);
  expect([created, membersOf(entities, second)]).toEqual([2, [1, 0]]);
  expect(entities.find('x')).toBe(NONE);
});
