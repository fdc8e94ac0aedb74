/**
 * What fair gives tenants that share a link without seeing each other: hosts that send to one receiver, and hosts that
 * READ from a host that also sends. The bounds were written down before the first run.
 */
// @module-tag wide
import { expect, test } from 'vitest';
import { parseApp } from '../../src/mix/parse.ts';
import { runMix } from '../../src/mix/run.ts';
import { parseStep } from '../../src/mix/script/script.ts';
import { DEFAULTS, type MixSpec } from '../../src/mix/spec.ts';
import { eachShort } from '../support/variants.ts';

const MS = 1e6;
/** The payload of a link of 100 Gbit/s in packets of 4096 bytes. */
const LINK_GBPS = 98;

async function run(apps: readonly string[], more: Partial<MixSpec> = {}) {
  const result = await runMix({
    ...{ ...DEFAULTS, profile: 'cx6-100g', payload: false, policy: 'fair' },
    ...{ warmupNs: 3 * MS, durationNs: 5 * MS },
    ...more,
    apps: apps.map(parseApp),
  });
  expect(result.invariants).toEqual([]);
  return result;
}

const READER = 'B:name=reader,op=read,host=0,to=1';
const SMALL = 'size=8,batch=8,qps=64,depth=128,contexts=8,cores=8,host=1,to=0';

eachShort(2, [
  ['WRITEs of 8 bytes', `M:name=other,op=write,${SMALL}`],
  ['READs of 8 bytes, whose requests go the same way', `M:name=other,op=read,${SMALL}`],
  ['SENDs of 8 bytes', `M:name=other,op=send,${SMALL}`],
])('READs get half of the link next to %s of the peer', async (_what, other) => {
  const { apps } = await run([READER, other]);
  expect(apps[0].throughputGbps).toBeGreaterThan(0.45 * LINK_GBPS);
});

test('WRITEs get half of the link next to READs of the peer', async () => {
  const { apps } = await run(['B:name=writer,size=4096,host=0,to=1', `M:name=other,op=read,${SMALL}`]);
  expect(apps[0].throughputGbps).toBeGreaterThan(0.45 * LINK_GBPS);
});

const SENDERS = ['B:name=a,host=0,to=2', 'B:name=b,weight=3,host=1,to=2'];
const INCAST = { hosts: 3, topology: 'star', set: { congestionControl: 'dcqcn' } } as const;

test('hosts share the link of their receiver by weight', async () => {
  const { apps } = await run(SENDERS, INCAST);
  const [a, b] = apps.map(({ throughputGbps }) => throughputGbps);
  expect(b / a).toBeGreaterThan(2.7);
  expect(b / a).toBeLessThan(3.3);
  expect(a + b).toBeGreaterThan(0.95 * LINK_GBPS);
});

test('the others get what one host leaves of the link of a receiver', async () => {
  const { apps } = await run(
    ['B:name=a,host=0,to=2,depth=1,size=4096,think=5us', 'B:name=b,host=1,to=2'],
    INCAST,
  );
  const [a, b] = apps.map(({ throughputGbps }) => throughputGbps);
  expect(a + b).toBeGreaterThan(0.95 * LINK_GBPS);
});

test('no queue stays in front of the link of a receiver that many hosts send to', async () => {
  const apps = ['B:count=16,host=0-15,to=17', 'D:name=d,think=1us,host=16,to=17'];
  const incast = { ...INCAST, hosts: 18 };
  const script = [parseStep('0:agent down')];
  const [fair, without] = [await run(apps, incast), await run(apps, { ...incast, script })];
  const avg = ({ apps: all }: typeof fair) => all.at(-1)!.latencyUs!.avg;
  expect(avg(fair)).toBeLessThan(0.1 * avg(without));
  const sum = fair.apps.reduce((total, { throughputGbps }) => total + throughputGbps, 0);
  expect(sum).toBeGreaterThan(0.95 * LINK_GBPS);
});

test.each([
  ['the agent of the receiver is down from the start', '0:agent 2 down'],
  ['the agent of the receiver fails', '2ms:agent 2 down'],
  ['the agents of all hosts fail at once', '2ms:agent down'],
])('hosts are not limited for long if %s', async (_when, step) => {
  const { apps } = await run(SENDERS, { ...INCAST, script: [parseStep(step)] });
  const [a, b] = apps.map(({ throughputGbps }) => throughputGbps);
  expect(a + b).toBeGreaterThan(0.9 * LINK_GBPS);
  // Without limits, DCQCN shares the link in its own way.
  expect(b / a).toBeLessThan(2.5);
});
