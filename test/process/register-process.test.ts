// `node --import isoverbs/register`, require('isoverbs') and leak reports, in child processes. Needs a build.
import { spawnSync } from 'node:child_process';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { eachShort, variants } from '../support/variants.ts';

const ROOT = resolve(import.meta.dirname, '../..');

function node(args: string[], env: Record<string, string> = {}) {
  const inherited = Object.fromEntries(
    Object.entries(process.env).filter(([key]) => !key.startsWith('ISOVERBS_')),
  );
  const child = spawnSync(process.execPath, args, {
    cwd: ROOT,
    env: { ...inherited, NODE_OPTIONS: '', ...env },
    encoding: 'utf8',
    timeout: 30_000,
  });
  return { code: child.status, out: child.stdout.trim(), err: child.stderr.trim() };
}

const REGISTER = ['--import', 'isoverbs/register', '--input-type=module', '-e'];
const OPEN = "import { openDevice } from 'isoverbs'; const c = openDevice('sim0');";

test('there is a build to test', () => {
  expect(existsSync(resolve(ROOT, 'dist/index.js')), 'run `npm run build` first').toBe(true);
});

test('require() works without warnings', () => {
  const script = `const i = require('isoverbs'); const v = require('isoverbs/verbs');
    const c = i.openDevice('sim0'); c.close();
    console.log(typeof v.ibv_post_send, v.IBV_WR_SEND, typeof require('isoverbs/sim').createFabric);`;
  expect(node(['-e', script])).toEqual({ code: 0, out: 'function 2 function', err: '' });
});

test('a registered policy wraps every context of an unchanged program', () => {
  const { code, out, err } = node(
    [...REGISTER, `${OPEN} console.log(c.provider.interceptors.join()); c.close();`],
    {
      ISOVERBS_POLICY: 'perf:subMsgSizeBytes=32768',
    },
  );
  expect({ code, out, err }).toEqual({ code: 0, out: 'perf', err: '' });
});

test('contexts share one policy unless the program names its own', () => {
  const script = `${OPEN} import { getDeviceList } from 'isoverbs';
    const d = openDevice('sim1'), bare = openDevice('sim1', { policy: null });
    const own = [openDevice('sim0', { policy: 'perf' }), openDevice('sim1', { policy: { name: 'perf' } })];
    console.log(c.provider === d.provider, bare.provider.interceptors.length, own[0].provider === own[1].provider);
    console.log(own[0].provider.interceptors.join(), c.provider !== own[0].provider, getDeviceList().length >= 2);`;
  expect(node([...REGISTER, script], { ISOVERBS_POLICY: 'perf' }).out).toBe('true 0 true\nperf true true');
});

variants('labels of the configuration reach the contexts, driver %s', ['inline', 'worker'], (driver) => {
  const file = join(tmpdir(), `isoverbs-labels-${process.pid}-${driver}.json`);
  const labels = [{ match: { tenant: 't', command: '*node*' }, group: 'g', traffic: 'latency' }];
  writeFileSync(file, JSON.stringify({ policy: 'perf', driver, labels }));
  const script = `import { openDevice } from 'isoverbs';
    for (const tenant of ['t', 'u']) {
      const c = openDevice('sim0', { tenant });
      const { group, traffic } = c.allocPd().createQp({ sendCq: c.createCq() }).query().attr;
      console.log(c.provider.interceptors.join(), group, traffic);
      c.closeAll();
    }`;
  const { code, out, err } = node([...REGISTER, script], { ISOVERBS_CONFIG: file });
  rmSync(file);
  expect({ code, out, err }).toEqual({ code: 0, out: 'labels,perf g 1\nlabels,perf  0', err: '' });
});

test('worker threads inherit the policy', () => {
  const script = `import { Worker } from 'node:worker_threads';
    new Worker("import('isoverbs').then((i) => { const c = i.openDevice(); console.log(c.provider.interceptors.join()); c.close(); })", { eval: true });`;
  expect(node([...REGISTER, script], { ISOVERBS_POLICY: 'perf' })).toEqual({ code: 0, out: 'perf', err: '' });
});

eachShort(2, [
  ['nope', "unknown policy 'nope'"],
  ['trace', "'trace' is an interceptor; list it in ISOVERBS_INTERCEPTORS"],
  ['perf:nope=1', "perf: there is no option 'nope'; there are: subMsgSizeBytes, "],
  ['perf:subMsgSizeBytes=1', 'perf.subMsgSizeBytes'],
])('ISOVERBS_POLICY=%s fails before the program starts', (policy, expected) => {
  const { code, out, err } = node([...REGISTER, "console.log('ran')"], { ISOVERBS_POLICY: policy });
  expect({ code, out }).toEqual({ code: 2, out: '' });
  expect(err).toMatch(/^isoverbs: ISOVERBS_POLICY: .* \(ISO_ERR_CONFIG\)$/);
  expect(err).toContain(expected);
});

