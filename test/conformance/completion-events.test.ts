/** Completion channels and moderated events under every policy, which programs use as on the bare device. */
// @module-tag wide
import { describe, expect, test } from 'vitest';
import { fault } from '../../src/interceptors/index.ts';
import { createPolicy, policies } from '../../src/policies/index.ts';
import { createFabric, type Fabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, type End, type EndOptions, makeEnd } from '../sim/helpers.ts';

const CHAINS: [string, () => Interceptor[]][] = [
  ['bare', () => []],
  ['fault', () => [fault({ completion: 'drop', nth: 1000 })]],
  ['perf, always', () => [createPolicy('perf', { isolation: 'always' })]],
  ...Object.keys(policies).map((name): [string, () => Interceptor[]] => [name, () => [createPolicy(name)]]),
];

/** Two connected ends, of which the first is under the chain. */
function pair(chain: Interceptor[], options: EndOptions = {}): [End, End, Fabric] {
  const fabric = createFabric({ hosts: 2, profile: 'cx6-100g', autoAdvance: false });
  const under = { ...fabric, provider: compose(fabric.provider, chain) };
  const a = makeEnd(under, 0, { event: true, ...options });
  const b = makeEnd(fabric, 1, options);
  connect(a, b);
  return [a, b, fabric];
}

describe.each(CHAINS)('%s', (_name, chain) => {
  test('a listener that is not a function is rejected, and the old one stays', async () => {
    const [a, b, fabric] = pair(chain());
    let events = 0;
    a.v.watchCompChannel(a.channel, () => events++);
    for (const listener of [undefined, 5, 'listener', {}]) {
      expect(() => a.v.watchCompChannel(a.channel, listener as unknown as V.CompletionListener)).toThrow(
        expect.objectContaining({ code: 'ISO_ERR_ARGUMENT', verb: 'watchCompChannel' }),
      );
    }
    a.v.reqNotifyCq(a.sendCq, false);
    a.send.write(1, V.IBV_SEND_SIGNALED, a.mr.addr, 8, a.mr.lkey, b.mr.addr, b.mr.rkey);
    expect(a.v.postSend(a.qp, a.send.ring, 0, 1)).toBe(1);
    await fabric.run();
    expect(events).toBe(1);
  });

  test.each([
    [2, 0],
    [100, 50],
    [0, 50],
  ])('moderation of %i completions and %i us stalls no long requests', async (count, periodUs) => {
    const bytes = 1 << 20;
    const [a, b, fabric] = pair(chain(), { bytes });
    let events = 0;
    a.v.watchCompChannel(a.channel, () => {
      events++;
      a.v.reqNotifyCq(a.sendCq, false);
    });
    a.v.modifyCq(a.sendCq, count, periodUs);
    a.v.reqNotifyCq(a.sendCq, false);
    for (const id of [1, 2])
      a.send.write(id, V.IBV_SEND_SIGNALED, a.mr.addr, bytes, a.mr.lkey, b.mr.addr, b.mr.rkey);
    expect(a.v.postSend(a.qp, a.send.ring, 0, 2)).toBe(2);
    for (let i = 0; i < 10; i++) await fabric.run();
    expect(events).toBeGreaterThanOrEqual(1);
    expect(a.v.pollCq(a.sendCq, a.wc.ring, 0, 64)).toBe(2);
    expect([0, 1].map((i) => [a.wc.wrId(i), a.wc.status(i)])).toEqual([
      [1, V.IBV_WC_SUCCESS],
      [2, V.IBV_WC_SUCCESS],
    ]);
  });

  test('moderation rejects wrong arguments', () => {
    const [a] = pair(chain());
    for (const [count, periodUs] of [
      [-1, 0],
      [0, 1.5],
      [1 << 16, 0],
      [0, Number.NaN],
    ]) {
      expect(() => a.v.modifyCq(a.sendCq, count, periodUs)).toThrow(
        expect.objectContaining({ code: 'ISO_ERR_ARGUMENT', verb: 'modifyCq' }),
      );
    }
    expect(() => a.v.modifyCq(a.qp, 0, 0)).toThrow(expect.objectContaining({ code: 'ISO_ERR_HANDLE' }));
  });
});
