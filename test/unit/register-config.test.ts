// Sources of the configuration, and errors for invalid ones.
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { loadConfig, parsePolicies } from '../../src/config.ts';
import { ConfigError } from '../../src/verbs/errors.ts';

function folder(files: Record<string, string>): string {
  const cwd = mkdtempSync(join(tmpdir(), 'isoverbs-config-'));
  for (const [name, text] of Object.entries({ 'package.json': '{}', ...files }))
    writeFileSync(join(cwd, name), text);
  return cwd;
}
const load = (files: Record<string, string>, env: Record<string, string> = {}) =>
  loadConfig({ cwd: folder(files), env });

test('without configuration there is no policy', () => {
  expect(load({})).toEqual({
    policies: [],
    interceptors: [],
    driver: 'inline',
    log: 'warn',
    source: 'nothing',
    interceptorSource: 'nothing',
  });
});

test('parsePolicies() reads policies and their options from one line', () => {
  expect(parsePolicies('perf', 'x')).toEqual([{ name: 'perf', options: {} }]);
  expect(parsePolicies('perf:subMsgSizeBytes=16384,emulation=false,who=me', 'x')).toEqual([
    { name: 'perf', options: { subMsgSizeBytes: 16384, emulation: false, who: 'me' } },
  ]);
  expect(parsePolicies('perf: paper , x=2', 'x')).toEqual([{ name: 'perf', options: { paper: true, x: 2 } }]);
  expect(parsePolicies('a:x=1; b', 'x').map((policy) => policy.name)).toEqual(['a', 'b']);
  expect(parsePolicies('none', 'x')).toEqual([]);
  for (const bad of ['', ':x=1', 'perf:x y', 'perf:=1', 'a;;b', 'perf:a=1,,b=2']) {
    expect(() => parsePolicies(bad, 'HERE')).toThrow(ConfigError);
    expect(() => parsePolicies(bad, 'HERE')).toThrow('HERE');
  }
});

test.each([
  ['isoverbs.config.json', '{"policy":{"name":"perf","x":1},"device":"sim1","log":"info"}'],
  ['isoverbs.config.yaml', 'policy:\n  name: perf\n  x: 1\ndevice: sim1\nlog: info\n'],
  ['isoverbs.config.yml', 'policy: [perf:x=1]\ndevice: sim1\nlog: info\n'],
  ['isoverbs.config.mjs', 'export default { policy: [{ name: "perf", x: 1 }], device: "sim1", log: "info" }'],
  ['isoverbs.config.js', 'module.exports = { policy: "perf:x=1", device: "sim1", log: "info" }'],
  ['package.json', '{"isoverbs":{"policy":"perf:x=1","device":"sim1","log":"info"}}'],
])('loadConfig() reads %s', (name, text) => {
  expect(load({ [name]: text })).toMatchObject({
    policies: [{ name: 'perf', options: { x: 1 } }],
    device: 'sim1',
    log: 'info',
    source: expect.stringContaining(name),
  });
});

test('loadConfig() searches upwards as far as the nearest package.json', () => {
  const cwd = folder({ 'isoverbs.config.yaml': 'policy: perf' });
  mkdirSync(join(cwd, 'deep/er'), { recursive: true });
  expect(loadConfig({ cwd: join(cwd, 'deep/er'), env: {} }).policies).toHaveLength(1);
  writeFileSync(join(cwd, 'deep/package.json'), '{}');
  expect(loadConfig({ cwd: join(cwd, 'deep/er'), env: {} }).policies).toHaveLength(0);
});

test('variables override the file', () => {
  const files = { 'isoverbs.config.json': '{"policy":"perf","device":"a","tenant":"t","log":"info"}' };
  const env = {
    ISOVERBS_POLICY: 'none',
    ISOVERBS_DRIVER: 'worker',
    ISOVERBS_DEVICE: 'b',
    ISOVERBS_TENANT: 'u',
    ISOVERBS_LOG: 'debug',
  };
  expect(load(files, env)).toEqual({
    policies: [],
    interceptors: [],
    interceptorSource: expect.stringContaining('isoverbs.config.json'),
    device: 'b',
    tenant: 'u',
    driver: 'worker',
    log: 'debug',
    source: 'ISOVERBS_POLICY',
    file: expect.stringContaining('isoverbs.config.json'),
  });
  expect(load({ 'other.yaml': 'policy: perf' }, { ISOVERBS_CONFIG: 'other.yaml' }).policies).toHaveLength(1);
});

test.each([
  [
    '{"polcy":"perf"}',
    "polcy: unknown key; did you mean 'policy'? the keys are policy, interceptors, replay, device, tenant, facts, driver, labels, daemon, log",
  ],
  ['{"labels":{"weight":2}}', 'labels: '],
  ['{"labels":[{"weight":0}]}', 'labels.0.weight: must be a number from 1e-6 to 1e6'],
  [
    '{"labels":[{"weight":2},{"match":{"host":"a"},"group":"g"}]}',
    "labels.1.match.host: unknown key 'host'; use one of ",
  ],
  ['{"labels":[{"match":{"port":7},"weight":2}]}', "labels.0: 'weight' belongs to the tenant"],
  ['{"driver":"thread"}', 'driver: '],
  ['{"driver":{"name":"worker","cpu":-1}}', 'driver: cpu: must be a whole number'],
  ['{"driver":null}', 'driver: unknown driver null; use'],
  ['{"policy":5}', 'policy: must be a policy or a list of policies'],
  ['{"policy":{"nam":"perf"}}', 'policy: must be the name of a policy'],
  ['{"policy":["perf",{"name":5}]}', 'policy.1: must be the name of a policy'],
  ['{"policy":"perf:=x"}', "policy: perf: '=x' should be KEY=VALUE"],
  ['{"log":"loud"}', 'log: '],
  ['{"device":""}', 'device: '],
  ['{"tenant":7}', 'tenant: must be a text, got 7'],
  ['{"tenant":""}', 'tenant: must have 1 to 128 characters'],
  [`{"tenant":"${'t'.repeat(129)}"}`, 'tenant: must have 1 to 128 characters'],
  ['{"device"', 'cannot be read'],
  ['[]', 'isoverbs.config.json: '],
])('%s is rejected with the file and the key', (text, expected) => {
  const run = () => load({ 'isoverbs.config.json': text });
  expect(run).toThrow(ConfigError);
  expect(run).toThrow('isoverbs.config.json');
  expect(run).toThrow(expected);
});