eachShort(7, [
  [
    { ISOVERBS_PROVIDER: 'sfot' },
    2,
    "isoverbs: ISOVERBS_PROVIDER: unknown provider 'sfot'; did you mean 'soft'? use one of rdma-core, sim, soft",
  ],
  [{ ISOVERBS_LOG: 'loud' }, 2, 'isoverbs: ISOVERBS_LOG: unknown level'],
  [{ ISOVERBS_CONFIG: '/no/such/file.json' }, 2, 'isoverbs: '],
  [{ ISOVERBS_DRIVER: 'none' }, 2, 'isoverbs: ISOVERBS_DRIVER'],
  [{ ISOVERBS_SIM_HOSTS: 'x' }, 2, "isoverbs: ISOVERBS_SIM_HOSTS must be an integer from 1 to 4096, got 'x'"],
  [{ ISOVERBS_SEED: 'x' }, 2, 'isoverbs: ISOVERBS_SEED must be an integer from 0 to '],
  [
    { ISOVERBS_POLICY: 'perf', ISOVERBS_DRIVER: 'worker:cpu=65535' },
    2,
    'isoverbs: ISOVERBS_DRIVER: cpu: there is no CPU 65535',
  ],
  [{ ISOVERBS_FACTS: '/no/such/facts.json' }, 2, 'isoverbs: '],
  [{ ISOVERBS_REPLAY: '/no/such/recording' }, 1, 'isoverbs: '],
])('%j ends the program with one line', (env, code, expected) => {
  const ended = node([...REGISTER, "console.log('ran')"], env);
  expect(ended).toEqual({ code, out: '', err: expect.stringMatching(/^\S.*$/) });
  expect(ended.err.startsWith(expected)).toBe(true);
});

test('a worker thread with a wrong configuration fails with the error', () => {
  const script = `import { Worker } from 'node:worker_threads';
    const worker = new Worker('0', { eval: true, env: { ...process.env, ISOVERBS_POLICY: 'nope' } });
    worker.on('error', ({ code }) => console.log(code));`;
  expect(node([...REGISTER, script])).toEqual({ code: 0, out: 'ISO_ERR_CONFIG', err: '' });
});

test('ISOVERBS_LOG=info prints policies, devices and counts at exit', { tags: ['long'] }, () => {
  const env = { ISOVERBS_POLICY: 'perf', ISOVERBS_LOG: 'info' };
  expect(node([...REGISTER, `${OPEN} c.close();`], env).err).toBe(
    'isoverbs: policy perf (from ISOVERBS_POLICY); attached to 1 context(s) of sim0; 0 sends (0 split, 0 held, 0 emulated) and 0 receives posted, 0 completions',
  );
  expect(node([...REGISTER, '0'], env).err).toContain('attached to nothing: no device was opened');
  const options = { ...env, ISOVERBS_POLICY: 'perf:paper,subMsgSizeBytes=8KiB;chunk' };
  expect(node([...REGISTER, '0'], options).err).toContain(`policy ${options.ISOVERBS_POLICY} (from `);
  const worker = { ...env, ISOVERBS_DRIVER: 'worker' };
  expect(node([...REGISTER, `${OPEN} c.close();`], worker).err).toMatch(
    /^isoverbs: policy perf \(from ISOVERBS_POLICY\), in a worker thread; attached to 1 /,
  );
  expect(node([...REGISTER, '0'], { ISOVERBS_LOG: 'info' }).err).toContain('no policy');
  const file = join(tmpdir(), `isoverbs-${process.pid}-exit.trace`);
  try {
    const traced = { ISOVERBS_LOG: 'info', ISOVERBS_INTERCEPTORS: `trace:file=${file};count:inside=true` };
    expect(node([...REGISTER, `${OPEN} c.close();`], traced).err).toContain(
      `; interceptors trace (${file}), count; attached to 1 `,
    );
  } finally {
    rmSync(file, { force: true });
  }
});

test('interceptors keep their side of the policies, even of policies that the program names', () => {
  const script = `${OPEN} console.log(c.provider.interceptors.join());
    const d = openDevice('sim1', { policy: null });
    console.log(d.provider.interceptors.join());
    c.close(); d.close();`;
  const env = { ISOVERBS_POLICY: 'perf', ISOVERBS_INTERCEPTORS: 'count:inside=true;count' };
  expect(node([...REGISTER, script], env)).toEqual({
    code: 0,
    out: 'count,perf,count\ncount,count',
    err: '',
  });
  const wrong = node([...REGISTER, '0'], { ISOVERBS_INTERCEPTORS: 'cuont' });
  expect(wrong.code).toBe(2);
  expect(wrong.err).toContain(
    "ISOVERBS_INTERCEPTORS: interceptors: unknown interceptor 'cuont'; did you mean 'count'? available: count",
  );
  expect(node([...REGISTER, '0'], { ISOVERBS_INTERCEPTORS: 'perf' }).err).toContain(
    "ISOVERBS_INTERCEPTORS: interceptors: 'perf' is a policy; list it in ISOVERBS_POLICY",
  );
});

