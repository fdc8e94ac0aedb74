// The policy `chunk` on simulated devices: what a queue pair has in flight, and what that costs it.
import { expect, test } from 'vitest';
import { gbps } from '../../src/mix/metrics.ts';
import { parseApp, parsePolicy } from '../../src/mix/parse.ts';
import { runMix } from '../../src/mix/run.ts';
import { DEFAULTS } from '../../src/mix/spec.ts';
import { createPolicy } from '../../src/policies/index.ts';
import { createFabric } from '../../src/providers/sim/index.ts';
import { compose, type Interceptor } from '../../src/shim/compose.ts';
import { ConfigError } from '../../src/verbs/errors.ts';
import * as V from '../../src/verbs/index.ts';
import { connect, makeEnd, post, take } from './helpers.ts';

const run = (policy: string, ...apps: string[]) =>
  runMix({
    ...DEFAULTS,
    ...parsePolicy(policy),
    durationNs: 3e6,
    warmupNs: 1e6,
    payload: false,
    details: true,
    apps: apps.map(parseApp),
  });

test('a queue pair has one chunk in flight: a round trip for each chunk limits it, unless it may have more', async () => {
  const [bare, one, two] = await Promise.all(
    ['none', 'chunk', 'chunk:chunks=2'].map((policy) => run(policy, 'B:size=1MiB')),
  );
  const [all, half, nearly] = [bare, one, two].map((result) => gbps(result, 'B'));
  expect(half).toBeLessThan(0.6 * all);
  expect(nearly).toBeGreaterThan(0.9 * all);
  expect([bare, one, two].flatMap(({ invariants }) => invariants)).toEqual([]);
});

test('two queue pairs, each with a chunk in flight, use the link', async () => {
  const [bare, two] = await Promise.all(['none', 'chunk'].map((policy) => run(policy, 'B:size=1MiB,qps=2')));
  expect(gbps(two, 'B')).toBeGreaterThan(0.9 * gbps(bare, 'B'));
});

test.each(['write', 'read', 'send'])(
  'messages of op %s longer than a chunk are cut, shorter ones are not',
  async (op) => {
    const { counters, invariants } = await run('chunk', `B:size=1MiB,op=${op}`);
    expect(counters![0].split).toBeGreaterThan(0);
    const short = await run('chunk', `M:size=16384,op=${op}`);
    expect(short.counters![0].held).toBe(0);
    expect([...invariants, ...short.invariants]).toEqual([]);
  },
);

test('a queue pair issues no more chunks at once than it may have in flight', async () => {
  const fabric = createFabric({ hosts: 2, autoAdvance: false });
  const issued: number[] = [];
  const counting: Interceptor = {
    name: 'counting',
    wrap: (next) => ({
      postSend(...args) {
        issued.push(args[3]);
        return next.postSend(...args);
      },
    }),
  };
  const bytes = 65_536;
  const provider = compose(fabric.provider, [
    createPolicy('chunk', { chunkBytes: 4096, chunks: 3 }),
    counting,
  ]);
  const [a, b] = [makeEnd({ ...fabric, provider }, 0, { bytes }), makeEnd(fabric, 1, { bytes })];
  connect(a, b);
  a.send.write(1, V.IBV_SEND_SIGNALED, a.mr.addr, bytes, a.mr.lkey, b.mr.addr, b.mr.rkey);
  post(a);
  expect(issued).toEqual([3]);
  await fabric.run();
  expect(take(a)).toHaveLength(1);
  expect(issued.reduce((sum, count) => sum + count, 0)).toBe(16);
});

test('chunkBytes may change while the policy runs, chunks may not', () => {
  const provider = compose(createFabric({ hosts: 2 }).provider, [createPolicy('chunk')]);
  provider.configurePolicy!('chunk', { chunkBytes: 8192 });
  expect(() => provider.configurePolicy!('chunk', { chunks: 2 })).toThrow(ConfigError);
});