test('a tenant whose name the daemon would refuse is rejected at the start', () => {
  expect(load({}, { ISOVERBS_TENANT: 't'.repeat(128) }).tenant).toHaveLength(128);
  const run = () => load({}, { ISOVERBS_TENANT: 't'.repeat(200) });
  expect(run).toThrow(ConfigError);
  expect(run).toThrow('ISOVERBS_TENANT: must have 1 to 128 characters, but has 200');
});

test('a file may contain labels and a daemon', () => {
  const yaml = `labels:
  - { match: { tenant: kv }, weight: 2, traffic: latency }
  - { match: { address: 10.0.0.*, port: 7000 }, group: kv }
daemon: { socket: /run/x.sock, weight: 3, traffic: latency, aloneGbps: 10 }`;
  const files = { 'isoverbs.config.yaml': yaml };
  expect(load(files)).toMatchObject({
    labels: [
      { match: { tenant: 'kv' }, weight: 2, traffic: 'latency' },
      { match: { address: '10.0.0.*', port: 7000 }, group: 'kv' },
    ],
    daemon: { socket: '/run/x.sock', weight: 3, traffic: 'latency', aloneGbps: 10 },
  });
  expect(load(files, { ISOVERBS_DAEMON: 'none' })).not.toHaveProperty('daemon');
  expect(load({ 'isoverbs.config.yaml': 'daemon: none' })).not.toHaveProperty('daemon');
  expect(load(files, { ISOVERBS_DAEMON: '/other' }).daemon).toEqual({ socket: '/other' });
});

test('the CPU of the worker is set by a string, an object or a variable', () => {
  expect(load({ 'isoverbs.config.yaml': 'driver: worker:cpu=3' }).driver).toBe('worker:cpu=3');
  const files = { 'isoverbs.config.yaml': 'driver: { name: worker, cpu: 3 }' };
  expect(load(files).driver).toBe('worker:cpu=3');
  expect(load(files, { ISOVERBS_DRIVER: 'worker:cpu=1' }).driver).toBe('worker:cpu=1');
});

test('interceptors keep their order and their side of the policies', () => {
  const expected = [
    { name: 'count', options: {}, inside: false },
    { name: 'trace', options: { file: 'a b.x' }, inside: true },
  ];
  const line = 'count;trace:file=a b.x,inside=true';
  expect(load({}, { ISOVERBS_INTERCEPTORS: line }).interceptors).toEqual(expected);
  const yaml = 'interceptors:\n  - count\n  - { name: trace, file: a b.x, inside: true }\n';
  const fromFile = load({ 'isoverbs.config.yaml': yaml });
  expect(fromFile.interceptors).toEqual(expected);
  expect(fromFile.interceptorSource).toContain('isoverbs.config.yaml');
  expect(load({ 'isoverbs.config.yaml': yaml }, { ISOVERBS_INTERCEPTORS: 'none' }).interceptors).toEqual([]);
  expect(() => load({}, { ISOVERBS_INTERCEPTORS: 'count:inside=2' })).toThrow(
    'ISOVERBS_INTERCEPTORS: count.inside: must be true or false, got 2',
  );
  const bad = '{"interceptors":["count",{"name":"trace","inside":"yes"}]}';
  expect(() => load({ 'isoverbs.config.json': bad })).toThrow(
    "interceptors.1: trace.inside: must be true or false, got 'yes'",
  );
  expect(() => load({ 'isoverbs.config.json': '{"interceptors":[{}]}' })).toThrow(
    'interceptors.0: must be the name of an interceptor',
  );
});

test('missing or unreadable files and unknown log levels are rejected', () => {
  expect(() => load({}, { ISOVERBS_CONFIG: 'absent.json' })).toThrow('absent.json');
  expect(() => load({}, { ISOVERBS_LOG: 'loud' })).toThrow('silent, error, warn, info, debug');
  expect(() => load({ 'isoverbs.config.yaml': 'a: [' })).toThrow('cannot be read');
  expect(() => load({ 'isoverbs.config.mjs': 'throw new Error("oops")' })).toThrow('oops');
  expect(load({ 'isoverbs.config.yaml': '' }).policies).toEqual([]);
});

test('ISOVERBS_WEIGHT has the range of the daemon', () => {
  const weightOf = (ISOVERBS_WEIGHT: string) =>
    load({}, { ISOVERBS_DAEMON: '/x', ISOVERBS_WEIGHT }).daemon?.weight;
  expect(weightOf('1e-6')).toBe(1e-6);
  for (const text of ['0', '9e-7', '2e6', 'x'])
    expect(() => weightOf(text), text).toThrowError(/ISOVERBS_WEIGHT.*number/);
});