describe('options by tenant have no effect under a daemon', () => {
  const SOCKET = { ISOVERBS_DAEMON: '/no/such/socket' };

  eachShort(1, [
    ['fair:ratesGbps=bulk:1', 'fair.ratesGbps has', 'set bulk gbps=1`'],
    [
      'fair:ratesGbps=a:2/b:3,ratesRequestsPerS=a:1e6',
      'fair.ratesRequestsPerS have',
      'gbps=2 maxRequestsPerS=1000000`',
    ],
    ['token-bucket:weights=a:3;perf', 'token-bucket.weights has', 'set a weight=3`'],
    ['perf:ratesGbps=500:2.5', 'perf.ratesGbps has', 'set 500 gbps=2.5`'],
  ])('%s: one line says what to do', (policy, problem, wayOut) => {
    const script = "new (await import('node:worker_threads')).Worker('0', { eval: true })";
    const { code, err } = node([...REGISTER, script], { ...SOCKET, ISOVERBS_POLICY: policy });
    expect(code).toBe(0);
    expect(err.split('\n')).toEqual([expect.stringContaining(`${problem} no effect under the daemon`)]);
    expect(err).toMatch(/^isoverbs: /);
    expect(err).toContain(wayOut);
  });

  eachShort<Record<string, string>>(2, [
    { ISOVERBS_POLICY: 'fair:ratesGbps=bulk:1' },
    { ISOVERBS_POLICY: 'fair:ratesGbps=bulk:1', ISOVERBS_DAEMON: 'none' },
    { ...SOCKET, ISOVERBS_POLICY: 'fair:targetUs=5;token-bucket;palos;justitia' },
    { ...SOCKET, ISOVERBS_POLICY: 'fair:ratesGbps=bulk:1', ISOVERBS_LOG: 'error' },
  ])('with %j, there is no such line', (env) => {
    expect(node([...REGISTER, '0'], env)).toEqual({ code: 0, out: '', err: '' });
  });
});

test('loading isoverbs/register too late gives a warning', () => {
  const script = `${OPEN} await import('isoverbs/register'); console.log(openDevice('sim1').provider.interceptors.join())`;
  const { out, err } = node(['--input-type=module', '-e', script], { ISOVERBS_POLICY: 'perf' });
  expect(err).toContain('[ISO_LATE]');
  expect(out).toBe('perf');
});

variants(
  'a facts file reaches the contexts, with one warning if it is stale, driver %s',
  ['inline', 'worker'],
  (driver) => {
    const file = join(tmpdir(), `isoverbs-facts-${process.pid}-${driver}.json`);
    const measured = { maxGbps: 9, maxMmps: 2, qpMmps: 1, chunks: null, tailNs: null };
    const identity = { device: 'sim0', driver: 'sim', firmware: '0.1', mtuBytes: 4096, linkGbps: 7 };
    const facts = { format: 'isoverbs-facts-1', date: '2026-01-02T03:04:05Z', ...identity, ...measured };
    const script = `${OPEN} const d = openDevice('sim0');
    console.log(c.provider.interceptors.join(), d.provider.describeNic(d.handle).maxGbps); c.close(); d.close();`;
    const env = { ISOVERBS_FACTS: file, ISOVERBS_POLICY: 'perf', ISOVERBS_DRIVER: driver };
    writeFileSync(file, JSON.stringify(facts));
    const { code, out, err } = node([...REGISTER, script], env);
    expect({ code, out }).toEqual({ code: 0, out: 'perf,facts 9' });
    expect(err.match(/\[ISO_STALE_FACTS\].*link rate 7, now 100/g)).toHaveLength(1);
    writeFileSync(file, JSON.stringify(facts).slice(0, 50));
    const torn = node([...REGISTER, script], env);
    rmSync(file);
    expect(torn).toMatchObject({ code: 2, out: '', err: expect.stringContaining('ISO_ERR_CONFIG') });
    expect(torn.err).toContain(`isoverbs calibrate --out ${file}`);
  },
);

test('ISOVERBS_DEVICE and ISOVERBS_TENANT set defaults; the error for an unknown device lists the known ones', () => {
  const script =
    "import { openDevice } from 'isoverbs'; const c = openDevice(); console.log(c.name, c.tenant);";
  const run = (env: Record<string, string>) => node(['--input-type=module', '-e', script], env);
  expect(run({ ISOVERBS_DEVICE: 'sim1', ISOVERBS_TENANT: 'blue' }).out).toBe('sim1 blue');
  const { code, err } = run({ ISOVERBS_DEVICE: 'mlx9_9' });
  expect(code).toBe(1);
  expect(err).toContain("no device 'mlx9_9' (from ISOVERBS_DEVICE); available: ");
  expect(err).toContain('sim0, sim1');
  expect(err).toContain('ISO_ERR_NO_DEVICE');
});

test('a leaked context is reported once; a closed one is not', () => {
  const script = `import { openDevice } from 'isoverbs';
    (() => { openDevice('sim0').createCq(); openDevice('sim1').allocPd(); openDevice('sim0').close(); })();
    for (let i = 0; i < 10; i++) { globalThis.gc(); await new Promise((r) => setTimeout(r, 5)); }`;
  const { code, err } = node(['--expose-gc', '--input-type=module', '-e', script]);
  expect(code).toBe(0);
  expect(err.match(/\[ISO_LEAK\]/g)).toHaveLength(1);
});
