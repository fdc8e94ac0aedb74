// Applications that register and deregister memory regions without pause, and their effect on others.
import { expect, test } from 'vitest';
import type { MixResult } from '../../src/mix/result.ts';
import { parseStep } from '../../src/mix/script/script.ts';
import { type Changes, resolve, runApps } from './app-runs.ts';

const SHORT = { durationNs: 2e6, warmupNs: 2e5 };

const run = (apps: string[], more: Changes = {}) => runApps(apps, { ...SHORT, ...more });

test('op=register has regions of its size on each core, and no queue pairs', () => {
  expect(resolve('B:op=register,cores=6,contexts=3,regions=1024,size=4KiB,pds=each')).toMatchObject({
    isRegistering: true,
    qps: 0,
    cores: 6,
    contexts: 3,
    hasOwnPds: true,
    memory: { regions: 1024, regionBytes: 4096 },
  });
  expect(resolve('B:op=register')).toMatchObject({ cores: 1, memory: { regions: 1, regionBytes: 1 << 20 } });
});

test.each([
  ['B:op=register,depth=2', 'app B: op=register posts nothing: leave out depth'],
  ['B:op=register,qpLife=1ms', 'app B: op=register posts nothing: leave out qpLife'],
  ['B:op=register,receives=2', 'app B: receives requires op=send: only SENDs need receives'],
  ['B:pds=each', 'app B: pds requires op=register'],
  ['B:op=write:1/cas:1', 'app B: op: only write, send and read can be mixed, because an atomic has 8 bytes'],
  ['B:op=cas,size=16', 'app B: size: an atomic operates on 8 bytes, not 16'],
])('%s is rejected', (text, message) => {
  expect(() => resolve(text)).toThrow(message);
});

test('compare-and-swap takes as long as fetch-and-add', async () => {
  const [cas, add] = [await run(['B:op=cas,size=8']), await run(['B:op=atomic,size=8'])];
  expect(cas.apps[0].errors).toBe(0);
  expect(cas.apps[0].completed).toBe(add.apps[0].completed);
});

// One replacement of a region of 16 pages: two commands, and the pages.
const PARAMS = { mrCommandNs: 20e3, pinPageNs: 300, unpinPageNs: 90 };
const PAGES_NS = 16 * 390;

test('a thread takes two commands and the time of its pages per region', async () => {
  const { apps } = await run(['B:op=register,size=64KiB'], { set: PARAMS });
  expect(apps[0].latencyUs?.avg).toBeCloseTo((2 * 20e3 + PAGES_NS) / 1000, 3);
  expect(apps[0].throughputGbps).toBe(0);
});

test('the threads of all applications of a host share its command queue', async () => {
  const app = 'op=register,size=4KiB,cores=4';
  const rate = (result: MixResult, n: number) => result.apps[n].messageRateMmps;
  const both = await run([`B:${app}`, `B:name=b,${app}`], { set: PARAMS });
  // 8 threads keep the queue busy: 25,000 regions per second.
  expect(rate(both, 0) + rate(both, 1)).toBeGreaterThan(0.95 * 0.025);
  expect(rate(both, 0) + rate(both, 1)).toBeLessThan(1.05 * 0.025);
  const apart = await run([`B:${app}`, `B:name=b,host=1,${app}`], { set: PARAMS });
  for (const n of [0, 1]) expect(rate(apart, n)).toBeGreaterThan(0.95 * 0.025);
});

test.each(['none', 'perf', 'fair', 'token-bucket'])(
  'registration runs next to others under %s',
  async (use) => {
    const { apps } = await run(
      ['B:op=register,cores=3,contexts=3,regions=8,size=4KiB,pds=each', 'B:name=v,size=64KiB,op=send'],
      { use },
    );
    for (const { errors, completed } of apps) expect([errors, completed > 10]).toEqual([0, true]);
  },
);

test('registration does nothing to others unless it flushes the caches', async () => {
  const victim = 'D:regions=64';
  const app = 'B:op=register,cores=6,regions=8,size=4KiB,host=1';
  const latency = async (apps: string[], set: NonNullable<Changes['set']>) =>
    (await run(apps, { set })).apps[0].latencyUs!;
  const still = { pcieJitter: 0, hostJitter: 0 };
  const alone = await latency([victim], still);
  expect((await latency([victim, app], still)).avg).toBeCloseTo(alone.avg, 6);
  const flushed = await latency([victim, app], { ...still, mrFlush: 'all' });
  // After a flush each 40 us, an access misses its region and its page unless it was used since: at most 2 DMA reads.
  const more = (flushed.avg - alone.avg) * 1000;
  expect(more).toBeGreaterThan(0.8 * 1000);
  expect(more).toBeLessThan(1.05 * 1000);
});

test('a script stops, closes and kills what registers', async () => {
  const app = 'B:op=register,size=4KiB,regions=4,pds=each';
  const whole = (await run([app, 'D'])).apps[0].completed;
  for (const action of ['close B', 'kill B']) {
    const { apps } = await run([app, 'D'], { script: [parseStep(`1ms:${action}`)] });
    expect(apps[0].completed).toBeGreaterThan(0.3 * whole);
    expect(apps[0].completed).toBeLessThan(0.6 * whole);
  }
  // Half of the time, the host stands still.
  const { apps } = await run([app, 'D'], { script: [parseStep('500us:stall 0 900us')] });
  expect(apps[0].completed).toBeLessThan(0.6 * whole);
});
