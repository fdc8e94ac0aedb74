// Applications with several contexts, with queue pairs or contexts that are created anew, and with bursts.
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { MixResult } from '../../src/mix/result.ts';
import { EXACTLY_ONCE, lineOf, POINTS, run } from './script-run.ts';

const LABEL_LOG = join(import.meta.dirname, 'label-log.mjs');
const MS = { duration: '1500us' };

const appOf = ({ apps }: MixResult, name: string) => apps.find((one) => one.name === name)!;

/** For each context of T on host 0, the number of queue pairs that it has created. */
async function createdQps(app: string): Promise<number[]> {
  const { policyStates } = await run([], [app, 'D'], { policy: LABEL_LOG, ...MS });
  const own = policyStates!.filter(({ device, tenant }) => device === 'sim0' && tenant === 'T');
  return own.map(({ kind }) => kind.split(', ').length);
}

test('queue pairs are created from the contexts of their tenant in turn', async () => {
  expect(await createdQps('B:name=T,qps=5,contexts=2')).toEqual([3, 2]);
  expect(await createdQps('B:name=T,qps=5')).toEqual([5]);
});

test('qpLife creates each queue pair anew, and contextLife each context', async () => {
  const [inOneContext, ...others] = await createdQps('D:name=T,qps=2,qpLife=100us');
  expect(others).toEqual([]);
  // Lives of 100 us, or a little longer, in 1500 us.
  expect(inOneContext).toBeGreaterThan(2 * 13);
  expect(inOneContext).toBeLessThanOrEqual(2 * 15);
  const byContext = await createdQps('D:name=T,qps=4,contexts=2,contextLife=100us');
  expect(byContext.reduce((sum, one) => sum + one, 0)).toBeGreaterThan(4 * 13);
});

test.each([
  ['B:size=64KiB,depth=8,qps=2,qpLife=150us', 0.1],
  ['B:size=64KiB,depth=8,qps=2,op=read,qpLife=150us', 0.1],
  ['M:depth=128,qpLife=100us', 0.15],
  ['M:qps=2,contexts=2,contextLife=100us', 0.15],
  ['M:op=atomic,depth=16,batch=16,contextLife=100us', 0.15],
  ['D:think=1us,qpLife=20us', 0.1],
  ['D:think=1us,inline=no,contextLife=20us', 0.1],
])('%s loses little more than the time in which nothing is outstanding', async (app, loss) => {
  const still = app.replace(/,?(qp|context)Life=\d+us/, '');
  const name = app[0];
  for (const policy of ['none', EXACTLY_ONCE]) {
    const [anew, before] = [
      await run([], [app], { policy, ...MS }),
      await run([], [still], { policy, ...MS }),
    ];
    const ratio = appOf(anew, name).messageRateMmps / appOf(before, name).messageRateMmps;
    expect(ratio).toBeGreaterThan(1 - loss);
    expect(ratio).toBeLessThan(1.02);
    expect(anew.traceHash).not.toBe(before.traceHash);
  }
});

test('a script closes and kills applications whose queue pairs are created anew', async () => {
  for (const step of ['1ms:close T', '1ms:kill T']) {
    for (const life of ['qpLife', 'contextLife']) {
      const app = `B:name=T,size=64KiB,qps=2,contexts=2,${life}=70us`;
      const result = await run([step], [app, 'B'], { policy: EXACTLY_ONCE, duration: '3ms' });
      const { throughputGbps } = lineOf(result, 'T');
      expect(throughputGbps[0]).toBeGreaterThan(20);
      expect(throughputGbps[POINTS / 2]).toBe(0);
      expect(lineOf(result, 'B').throughputGbps[POINTS - 1]).toBeGreaterThan(90);
    }
  }
});

test('an application posts in its bursts and not in its pauses', async () => {
  const apps = ['D:burst=250us/750us,name=first', 'D:burst=250us/750us,start=500us,name=second'];
  const result = await run([], apps, { duration: '5ms' });
  const isPosting = (name: string) => lineOf(result, name).messageRateMmps.map((rate) => rate > 0.1);
  const everyFourth = (offset: number) => Array.from({ length: POINTS }, (_, i) => i % 4 === offset);
  expect(isPosting('first')).toEqual(everyFourth(0));
  expect(isPosting('second')).toEqual(everyFourth(2));
});
