// How a mix is written: keys, units, defaults.
import { expect, test } from 'vitest';
import { parseApp, parsePolicy, parseSet } from '../../src/mix/parse.ts';
import { appsOf, paramsOf } from '../../src/mix/resolve.ts';
import { type AppSpec, DEFAULTS, type MixSpec } from '../../src/mix/spec.ts';

const resolve = (apps: AppSpec[], more: Partial<MixSpec> = {}) => {
  const spec = { ...DEFAULTS, ...more, apps };
  return appsOf(spec, paramsOf(spec));
};

test('parseApp() reads every key', () => {
  const text =
    'B:name=x,op=read,size=64-4KiB,qps=2,count=3,depth=8,batch=4,think=5us,host=1,to=0,tenant=t,group=g,groupWeight=3,weight=2,' +
    'qpWeight=0.5,kind=bandwidth,class=low,rate=1.5Gbps,start=1ms,stop=0.01s,cores=1,transport=rc,inline=no,' +
    'contexts=2,qpLife=1ms,contextLife=2ms,burst=3us/0.1ms,regions=4,regionSize=64KiB,buffers=16,access=random,' +
    'receives=none,rnrTimer=longest,pds=each';
  expect(parseApp(text)).toEqual({
    kind: 'B',
    name: 'x',
    op: 'read',
    sizeBytes: [64, 4096],
    qps: 2,
    count: 3,
    depth: 8,
    batch: 4,
    thinkNs: 5000,
    host: 1,
    to: 0,
    tenant: 't',
    group: 'g',
    groupWeight: 3,
    weight: 2,
    qpWeight: 0.5,
    traffic: 'bandwidth',
    class: 1,
    rateGbps: 1.5,
    startNs: 1e6,
    stopNs: 1e7,
    cores: 1,
    transport: 'rc',
    inline: 'no',
    contexts: 2,
    qpLifeNs: 1e6,
    contextLifeNs: 2e6,
    burst: { burstNs: 3000, pauseNs: 1e5 },
    regions: 4,
    regionBytes: 65536,
    buffers: 16,
    access: 'random',
    receives: 0,
    rnrTimer: 0,
    pds: 'each',
  });
});

test.each([
  ['16', 16],
  ['16B', 16],
  ['1KB', 1000],
  ['1KiB', 1024],
  ['1.5KiB', 1536],
  ['1MB', 1e6],
  ['1MiB', 2 ** 20],
  ['1GB', 1e9],
  ['1GiB', 2 ** 30],
])('parseApp() reads a size of %s', (text, bytes) => {
  expect(parseApp(`B:size=${text}`).sizeBytes).toBe(bytes);
});

test('each kind has its defaults', () => {
  const [b, m, d] = resolve([{ kind: 'B' }, { kind: 'M' }, { kind: 'D' }]);
  const common = { op: 'write', transport: 'rc', qps: 1, cores: 1, host: 0, to: 1, thinkNs: 0, class: 0 };
  expect(b).toMatchObject({ ...common, name: 'B', depth: 4, batch: 1, maxBytes: 1 << 20, inline: false });
  expect(m).toMatchObject({ ...common, name: 'M', depth: 128, batch: 32, maxBytes: 16, inline: false });
  expect(d).toMatchObject({ ...common, name: 'D', depth: 1, batch: 1, maxBytes: 16, inline: true });
  expect(b).toMatchObject({
    tenant: 'B',
    weight: 1,
    qpLabels: {},
    startNs: 0,
    stopNs: 20e6,
    minBytes: 1 << 20,
  });
});

test('copies are numbered, and each is its own tenant by default', () => {
  const apps = resolve([
    { kind: 'M', count: 2 },
    { kind: 'D', count: 2, name: 'x', tenant: 't' },
    { kind: 'B' },
  ]);
  expect(apps.map(({ name, tenant }) => [name, tenant])).toEqual([
    ['M.0', 'M.0'],
    ['M.1', 'M.1'],
    ['x.0', 't'],
    ['x.1', 't'],
    ['B', 'B'],
  ]);
});

test('applications without a name get distinct ones', () => {
  const names = resolve([{ kind: 'B' }, { kind: 'B' }, { kind: 'B', name: 'B-3' }, { kind: 'B' }]).map(
    ({ name }) => name,
  );
  expect(names).toEqual(['B', 'B-2', 'B-3', 'B-4']);
});

test('copies take the hosts of a range in turn', () => {
  const apps = resolve([{ kind: 'B', count: 4, host: [1, 3] }], { hosts: 4 });
  expect(apps.map(({ host, to }) => [host, to])).toEqual([
    [1, 0],
    [2, 0],
    [3, 0],
    [1, 0],
  ]);
});

test('depth limits the default batch, and batch raises the default depth', () => {
  const [m, b] = resolve([
    { kind: 'M', depth: 8 },
    { kind: 'B', batch: 100 },
  ]);
  expect([m.depth, m.batch, b.depth, b.batch]).toEqual([8, 8, 100, 100]);
});

test('parseSet() reads units, lists and words', () => {
  expect(parseSet('linkGbps=40')).toEqual(['linkGbps', 40]);
  expect(parseSet('egressFifoBytes=16KiB')).toEqual(['egressFifoBytes', 16384]);
  expect(parseSet('dmaReadNs=0.5us')).toEqual(['dmaReadNs', 500]);
  expect(parseSet('qpcEntries=inf')).toEqual(['qpcEntries', Number.POSITIVE_INFINITY]);
  expect(parseSet('etsWeights=16,1')).toEqual(['etsWeights', [16, 1]]);
  expect(parseSet('rrOrder=fixed')).toEqual(['rrOrder', 'fixed']);
  expect(paramsOf({ profile: 'cx6-100g', set: { linkGbps: 40 } }).linkGbps).toBe(40);
});

test('parsePolicy() reads options', () => {
  expect(parsePolicy('perf')).toEqual({ policy: 'perf', policyOptions: {} });
  expect(parsePolicy('perf:paper,feedPieces=2').policyOptions).toEqual({ paper: 'true', feedPieces: '2' });
  expect(parsePolicy('perf:feedPieces=2,subMsgSizeBytes=8192')).toEqual({
    policy: 'perf',
    policyOptions: { feedPieces: '2', subMsgSizeBytes: '8192' },
  });
});
